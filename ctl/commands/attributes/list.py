"""`get KIND -A`: the rows of every scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from ctl.cli.lists import Listing, choose, choose_rows, typed_choice
from ctl.cli.output import Columns, Printer, Time
from ctl.cli.provenance import describe_provenance, show_author
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Attribute, Document
from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind
from ctl.client.schemas import summary
from ctl.client.scopes import describe_keys
from ctl.files.attribute_documents import flat


def list_rows(session: Session, kind: Kind, flags: Mapping[str, Any], listing: Listing) -> None:
    """Print the rows that the typed scope keys select, or watch them."""
    if flags["attr_file"] or flags["exact"]:
        raise InvalidInput("-A lists the rows of every scope; --attrFile and --exact are for one.")
    filters: dict[str, Any] = scope_filters(session, flags)
    if flags["watch"]:
        if flag := typed_choice(flags):
            raise InvalidInput(f"--watch shows every row that changes: leave out {flag}.")
        _watch(session, kind, filters)
    else:
        rows = session.client.list_attributes(kind, at=flags["at"], **filters)
        if session.printer.is_table:
            where = f"of {describe_keys(filters)}" if filters else ""
            noun = f"{kind.noun} row"
            _print(session, kind, choose_rows(session, rows, flags, listing, noun, where=where, by=_level))
        else:
            _print(session, kind, choose(session, rows, flags, listing))


def _level(row: Attribute) -> str:
    return f"at {row.scope.level} level"


def _print(session: Session, kind: Kind, rows: Iterable[Attribute]) -> None:
    printer = session.printer
    documents = (flat(row, kind.noun, with_provenance=printer.format == "json") for row in rows)
    if printer.format == "json":
        printer.document(list(documents))
    elif printer.stream((row.scope.name(kind.noun) for row in rows), documents):
        return
    elif shown_rows := list(rows):
        printer.rows(shown_rows, _columns(kind, printer))
    else:
        printer.note_absence(f"No {kind.noun} is set at the selected scopes.")


def _columns(kind: Kind, printer: Printer) -> Columns:
    """What is shown of rows, and who changed each last: in one column, or with `-o wide` in one for each part."""
    return {
        "LEVEL": attrgetter("scope.level"),
        "PROJECT": attrgetter("scope.project"),
        "DOMAIN": attrgetter("scope.domain"),
        "WORKFLOW": attrgetter("scope.workflow"),
        "LAUNCH PLAN": attrgetter("scope.launch_plan"),
        # Without a version the row is no longer stored.
        "VALUE": lambda row: summary(kind.schema, row.payload) if row.version else "(deleted)",
        "VERSION": attrgetter("version"),
        **(_WIDE if printer.is_wide else {"SET BY": lambda row: describe_provenance(printer, row.last_change)}),
    }


_WIDE: Columns = {
    "UPDATED": Time(lambda row: row.last_change.get("at")),
    "BY": lambda row: show_author(row.last_change),
    "WHY": lambda row: row.last_change.get("message"),
}


def _watch(session: Session, kind: Kind, filters: Mapping[str, Any]) -> None:
    """Print the rows, and then each that is written or deleted."""
    from ctl.cli.watching import watch

    def read() -> list[Attribute]:
        return list(session.client.list_attributes(kind, **filters))

    def show(rows: list[Attribute], before: list[Attribute] | None, is_first: bool) -> None:
        if before is None:
            _print(session, kind, rows)
            return
        earlier = {row.scope: row for row in before}
        now = {row.scope: row for row in rows}
        written = [row for scope, row in now.items() if earlier.get(scope) != row]
        gone = [row for scope, row in earlier.items() if scope not in now]
        _print_changed(session, kind, written, gone, has_headers=not before)

    watch(session, read, show)


def _print_changed(
    session: Session, kind: Kind, written: list[Attribute], deleted: list[Attribute], *, has_headers: bool
) -> None:
    printer = session.printer if has_headers else session.printer.without_headers()
    with_provenance = printer.format == "json"
    documents: list[Document] = [flat(row, kind.noun, with_provenance=with_provenance) for row in written]
    documents += [{"kind": kind.noun, **row.scope.document(), "deleted": True} for row in deleted]
    if not printer.stream((row.scope.name(kind.noun) for row in [*written, *deleted]), documents):
        gone = [Attribute(scope=row.scope, payload={}) for row in deleted]
        printer.rows([*written, *gone], _columns(kind, printer))
