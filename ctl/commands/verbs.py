"""The verbs that take nouns. Every kind is a noun; which kinds there are is data, not code."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

import click

from ctl.cli.groups import Entry, Group
from ctl.cli.options import GLOBAL_OPTIONS, domain_option, project_option
from ctl.cli.session import Session
from ctl.client.errors import ClientError
from ctl.client.kinds import Kind, built_in, by_word
from ctl.client.nouns import plural
from ctl.client.words import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LOOKUP_SECONDS = 5.0
_COMPLETION_SECONDS = 1.0

_DECLARED = """
Kinds that your platform team declared are nouns too; `rainbowctl get kind` lists them. Every noun may have a
plural `s`.
"""


class NounGroup(Group):
    """A verb that takes nouns, in singular and plural."""

    word = "noun"

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for noun in (name, plural(name), name.removesuffix("s")):
            if command := super().get_command(ctx, noun):
                return command
        return None

    def variable(self, word: str) -> str:
        return f"{self.name}_{super().variable(word)}"


class KindGroup(NounGroup):
    """A verb that takes its own nouns and those of all kinds."""

    def find_other_command(self, ctx: click.Context, name: str, args: list[str]) -> click.Command | None:
        session = ctx.ensure_object(Session)
        kind = by_word(built_in(), name)
        if kind is None:
            _remember_flags(session, args)
            kind = self._declared(ctx, session, name)
        return attribute_command(str(self.name), kind) if kind else None

    def _declared(self, ctx: click.Context, session: Session, name: str) -> Kind | None:
        seconds = _COMPLETION_SECONDS if ctx.resilient_parsing else _LOOKUP_SECONDS
        try:
            with session.client_with_timeout(seconds) as client:
                kinds = client.kinds()
        except ClientError as error:
            if ctx.resilient_parsing:
                return None
            if instead := self.instead(name):
                raise click.UsageError(f"There is no noun {name!r}{instead}", ctx) from error
            # A user who writes `workflow-priority` does not mean the noun `workflow`.
            nouns = [noun for noun in self._nouns(ctx, built_in()) if not name.startswith(f"{noun}-")]
            hint = did_you_mean(name, nouns)
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
            raise click.UsageError(f"There is no noun {name!r}{self.instead(name) or f'.{hint}'}", ctx)
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
        params=[project_option(), domain_option(), *GLOBAL_OPTIONS],
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    )
    scout.make_context("scout", list(args), obj=session, resilient_parsing=True)


def attribute_command(verb: str, kind: Kind) -> click.Command:
    """The command for one verb and one kind."""
    module = import_module(f"ctl.commands.attributes.{verb}")
    return cast(click.Command, getattr(module, f"{verb}_attribute")(kind))


#: Clusters, pools, labels and token pools, which every verb takes.
_FLEET = {
    "cluster": Entry(summary="A cluster: a place that runs work", place="fleet.clusters"),
    "pool": Entry(summary="A pool: clusters that a run may ask for", place="fleet.pools"),
    "label": Entry(summary="A label: clusters that settings route by", place="fleet.labels"),
    "token-pool": Entry(summary="A token pool: tokens that work holds while it runs", place="fleet.token_pools"),
}
#: People and service accounts.
_USERS = {
    "user": Entry(summary="A user: a person or a service account", place="users.users"),
    "service-account": Entry(summary="A service account: a user that is a program", place="users.service_accounts"),
}


#: Groups of users and of clusters, which every verb takes.
_GROUP = {
    "group": Entry(summary="A group of users, to which roles can be given", place="access.groups"),
    "cluster-group": Entry(summary="A group of clusters, whose use can be granted", place="access.cluster_groups"),
}


def _launchplan(summary: str, place: str) -> Entry:
    return Entry(summary=summary, place=f"registrations.{place}", aliases=("launch-plan",))


get = KindGroup(
    "get",
    help="Show settings, projects, the fleet, executions and users.",
    entries={
        "all": Entry(summary="What is defined, of all nouns, and who defined it", place="changes.definitions"),
        "project": Entry(summary="Projects", place="projects.get"),
        "domain": Entry(summary="Domains", place="domains"),
        "kind": Entry(summary="Kinds: what can be set, and their fields", place="kinds"),
        "scope": Entry(summary="Scopes right below one, and what is set there", place="scopes"),
        "warnings": Entry(summary="Warnings about stored settings", place="warnings"),
        "no-effect": Entry(summary="Stored settings that affect no execution, and why", place="warnings"),
        "reconciliation": Entry(
            summary="Clusters that a restored database does not agree with yet", place="reconciliations"
        ),
        "cluster-resources": Entry(
            summary="Namespaces of projects, and what became of them on clusters", place="cluster_resources.get"
        ),
        "clock": Entry(summary="The admin's clock, and whether it is trusted", place="clock"),
        "health": Entry(summary="How the admin itself fares, and what is wrong", place="health"),
        "admin-config": Entry(summary="The configuration that the admin runs with", place="admin_config"),
        "execution": Entry(summary="Executions", place="executions.get"),
        "execution-event": Entry(summary="What happened to an execution", place="executions.get"),
        "output": Entry(summary="Output files of an execution", place="executions.outputs"),
        "placement-counts": Entry(summary="How many executions went where", place="placement.counts"),
        **_FLEET,
        "cluster-event": Entry(summary="What happened to a cluster", place="fleet.clusters"),
        "cluster-description": Entry(
            summary="The revisions of a cluster's description", place="fleet.cluster_descriptions"
        ),
        **_GROUP,
        "grant": Entry(summary="Grants: which roles users and groups have, and where", place="access.grants"),
        "use-grant": Entry(summary="Use grants: who may use which clusters", place="access.use_grants"),
        "role": Entry(summary="Roles and their permissions", place="access.roles"),
        "access": Entry(summary="Who may do what at a scope, or what a user may do everywhere", place="access.access"),
        "token": Entry(summary="Tokens of a cluster's agent", place="fleet.tokens"),
        **_USERS,
        "user-token": Entry(summary="Tokens of a user", place="users.tokens"),
        "session": Entry(summary="Who is signed in at the console", place="users.sessions"),
        "audit": Entry(summary="Logins, what was done with tokens, and denied requests", place="audit"),
        "workflow": Entry(summary="Workflows and their versions", place="registrations.workflows"),
        "task": Entry(
            summary="The same as workflow: tasks are registered as workflows", place="registrations.workflows"
        ),
        "launchplan": _launchplan("Launch plans and their versions", "launchplans"),
    },
    examples=[
        "rainbowctl get execution-cluster-label -p flyteexamples -d development",
        "rainbowctl get task-resource-attributes -A -o wide",
        "rainbowctl get project",
    ],
    epilog=_DECLARED,
)

create = NounGroup(
    "create",
    help="Create something new.",
    entries={
        "project": Entry(summary="A project", place="projects.create"),
        "execution": Entry(summary="An execution: run something", place="executions.create"),
        **_FLEET,
        **_USERS,
        "user-token": Entry(summary="A token of a user", place="users.tokens"),
        **_GROUP,
        "grant": Entry(summary="A grant: a role for a user or group on a scope", place="access.grants"),
        "use-grant": Entry(summary="A use grant: a user, group or project may use clusters", place="access.use_grants"),
        "workflow": Entry(summary="A version of a workflow", place="registrations.create"),
        "launchplan": _launchplan("A version of a launch plan", "create"),
    },
    examples=[
        "rainbowctl create project --id flyteexamples --name 'Flyte examples'",
        "rainbowctl create execution -p flyteexamples -d development -- python train.py",
    ],
)

update = KindGroup(
    "update",
    help="Change something: shows the difference, asks on a terminal, then writes.",
    entries={
        "project": Entry(summary="A project's name, description, labels or state", place="projects.update"),
        "execution": Entry(summary="Archive an execution, or make it active again", place="executions.update"),
        **_FLEET,
        **_USERS,
        **_GROUP,
        "cluster-state": Entry(summary="The state of a cluster, in place of its agent", place="fleet.clusters"),
        "cluster-description": Entry(
            summary="The description of a cluster: what it has, as a graph", place="fleet.cluster_descriptions"
        ),
        "launchplan": _launchplan("Activate or deactivate a launch plan", "launchplans"),
    },
    examples=[
        "rainbowctl update execution-cluster-label --attrFile ec.yaml",
        "rainbowctl update task-resource-attribute -p flyteexamples -d development --limits.memory 2Gi",
    ],
    epilog=_DECLARED,
)

edit = KindGroup(
    "edit",
    help="Change what is set at one scope in your editor: $VISUAL, else $EDITOR, else vi.",
    entries={},
    examples=["rainbowctl edit task-resource-attribute -p flyteexamples -d development"],
    epilog=_DECLARED,
)

delete = KindGroup(
    "delete",
    help="Delete a setting at exactly one scope, part of the fleet, or a user; end executions; revoke tokens.",
    entries={
        "execution": Entry(summary="End executions", place="executions.delete"),
        **_FLEET,
        **_GROUP,
        "grant": Entry(summary="Take a role away", place="access.grants"),
        "use-grant": Entry(summary="Take the use of clusters away", place="access.use_grants"),
        "cluster-description": Entry(
            summary="The description of a cluster, so that its agent sends one", place="fleet.cluster_descriptions"
        ),
        "token": Entry(summary="Revoke a token of a cluster's agent", place="fleet.tokens"),
        **_USERS,
        "user-token": Entry(summary="Revoke a token of a user", place="users.tokens"),
        "session": Entry(summary="End a session of the console", place="users.sessions"),
        "reconciliation": Entry(
            summary="Count clusters as reconciled with a restored database", place="reconciliations"
        ),
    },
    examples=[
        "rainbowctl delete execution-cluster-label -p flyteexamples -d development",
        "rainbowctl delete execution nightly -p flyteexamples -d development --cause 'wrong inputs'",
    ],
    epilog=_DECLARED,
)

describe = NounGroup(
    "describe",
    help="Show the details of a cluster.",
    entries={
        "cluster": Entry(
            summary="What a cluster has, and what differs from its description before",
            place="fleet.cluster_descriptions",
        )
    },
    examples=["rainbowctl describe cluster a"],
)

rotate = NounGroup(
    "rotate",
    help="Replace a secret by a new one.",
    entries={"token": Entry(summary="The token of a cluster's agent", place="fleet.tokens")},
    examples=["rainbowctl rotate token a --newTokenFile a.token"],
)

accept = NounGroup(
    "accept",
    help="Say that something is right which the admin doubts.",
    entries={"clock": Entry(summary="The admin's clock, after it has jumped", place="clock")},
    examples=["rainbowctl accept clock"],
)

render = NounGroup(
    "render",
    help="Show what templates make of settings.",
    entries={
        "cluster-resources": Entry(
            summary="The Kubernetes objects of a project and domain", place="cluster_resources.render"
        )
    },
    examples=["rainbowctl render cluster-resources -p flyteexamples -d development"],
)

wait = NounGroup(
    "wait",
    help="Wait for a condition.",
    entries={
        "execution": Entry(
            summary="Until an execution is in a phase, on a cluster, or finished", place="executions.wait"
        )
    },
    examples=["rainbowctl wait execution nightly -p flyteexamples -d development --for=phase=SUCCEEDED"],
)

register = NounGroup(
    "register",
    help="Register workflows and launch plans.",
    entries={"files": Entry(summary="From files and directories", place="registrations.register")},
    examples=["rainbowctl register files flows/ -p flytesnacks -d development --version v1"],
)
