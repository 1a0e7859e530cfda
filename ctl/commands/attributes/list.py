"""`get KIND -A`: the rows of every scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Attribute, Document
from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind
from ctl.client.schemas import summary
from ctl.files.attribute_documents import flat

_COLUMNS = ["LEVEL", "PROJECT", "DOMAIN", "WORKFLOW", "LAUNCH PLAN", "VALUE", "VERSION"]


def list_rows(session: Session, kind: Kind, flags: Mapping[str, Any]) -> None:
    """Print the rows that the typed scope keys select, or watch them."""
    if flags["attr_file"] or flags["exact"]:
        raise InvalidInput("-A lists the rows of every scope; --attrFile and --exact are for one.")
    filters: dict[str, Any] = scope_filters(session, flags)
    if flags["watch"]:
        _watch(session, kind, filters)
    else:
        _print(session, kind, session.client.list_attributes(kind, at=flags["at"], **filters))


def _print(session: Session, kind: Kind, rows: Iterable[Attribute]) -> None:
    printer = session.printer
    if printer.format == "name":
        for row in rows:
            printer.line(row.scope.name(kind.noun))
    elif printer.format == "json":
        printer.document([flat(row, kind.noun) for row in rows])
    elif printer.format == "yaml":
        for row in rows:
            printer.text("---\n")
            printer.document(flat(row, kind.noun))
    elif cells := [_cells(kind, row, printer.is_wide) for row in rows]:
        printer.table(_COLUMNS + (["UPDATED", "BY"] if printer.is_wide else []), cells)
    else:
        printer.note(f"No {kind.noun} is set at the selected scopes.")


def _cells(kind: Kind, row: Attribute, is_wide: bool) -> list[str]:
    scope = row.scope
    cells = [scope.level, scope.project or "", scope.domain or "", scope.workflow or "", scope.launch_plan or ""]
    cells += [summary(kind.schema, row.payload), str(row.version or "")]
    return cells + (updated(row) if is_wide else [])


def updated(row: Attribute | None) -> list[str]:
    """When a row was written, and by whom."""
    if row is None:
        return ["", ""]
    claim = f" (says {row.claimed_by})" if row.claimed_by else ""
    return [row.updated_at or "", f"{row.updated_by or ''}{claim}"]


def _watch(session: Session, kind: Kind, filters: Mapping[str, Any]) -> None:
    """Print the rows, and then each that is written or deleted."""
    from ctl.cli.watching import watch

    def read() -> list[Attribute]:
        return list(session.client.list_attributes(kind, **filters))

    def show(rows: list[Attribute], before: list[Attribute] | None, is_first: bool) -> None:
        if before is None:
            _print(session, kind, rows)
            return
        known = {row.scope: row for row in before}
        now = {row.scope: row for row in rows}
        written = [row for scope, row in now.items() if known.get(scope) != row]
        gone = [row for scope, row in known.items() if scope not in now]
        _print_changed(session, kind, written, gone, has_headers=not before)

    watch(session, read, show)


def _print_changed(
    session: Session, kind: Kind, written: list[Attribute], deleted: list[Attribute], *, has_headers: bool
) -> None:
    printer = session.printer
    if printer.format == "name":
        for row in [*written, *deleted]:
            printer.line(row.scope.name(kind.noun))
    elif printer.is_table:
        gone = [[*_cells(kind, row, False)[:5], "(deleted)", ""] for row in deleted]
        more = ["UPDATED", "BY"] if printer.is_wide else []
        cells = [_cells(kind, row, printer.is_wide) for row in written]
        cells += [[*line, *("" for _column in more)] for line in gone]
        (printer if has_headers else printer.without_headers()).table(_COLUMNS + more, cells)
    else:
        documents: list[Document] = [flat(row, kind.noun) for row in written]
        documents += [{"kind": kind.noun, **row.scope.document(), "deleted": True} for row in deleted]
        for document in documents:
            printer.text("---\n" if printer.format == "yaml" else "")
            printer.document(document)
