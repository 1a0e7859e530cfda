"""What the commands about executions share: which execution, which of them, and flags that say what to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import (
    Argument,
    Option,
    definition_completer,
    domain_option,
    project_option,
    require_text,
    text_option,
)
from ctl.cli.scopes import default_scope, resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import ExecutionId, parse_id
from ctl.client.facts import SELECTOR_FIELDS
from ctl.client.words import flags as flag_names
from ctl.client.words import listed, parse_pair
from ctl.files.retries import MOST_ATTEMPTS, ON_LOST

#: In the help of every command that takes a selector.
SELECTOR = f"""A selector is made of terms joined by commas, which must all hold: FIELD=VALUE, or with !=, >, >=, <, <=,
contains, in (A;B) and not in (A;B). Fields are {listed(SELECTOR_FIELDS)}.
Times are written 24h (ago), 2026-03-01 or 2026-03-01T12:00, durations 90s or 5m; a sign or comma in a value stands
behind a backslash."""


class RunCommand(Command):
    """A command that takes the words after `--` as the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        words = args[end + 1 :]
        if end < len(args) and not words and not ctx.resilient_parsing:
            raise click.UsageError("There is no command after --.", ctx)
        ctx.params["command"] = tuple(words)
        return rest


def name_argument(
    explanation: str = "Name, PROJECT/DOMAIN/NAME, or what -o name prints.",
    *,
    parameter: str = "name",
    metavar: str = "NAME",
    **settings: Any,
) -> Argument:
    """The name of an execution."""
    settings |= {"metavar": metavar, "shell_complete": complete_execution}
    return Argument(parameter, explanation=explanation, **settings)


