"""The verbs that take nouns. Every kind is a noun; which kinds there are is data, not code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ctl.cli.groups import Entry, Group
from ctl.cli.options import domain_option, global_options, project_option
from ctl.cli.session import Session
from ctl.client.errors import ClientError
from ctl.client.kinds import Kind, built_in, by_word
from ctl.client.nouns import collection, json_key, plural
from ctl.client.words import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LOOKUP_SECONDS = 5.0
_COMPLETION_SECONDS = 1.0

_DECLARED = """
Kinds that your platform team declared are nouns too; `rainbowctl get kind` lists them. Every noun may have a
plural `s`.
"""


class KindGroup(Group):
    """A verb that takes its own nouns and those of all kinds."""

    def find_other_command(self, ctx: click.Context, name: str, args: list[str]) -> click.Command | None:
        session = ctx.ensure_object(Session)
        kind = by_word(built_in(), name)
        if kind is None:
            _remember_flags(session, args)
            kind = self._declared(ctx, session, name)
        if kind is None:
            return None
        from ctl.commands.attributes.command import attribute_command

        return attribute_command(str(self.name), kind)

    def _declared(self, ctx: click.Context, session: Session, name: str) -> Kind | None:
        seconds = _COMPLETION_SECONDS if ctx.resilient_parsing else _LOOKUP_SECONDS
        try:
            with session.client_with_timeout(seconds) as client:
                kinds = client.kinds()
        except ClientError as error:
            if ctx.resilient_parsing:
                return None
            # A user who writes `workflow-priority` does not mean the noun `workflow`.
            known = [noun for noun in self._nouns(ctx, built_in()) if not name.startswith(f"{noun}-")]
            hint = did_you_mean(name, known)
            message = (
                f"No built-in noun is called {name!r}.{hint} It may be a kind your platform team declared, but that "
                f"cannot be looked up: {error.message}"
            )
            if hint:
                raise click.UsageError(message, ctx) from error
            # Most likely the noun is right and only the admin is down, so the exit status is that of the error.
            error.message = message
            raise
        kind = by_word(kinds, name)
        if kind is None and not ctx.resilient_parsing:
            hint = did_you_mean(name, self._nouns(ctx, kinds)) or " `rainbowctl get kind` lists the kinds."
            raise click.UsageError(f"There is no noun {name!r}.{hint}", ctx)
        return kind

    def _nouns(self, ctx: click.Context, kinds: Sequence[Kind]) -> list[str]:
        return [*self.list_commands(ctx), *(kind.noun for kind in kinds)]

    def summaries(self) -> list[tuple[str, list[tuple[str, str]]]]:
        return [*super().summaries(), ("Kinds", [(kind.noun, kind.title) for kind in built_in()])]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from ctl.cli.completion import declared_kinds

        kinds = declared_kinds(ctx.ensure_object(Session))
        return [
            *super().shell_complete(ctx, incomplete),
            *(CompletionItem(kind.noun, help=kind.title) for kind in kinds if kind.noun.startswith(incomplete)),
        ]


def _remember_flags(session: Session, args: list[str]) -> None:
    """
    Store the global flags after the noun before the noun is looked up.

    Whether `workflow-priority` is a noun depends on the admin, and `--endpoint` says which admin.
    """
    scout = click.Command(
        "scout",
        params=[project_option(), domain_option(), *global_options()],
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    )
    scout.make_context("scout", list(args), obj=session, resilient_parsing=True)


def _execution(summary: str, place: str) -> Entry:
    return Entry(summary=summary, place=f"ctl.commands.executions.{place}", aliases=("executions",))


def _fleet(verb: str) -> dict[str, Entry]:
    """Clusters, pools and labels, which every verb takes."""
    summaries = {
        "cluster": "A cluster: a place that runs work",
        "pool": "A pool: clusters that a run may ask for",
        "label": "A label: clusters that settings route by",
    }
    return {
        noun: Entry(
            summary=summary,
            place=f"ctl.commands.fleet.{collection(noun)}:{verb}_{json_key(noun)}",
            aliases=(plural(noun),),
        )
        for noun, summary in summaries.items()
    }


def _token(summary: str, verb: str) -> Entry:
    return Entry(summary=summary, place=f"ctl.commands.fleet.tokens:{verb}_token", aliases=("tokens",))


def _registered(noun: str, verb: str, summary: str) -> Entry:
    module = "launchplans" if noun == "launchplan" else "workflows"
    aliases = (f"{noun}s", "launch-plan", "launch-plans") if noun == "launchplan" else (f"{noun}s",)
    return Entry(summary=summary, place=f"ctl.commands.registrations.{module}:{verb}_{noun}", aliases=aliases)


def get() -> click.Command:
    return KindGroup(
        "get",
        word="noun",
        help="Show settings, projects, the fleet and executions.",
        entries={
            "project": Entry(summary="Projects", place="ctl.commands.projects.get:get_project", aliases=("projects",)),
            "domain": Entry(summary="Domains", place="ctl.commands.domains:get_domain", aliases=("domains",)),
            "kind": Entry(
                summary="Kinds: what can be set, and their fields",
                place="ctl.commands.kinds:get_kind",
                aliases=("kinds",),
            ),
            "warnings": Entry(
                summary="Warnings about stored settings",
                place="ctl.commands.warnings:get_warnings",
                aliases=("warning",),
            ),
            "execution": _execution("Executions", "get:get_execution"),
            "execution-event": Entry(
                summary="What happened to an execution",
                place="ctl.commands.executions.events:get_execution_event",
                aliases=("execution-events",),
            ),
            "output": Entry(
                summary="Output files of an execution",
                place="ctl.commands.executions.outputs:get_output",
                aliases=("outputs",),
            ),
            "placement-counts": Entry(
                summary="How many executions went where",
                place="ctl.commands.placement.counts:get_placement_counts",
                aliases=("placement-count",),
            ),
            **_fleet("get"),
            "cluster-event": Entry(
                summary="What happened to a cluster",
                place="ctl.commands.fleet.clusters:get_cluster_event",
                aliases=("cluster-events",),
            ),
            "token": _token("Tokens of a cluster's agent", "get"),
            "workflow": _registered("workflow", "get", "Workflows and their versions"),
            "task": _registered("task", "get", "The same as workflow: tasks are registered as workflows"),
            "launchplan": _registered("launchplan", "get", "Launch plans and their versions"),
        },
        examples=[
            "rainbowctl get execution-cluster-label -p flyteexamples -d development",
            "rainbowctl get task-resource-attributes -A -o wide",
            "rainbowctl get project",
        ],
        epilog=_DECLARED,
    )


def create() -> click.Command:
    return Group(
        "create",
        word="noun",
        help="Create something new.",
        entries={
            "project": Entry(
                summary="A project", place="ctl.commands.projects.create:create_project", aliases=("projects",)
            ),
            "execution": _execution("An execution: run something", "create:create_execution"),
            **_fleet("create"),
            "workflow": _registered("workflow", "create", "A version of a workflow"),
            "launchplan": _registered("launchplan", "create", "A version of a launch plan"),
        },
        examples=[
            "rainbowctl create project --id flyteexamples --name 'Flyte examples'",
            "rainbowctl create execution -p flyteexamples -d development -- python train.py",
        ],
    )


def update() -> click.Command:
    return KindGroup(
        "update",
        word="noun",
        help="Change something: shows the difference, asks on a terminal, then writes.",
        entries={
            "project": Entry(
                summary="A project's name, description, labels or state",
                place="ctl.commands.projects.update:update_project",
                aliases=("projects",),
            ),
            "execution": _execution("Archive an execution, or make it active again", "update:update_execution"),
            **_fleet("update"),
            "cluster-state": Entry(
                summary="The state of a cluster, in place of its agent",
                place="ctl.commands.fleet.clusters:update_cluster_state",
            ),
            "launchplan": _registered("launchplan", "update", "Activate or deactivate a launch plan"),
        },
        examples=[
            "rainbowctl update execution-cluster-label --attrFile ec.yaml",
            "rainbowctl update task-resource-attribute -p flyteexamples -d development --limits.memory 2Gi",
        ],
        epilog=_DECLARED,
    )


def edit() -> click.Command:
    return KindGroup(
        "edit",
        word="noun",
        help="Change what is set at one scope in your editor: $VISUAL, else $EDITOR, else vi.",
        entries={},
        examples=["rainbowctl edit task-resource-attribute -p flyteexamples -d development"],
        epilog=_DECLARED,
    )


def delete() -> click.Command:
    return KindGroup(
        "delete",
        word="noun",
        help="Delete a setting at exactly one scope, or part of the fleet; end executions; revoke tokens.",
        entries={
            "execution": _execution("End executions", "delete:delete_execution"),
            **_fleet("delete"),
            "token": _token("Revoke a token of a cluster's agent", "delete"),
        },
        examples=[
            "rainbowctl delete execution-cluster-label -p flyteexamples -d development",
            "rainbowctl delete execution nightly -p flyteexamples -d development --cause 'wrong inputs'",
        ],
        epilog=_DECLARED,
    )


def rotate() -> click.Command:
    return Group(
        "rotate",
        word="noun",
        help="Replace a secret by a new one.",
        entries={"token": _token("The token of a cluster's agent", "rotate")},
        examples=["rainbowctl rotate token a --newTokenFile a.token"],
    )


def wait() -> click.Command:
    return Group(
        "wait",
        word="noun",
        help="Wait for a condition.",
        entries={
            "execution": Entry(
                summary="Until an execution is in a phase, on a cluster, or finished",
                place="ctl.commands.executions.wait:wait_execution",
                aliases=("executions",),
            )
        },
        examples=["rainbowctl wait execution nightly -p flyteexamples -d development --for=phase=SUCCEEDED"],
    )
