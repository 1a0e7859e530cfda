"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ctl.cli.output import FORMATS, parse_format
from ctl.cli.revisions import revision_or_time
from ctl.cli.session import Session
from ctl.client.words import flags


class Option(click.Option):
    """An option whose help shows only the first of its spellings."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        all_opts = self.opts
        long = [opt for opt in all_opts if opt.startswith("--")]
        self.opts = [opt for opt in all_opts if not opt.startswith("--")] + long[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = all_opts


class Argument(click.Argument):
    """An argument that the help explains like an option."""

    def __init__(self, name: str, *, explanation: str, metavar: str | None = None, **settings: Any) -> None:
        super().__init__([name], metavar=metavar, **settings)
        self.explanation = explanation

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self.explanation


class WholeNumber(click.IntRange):
    """A whole number within bounds, and called so where it is none."""

    name = "whole number"


class GlobalOption(Option):
    """An option that every command takes and the session remembers."""


def option(*words: str, parameter: str | None = None, **settings: Any) -> Option:
    """
    An option by its words in camelCase, each of which is read in kebab-case too.

    Its value is passed to the command as `parameter`, which is the only word in snake_case by default.
    """
    names = flags(*words)
    return Option([*names, parameter or names[-1].removeprefix("--").replace("-", "_")], **settings)


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(names: str, *arguments: str) -> Completer:
    """Completes what a function of `ctl.cli.completion` names; that module is loaded when a shell asks."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from ctl.cli import completion

        candidates: list[str] = getattr(completion, names)(ctx.ensure_object(Session), *arguments)
        return [name for name in candidates if name.startswith(incomplete)]

    return complete


def definition_completer(noun: str) -> Completer:
    """Completes the names of clusters, pools or labels."""
    return completer("definition_names", noun)


complete_kind = completer("kind_nouns")


def _complete_format(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete.lower())]


def _stored(
    names: list[str],
    key: str,
    metavar: str,
    help: str,
    complete: Completer | None = None,
    cls: type[click.Option] = GlobalOption,
) -> click.Option:
    def store(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Session).typed[key] = parse_format(value) if key == "output" else value

    return cls(
        [*names, f"stored_{key}"],
        metavar=metavar,
        help=help,
        expose_value=False,
        callback=store,
        shell_complete=complete,
    )


def _switch(names: list[str], attribute: str, setting: bool, help: str) -> click.Option:
    def store(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.ensure_object(Session), attribute, setting)

    return GlobalOption(names, is_flag=True, expose_value=False, callback=store, help=help)


#: Options of every command.
GLOBAL_OPTIONS: Sequence[click.Option] = [
    _stored(["--endpoint", "--admin.endpoint"], "endpoint", "URL", "Where the admin listens."),
    _stored(["--context"], "context", "NAME", "Context to use.", completer("context_names")),
    _stored(["-c", "--config"], "config", "FILE", "File with contexts."),
    _stored(
        ["--token-file", "--tokenFile"],
        "token_file",
        "FILE",
        "File that holds the bearer token, or those of several admins.",
    ),
    _stored(
        ["--ca-file", "--caFile", "--admin.caCertFilePath"],
        "ca_file",
        "FILE",
        "Certificate authorities to trust for https.",
    ),
    _stored(["--as"], "as_user", "USER", "Act as this user, under both names; for administrators."),
    _stored(["--timeout"], "timeout", "SECONDS", "How long to wait for an answer."),
    _stored(["-o", "--output"], "output", "|".join(FORMATS), "Output format.", _complete_format),
    _switch(["-q", "--quiet"], "is_quiet", True, "Print no notes."),
    _switch(["--no-headers", "--noHeaders"], "has_headers", False, "Tables without headers."),
]


def project_option(help: str = "Project.") -> click.Parameter:
    return _stored(["-p", "--project"], "project", "PROJECT", help, completer("project_ids"), cls=Option)


