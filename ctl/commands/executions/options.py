"""What the commands about executions share: which execution, which of them, and flags that say what to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ctl.cli.options import (
    Argument,
    Option,
    all_option,
    completer,
    domain_option,
    project_option,
    require_text,
)
from ctl.cli.scopes import default_scope, resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import ClientError, InvalidInput
from ctl.client.executions import ExecutionId, parse_id
from ctl.client.facts import SELECTOR_ALIASES, SELECTOR_FIELDS
from ctl.client.words import count, listed

#: In the help of every command that takes a selector.
SELECTOR = f"""A selector is a list of terms separated by commas, which must all match: FIELD=VALUE, or with
!=, >, >=, <, <=, contains, in (A;B) and not in (A;B). Fields are {listed(SELECTOR_FIELDS)};
labels.KEY is a label of the execution. Other names of fields are taken too: {listed(SELECTOR_ALIASES)}.
Times are written 24h, 7d, 2w or 1y (ago), 2026-03-01 or 2026-03-01T12:00; not_before, which lies ahead, +5m (in 5
minutes) or -5m (5 minutes ago). Durations are written 90s, 5m or 2d, and what is requested 500m, 4
or 32Gi, of all tasks together. Put a backslash before an operator or comma in a value."""
#: How a scope is named in a flag.
SCOPE_FORMS = "PROJECT, PROJECT/DOMAIN and so on, -/DOMAIN, request, platform"
#: How answers count clusters that they do not name, and what one may not do with them.
UNTOLD = {"untold_clusters": "use", "unseen_clusters": "see"}


def name_argument(
    explanation: str = "Name, PROJECT/DOMAIN/NAME, or what -o name prints.",
    *,
    parameter: str = "name",
    metavar: str = "NAME",
    **settings: Any,
) -> Argument:
    """The name of an execution."""
    settings |= {"metavar": metavar, "shell_complete": completer("execution_names")}
    return Argument(parameter, explanation=explanation, **settings)


#: One execution: its name, and the project and domain it is in.
EXECUTION_PARAMETERS: Sequence[click.Parameter] = [name_argument(), project_option(), domain_option()]


def execution_id(session: Session, name: str) -> ExecutionId:
    """The execution a command is about; project and domain in the name win over the context."""
    if "/" in name:
        return parse_id(name, session.typed.get("project"), session.typed.get("domain"))
    scope = resolve_scope(session, {})
    return parse_id(name, scope.project, scope.domain)


def raise_failures(errors: Sequence[tuple[ExecutionId, ClientError]], number: int, done: str) -> None:
    """Raise one error for those of a number of executions with which something could not be done, such as `ended`."""
    if not errors:
        return
    _id, first = errors[0]
    if number > 1:
        first.details = [{"field": str(id), "reason": error.message} for id, error in errors]
        reason = f": {first.message}" if len(errors) == 1 else "."
        first.message = f"{len(errors)} of {count(number, 'execution')} could not be {done}{reason}"
    raise first


def scope_options(everywhere: str = "Of all projects, even if the context names one.") -> list[click.Parameter]:
    """Project and domain, each with or without the other, and none at all."""
    return [
        project_option("Of this project."),
        domain_option("Of this domain."),
        all_option("all_projects", everywhere),
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


SINCE = Option(
    ["--since"],
    metavar="TIME",
    default="24h",
    show_default=True,
    callback=require_text,
    help="Executions created since then: 24h, 7d, 2026-03-01, 2026-03-01T12:00.",
)


def selector_document(session: Session, flags: Mapping[str, Any]) -> Document:
    """A typed selector as the API takes it."""
    from datetime import UTC, datetime

    from ctl.client.selectors import filters, parse_selector

    where = selected_scope(session, flags, is_needed=True)
    terms = parse_selector(flags["selector"], "--filter.fieldSelector", now=datetime.now(UTC))
    return {**where, "filters": filters(terms, "--filter.fieldSelector")}