def complete_execution(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ctl.cli.completion import execution_names

    return execution_names(ctx.ensure_object(Session), incomplete)


def execution_id(session: Session, name: str) -> ExecutionId:
    """The execution a command is about; project and domain in the name win over the context."""
    if "/" in name:
        return parse_id(name, session.typed.get("project"), session.typed.get("domain"))
    scope = resolve_scope(session, {})
    return parse_id(name, scope.project, scope.domain)


# Which of many


def scope_options(everywhere: str = "Of all projects, whatever the context says.") -> list[click.Parameter]:
    """Project and domain, each with or without the other, and none at all."""
    return [
        project_option("Of this project."),
        domain_option("Of this domain."),
        Option(["-A", *flag_names("allProjects"), "all_projects"], is_flag=True, help=everywhere),
    ]


def selected_scope(session: Session, flags: Mapping[str, Any], *, is_needed: bool = False) -> dict[str, str]:
    """The project and the domain to look in; with `is_needed` one of them or --allProjects must be given."""
    if flags["all_projects"] and session.typed.get("project") is not None:
        raise InvalidInput("--allProjects means all projects, -p one of them: keep one or the other.")
    keys = dict(session.typed) if flags["all_projects"] else default_scope(session)
    scope = {key: str(keys[key]) for key in ("project", "domain") if keys.get(key) is not None}
    if is_needed and not scope and not flags["all_projects"]:
        raise InvalidInput("In which project? Give -p PROJECT, -d DOMAIN or both, or --allProjects for all of them.")
    return scope


def since_option() -> click.Parameter:
    return Option(
        ["--since"],
        metavar="TIME",
        default="24h",
        show_default=True,
        callback=require_text,
        help="Executions created since then: 24h, 7d, 2026-03-01, 2026-03-01T12:00.",
    )


def selector_option(help: str) -> click.Parameter:
    return Option(["--selector"], metavar="TERMS", callback=require_text, help=help)


def selector_document(session: Session, flags: Mapping[str, Any]) -> Document:
    """A typed selector as the API takes it."""
    from datetime import UTC, datetime

    from ctl.client.selectors import filters, parse_selector

    where = selected_scope(session, flags, is_needed=True)
    return {**where, "filters": filters(parse_selector(flags["selector"], "--selector", now=datetime.now(UTC)))}


# What to run


def run_parameters() -> list[click.Parameter]:
    """Flags that say what to run and where, as create and place take them."""
    return [
        name_argument(
            "Name for the execution; the admin gives one otherwise.",
            required=False,
            metavar="[NAME]",
            callback=require_text,
        ),
        Argument(
            "words",
            expose_value=False,
            required=False,
            metavar="[-- COMMAND …]",
            callback=_behind_dashes,
            explanation="A command to run as a job of its own, word for word, without a shell.",
        ),
        project_option("Project: where the launch plan or workflow is, and where it runs without --targetProject."),
        domain_option("Domain, likewise."),
        text_option(
            flag_names("execFile"),
            "exec_file",
            "FILE",
            "File that says what to run and how; - is stdin.",
        ),
        text_option(["--launchplan", "--launch-plan", "--launchPlan"], "launch_plan", "NAME", "Launch plan to run."),
        text_option(["--workflow"], "workflow", "NAME", "Workflow to run, without a launch plan."),
        text_option(["--task"], "task", "NAME", "Task to run, likewise."),
        text_option(["--version"], "version", "VERSION", "Its version; the active one otherwise, else the latest."),
        text_option(["--jobspec"], "jobspec", "FILE", "Jobspec to run: simple form, next-gen, or Flux V1. - is stdin."),
        Option(
            ["--input", "inputs"],
            metavar="NAME=VALUE",
            multiple=True,
            callback=_inputs,
            help="Input, read as YAML: 5, true, [1, 2]; quotes make text. Repeatable.",
        ),
        *_placing(),
        *_identity(),
        *_retrying(),
        *_job(),
    ]


def _placing() -> list[click.Parameter]:
    return [
        text_option(flag_names("clusterPool"), "cluster_pool", "POOL", "Cluster pool to run in.", noun="pool"),
        Option(
            [*flag_names("executionClusterLabel", "targetExecutionCluster"), "cluster_label"],
            metavar="LABEL",
            multiple=True,
            callback=_one_label,
            shell_complete=definition_completer("label"),
            help="Execution cluster label to run under; a pool goes before it.",
        ),
        text_option(["--cluster"], "cluster", "NAME", "This very cluster.", noun="cluster"),
        text_option(flag_names("targetProject"), "target_project", "PROJECT", "Project to run in, if not -p."),
        text_option(flag_names("targetDomain"), "target_domain", "DOMAIN", "Domain to run in, if not -d."),
    ]


def _identity() -> list[click.Parameter]:
    return [
        text_option(flag_names("kubeServiceAcct"), "service_account", "NAME", "Kubernetes service account to run as."),
        text_option(["--iamRoleARN", "--iam-role-arn"], "iam_role", "ARN", "IAM role to run as."),
        Option([*flag_names("overwriteCache"), "overwrite_cache"], is_flag=True, help="Overwrite cached results."),
        _pairs_option("--label", "labels", "Label of the execution. Repeatable."),
        _pairs_option("--annotation", "annotations", "Annotation of the execution. Repeatable."),
        _pairs_option("--env", "envs", "Environment variable. Repeatable."),
    ]


def _retrying() -> list[click.Parameter]:
    return [
        Option(
            ["--retries"],
            metavar="N",
            type=click.IntRange(0, MOST_ATTEMPTS - 1),
            help="How often to run it again if it does not succeed; any of these three replaces the launch plan's.",
        ),
        text_option(["--backoff"], "backoff", "DURATION", "The wait before the second attempt, doubled for each: 10s."),
        Option(
            [*flag_names("onLost"), "on_lost"],
            metavar="|".join(ON_LOST),
            type=click.Choice(ON_LOST, case_sensitive=False),
            help="What becomes of it if it may have started on a cluster that is lost; fail by default.",
        ),
    ]


def _job() -> list[click.Parameter]:
    whole = click.IntRange(min=1)
    return [
        text_option(["--image"], "image", "IMAGE", "Container image of a job of its own."),
        text_option(["--cpu"], "cpu", "QUANTITY", "CPU each of its tasks asks for: 2, 500m."),
        text_option(["--memory"], "memory", "QUANTITY", "Memory each task asks for: 4Gi."),
        text_option(["--gpu"], "gpu", "QUANTITY", "GPUs each task asks for."),
        Option(["--nodes"], metavar="N", type=whole, help="Nodes the job asks for."),
        Option(["--tasks"], metavar="N", type=whole, help="Tasks the job consists of."),
        text_option(["--duration"], "duration", "DURATION", "How long it may run: 90s, 1h."),
    ]


def _behind_dashes(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(f"{value!r} is one word too many: a command stands behind --.", ctx)


def _pairs_option(name: str, parameter: str, help: str) -> click.Parameter:
    return Option([name, parameter], metavar="KEY=VALUE", multiple=True, callback=_pairs, help=help)


def _pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in values:
        try:
            key, value = parse_pair(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.", ctx, param) from None
        if key in pairs:
            raise click.BadParameter(f"{key} is given twice: keep one of the two.", ctx, param)
        pairs[key] = value
    return pairs


def _inputs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    pairs = _pairs(ctx, param, values)
    if not pairs:
        return {}
    from ctl.files.executions import parse_input

    inputs = {}
    for name, text in pairs.items():
        try:
            inputs[name] = parse_input(text)
        except InvalidInput as error:
            raise click.BadParameter(f"{name}: {error.message}", ctx, param) from None
    return inputs


def _one_label(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> str | None:
    for value in values:
        require_text(ctx, param, value)
    if len(set(values)) > 1:
        raise click.BadParameter(f"{listed(values)} are given: keep one.", ctx, param)
    return values[0] if values else None