def domain_option(help: str = "Domain.") -> click.Parameter:
    return _stored(["-d", "--domain"], "domain", "DOMAIN", help, completer("domain_ids"), cls=Option)


LAUNCH_PLAN_WORDS = ("launchplan", "launch-plan", "launchPlan")


def _workflow_options(help: str) -> list[click.Parameter]:
    return [
        Option(["-w", "--workflow", "workflow_flag"], metavar="WORKFLOW", help=help),
        option(*LAUNCH_PLAN_WORDS, parameter="launch_plan", metavar="NAME", help="Launch plan of the workflow."),
    ]


#: Every part of a scope; the workflow as an argument or a flag.
SCOPE_PARAMETERS: Sequence[click.Parameter] = [
    Argument("workflow", required=False, metavar="[WORKFLOW]", explanation="Workflow of the project and domain."),
    *_workflow_options("Workflow, also as an argument."),
    project_option(),
    domain_option(),
]


def filter_parameters(rows: str = "Rows", everything: str | None = None) -> list[click.Parameter]:
    """Every key of a scope as a filter on rows, each with or without the others; and -A where all can be asked for."""
    options = [project_option(f"{rows} of this project."), domain_option(f"{rows} of this domain.")]
    options += _workflow_options(f"{rows} of this workflow.")
    if everything is not None:
        options.append(all_option("all_scopes", everything))
    return options


def all_option(parameter: str, help: str) -> click.Parameter:
    """-A: of everything, even if the context names a project."""
    return Option(["-A", "--allProjects", "--all-projects", "--all", parameter], is_flag=True, help=help)


def at_option(help: str) -> click.Parameter:
    return Option(["--at"], metavar="REVISION|TIME", callback=revision_or_time, help=help)


def kind_argument(metavar: str, explanation: str, *, parameter: str = "kind") -> Argument:
    """A kind: its noun, name or number."""
    return Argument(parameter, required=False, metavar=metavar, explanation=explanation, shell_complete=complete_kind)


def force_option(help: str) -> click.Parameter:
    return Option(["--force"], is_flag=True, help=help)


def dry_run_option(help: str = "Let the admin check it, and change nothing.") -> click.Parameter:
    return option("dryRun", is_flag=True, help=help)


def strict_option(help: str = "Exit with 7 if there are warnings.") -> click.Parameter:
    return Option(["--strict"], is_flag=True, help=help)


MESSAGE = Option(["-m", "--message"], metavar="WHY", help="Why; kept with the change.")
SHOW_DIFF = option("showDiff", is_flag=True, help="Show the differences even if many rows change.")
STRICT_WRITE = strict_option("Exit with 7 if there are warnings; the change is still written.")


def assumed_files_option(help: str = "Assume that these documents are applied. Repeatable.") -> click.Parameter:
    return Option(["--with", "files"], metavar="FILE|DIR|-", multiple=True, help=help)


def write_options(force: str) -> list[click.Parameter]:
    """The flags of a command that writes; `force` says what --force does."""
    return [dry_run_option(), force_option(force), MESSAGE]


def text_option(
    *words: str, metavar: str, help: str, parameter: str | None = None, noun: str | None = None
) -> click.Parameter:
    """
    A flag with a text, which must not be empty: an empty one would silently be ignored.

    `noun` is cluster, pool or label where it names one.
    """
    complete = definition_completer(noun) if noun else None
    return option(
        *words, parameter=parameter, metavar=metavar, help=help, callback=require_text, shell_complete=complete
    )


def selector_option(help: str) -> click.Parameter:
    """Which executions, or which rows of a list; flytectl's spelling is the first, and that of messages."""
    return text_option(
        "filter.fieldSelector", "selector", "fieldSelector", parameter="selector", metavar="TERMS", help=help
    )


def require_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty text."""
    if value is not None and not value.strip():
        raise click.BadParameter("is empty: give a value, or leave it out.", ctx, param)
    return value
