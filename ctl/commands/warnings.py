"""`get warnings`: warnings about stored settings that still apply; `get no-effect`: settings that affect nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import PAGE, Listing, choose, choose_rows
from ctl.cli.options import filter_parameters, kind_argument, strict_option
from ctl.cli.output import Column
from ctl.cli.provenance import as_of, describe_fields_revisions, describe_set_by
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Document, RowChange, warning_text
from ctl.client.errors import WarningsFound
from ctl.client.kinds import built_in
from ctl.client.nouns import noun_of
from ctl.client.scopes import Scope
from ctl.client.words import count

_NO_EFFECT_HELP = """Show the stored settings that affect no execution, each with the reason.

A setting has no effect if more specific ones override it everywhere, if nothing runs under the name it is for, if it
names a pool, label or queue tag that is unknown or empty, or if what runs there sets it itself. -p, -d and -w
choose the scopes; without them all are examined, by kind and scope, until a page is full, after the grants that are
given to users or groups which do not exist. The first sentence says how
many were examined, and as of which revision; beside each reason stands who set the field, when and why.
"""


def _noun(warning: Document) -> str:
    name = str(warning.get("resource_type", ""))
    built = {kind.name: kind.noun for kind in built_in()}
    return built.get(name, noun_of(name))


def _level(warning: Document) -> str:
    return str(warning.get("level", Scope.from_document(warning).level))


def _place(warning: Document) -> str:
    return str(warning.get("name") or Scope.from_document(warning).describe())


_COLUMNS: Mapping[str, Column] = {"KIND": _noun, "LEVEL": _level, "SCOPE": _place, "FIELD": "field"}
_PAGED = Listing(
    fields={
        "kind": _noun,
        "level": _level,
        "field": "field",
        "code": "code",
        **{key: key for key in ("project", "domain", "workflow", "launch_plan", "name")},
    },
    order="kind",
    limit=PAGE,
)


@command(
    help="Show the current warnings: stored settings that name something unknown or contradict others.",
    params=[strict_option(), *filter_parameters("Warnings"), *_PAGED.options()],
    examples=[
        "rainbowctl get warnings",
        "rainbowctl get warnings -p flyteexamples -d development",
        "rainbowctl get warnings --strict -o json",
    ],
)
def get_warnings(session: Session, strict: bool, **flags: Any) -> None:
    listed = session.client.list_warnings(**scope_filters(session, flags))
    warnings = choose_rows(session, listed, flags, _PAGED, "warning", where="about stored settings")
    set_by = {"SET BY": lambda warning: describe_set_by(session.printer, warning)}
    columns = {**_COLUMNS, "WARNING": warning_text, **set_by}
    session.printer.show(_names(warnings), warnings, warnings, columns, {"CODE": "code"}, empty="No warnings.")
    if strict and warnings:
        raise WarningsFound(f"{count(len(warnings), 'warning')} under --strict.")


@command(
    help=_NO_EFFECT_HELP,
    params=[
        kind_argument("[KIND|all]", "Noun, name or number; all without one."),
        *filter_parameters("Settings"),
        *_PAGED.options(),
    ],
    examples=[
        "rainbowctl get no-effect",
        "rainbowctl get no-effect -p flyteexamples -d development -o json",
        "rainbowctl get no-effect execution-cluster-label --filter.fieldSelector code=pool_wins",
    ],
)
def get_no_effect(session: Session, kind: str | None, **flags: Any) -> None:
    chosen = None if kind is None or kind == "all" else session.client.kind(kind)
    reasons = session.client.no_effect(chosen, **scope_filters(session, flags))
    rows = list(choose(session, reasons, flags, _PAGED))
    read = {name: value for name, value in reasons.document.items() if name != "token"}
    document = {**read, "warnings": rows, "complete": reasons.is_complete}
    printer = session.printer
    if printer.machine_output(_names(rows), document):
        return
    printer.sentence(_opening(rows, document))
    if rows:
        set_by = {"SET BY": lambda row: describe_fields_revisions(printer, row, document.get("revisions"))}
        printer.line()
        printer.rows(rows, {**_COLUMNS, "REASON": warning_text, **set_by}, {"CODE": "code"})


def _opening(rows: Sequence[Document], document: Document) -> str:
    """The answer in one sentence: how many settings have no effect, of how many."""
    grants = sum(1 for row in rows if row.get("name"))
    rows = [row for row in rows if not row.get("name")]
    number = len({(row["resource_type"], Scope.from_document(row)) for row in rows})
    has = "has" if number == 1 else "have"
    examined = count(int(document["examined"]), "setting")
    first = "" if document["complete"] else "the first "
    outcome = f"{number} {has} no effect, as a whole or in a field" if number else "each has an effect"
    was = "was" if document["examined"] == 1 else "were"
    refusing = len({(row["resource_type"], Scope.from_document(row)) for row in rows if row.get("refuses")})
    outcome += f"; {refusing} of them {'refuses' if refusing == 1 else 'refuse'} executions" if refusing else ""
    seen = " of what you may see" if document.get("partial") else ""
    opening = f"Of {first}{examined}{seen} that {was} examined, {outcome}; {as_of(document)}."
    if grants:
        are = "is" if grants == 1 else "are"
        opening += f" {count(grants, 'grant')} {are} given to users or groups that do not exist."
    return opening


def _names(warnings: Sequence[Document]) -> Iterator[str]:
    return (RowChange.from_document(warning).short(_noun(warning)) for warning in warnings)
