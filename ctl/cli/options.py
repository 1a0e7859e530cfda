"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ctl.cli.output import FORMATS, parse_format
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


class GlobalOption(Option):
    """An option that every command takes and the session remembers."""


def global_options() -> list[click.Parameter]:
    """Fresh global options, for one command."""
    return [
        _stored(["--endpoint", "--admin.endpoint"], "endpoint", "URL", "Where the admin listens."),
        _stored(["--context"], "context", "NAME", "Context to use.", complete_context),
        _stored(["-c", "--config"], "config", "FILE", "File with contexts."),
        _stored(["--token-file", "--tokenFile"], "token_file", "FILE", "File that holds the bearer token."),
        _stored(
            ["--ca-file", "--caFile", "--admin.caCertFilePath"],
            "ca_file",
            "FILE",
            "Certificate authorities to trust for https.",
        ),
        _stored(["--timeout"], "timeout", "SECONDS", "How long to wait for an answer."),
        _stored(["-o", "--output"], "output", "|".join(FORMATS), "Output format.", complete_format),
        GlobalOption(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_quiet, help="Print no notes."),
        GlobalOption(
            ["--no-headers", "--noHeaders"],
            is_flag=True,
            expose_value=False,
            callback=_no_headers,
            help="Tables without headers.",
        ),
    ]


def project_option(help: str = "Project.") -> click.Parameter:
    return _stored(["-p", "--project"], "project", "PROJECT", help, complete_project, cls=Option)


def domain_option(help: str = "Domain.") -> click.Parameter:
    return _stored(["-d", "--domain"], "domain", "DOMAIN", help, complete_domain, cls=Option)


def workflow_parameters() -> list[click.Parameter]:
    """The rest of a scope: the workflow as an argument or a flag, and the launch plan."""
    argument = Argument(
        "workflow", required=False, metavar="[WORKFLOW]", explanation="Workflow of the project and domain."
    )
    return [argument, *_workflow_options("Workflow, also as an argument.")]


def _workflow_options(help: str) -> list[click.Parameter]:
    return [
        Option(["-w", "--workflow", "workflow_flag"], metavar="WORKFLOW", help=help),
        Option(
            ["--launchplan", "--launch-plan", "--launchPlan", "launch_plan"],
            metavar="NAME",
            help="Launch plan of the workflow.",
        ),
    ]


def scope_parameters() -> list[click.Parameter]:
    """Every part of a scope."""
    return [*workflow_parameters(), project_option(), domain_option()]


def filter_parameters(rows: str = "Rows", everything: str | None = None) -> list[click.Parameter]:
    """Every key of a scope as a filter on rows, each with or without the others; and -A where all can be asked for."""
    options = [project_option(f"{rows} of this project."), domain_option(f"{rows} of this domain.")]
    options += _workflow_options(f"{rows} of this workflow.")
    if everything is not None:
        options.append(Option(["-A", "--all", "all_scopes"], is_flag=True, help=everything))
    return options


def files_option(help: str) -> click.Parameter:
    return Option(["-f", "--file", "files"], metavar="FILE|DIR|-", multiple=True, help=help)


def at_option(help: str) -> click.Parameter:
    return Option(["--at"], metavar="REVISION", callback=revision_number, help=help)


def revision_number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The number of a revision, as a flag takes it; 0 is before the first."""
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        reason = f"{value!r} is not the number of a revision, as `rainbowctl history` shows them."
        raise click.BadParameter(reason, ctx, param)
    return int(value)


def kind_argument(metavar: str, explanation: str, *, parameter: str = "kind") -> Argument:
    """A kind: its noun, name or number."""
    return Argument(parameter, required=False, metavar=metavar, explanation=explanation, shell_complete=complete_kind)


def force_option(help: str) -> click.Parameter:
    return Option(["--force"], is_flag=True, help=help)


def dry_run_option(help: str = "Let the admin check it, and change nothing.") -> click.Parameter:
    return Option([*flags("dryRun"), "dry_run"], is_flag=True, help=help)


def message_option() -> click.Parameter:
    return Option(["-m", "--message"], metavar="WHY", help="Why; kept with the change.")


def strict_option(help: str = "Exit with 7 if there are warnings.") -> click.Parameter:
    return Option(["--strict"], is_flag=True, help=help)


def text_option(
    names: Sequence[str], parameter: str, metavar: str, help: str, *, noun: str | None = None
) -> click.Parameter:
    """
    A flag with a text, which must not be empty: an empty one would silently be ignored.

    `noun` is cluster, pool or label where it names one.
    """
    complete = definition_completer(noun) if noun else None
    return Option([*names, parameter], metavar=metavar, callback=require_text, help=help, shell_complete=complete)


def require_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty text."""
    if value is not None and not value.strip():
        raise click.BadParameter("is empty: give a value, or leave it out.", ctx, param)
    return value


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


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


def _quiet(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
    if value:
        ctx.ensure_object(Session).is_quiet = True


def _no_headers(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
    if value:
        ctx.ensure_object(Session).has_headers = False


def complete_project(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ctl.cli.completion import project_ids

    return project_ids(ctx.ensure_object(Session), incomplete)


def complete_domain(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ctl.cli.completion import domain_ids

    return domain_ids(ctx.ensure_object(Session), incomplete)


def complete_kind(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ctl.cli.completion import kind_nouns

    return kind_nouns(ctx.ensure_object(Session), incomplete)


def definition_completer(noun: str) -> Completer:
    """Completes the names of clusters, pools or labels."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from ctl.cli.completion import definition_names

        return definition_names(ctx.ensure_object(Session), noun, incomplete)

    return complete


def complete_context(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from ctl.cli.completion import context_names

    return context_names(ctx.ensure_object(Session), incomplete)


def complete_format(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete.lower())]
