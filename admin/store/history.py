"""History: rows and definitions as of a revision, computed by undoing later changes."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, net_changes
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.store import attributes, fleet, row_changes


def applying_at(connection: Connection, number: int, kinds: list[str], scope: Scope) -> list[Row]:
    """The rows of some kinds at a scope and at every broader one, as they were at a revision."""
    rows: list[Row] = list(attributes.applying(connection, kinds, scope))
    later = row_changes.changes_above(connection, number, kinds=kinds, scopes=list(scope.chain()))
    return _undone(rows, net_changes(later))


def every_at(connection: Connection, number: int, kinds: list[str]) -> list[Row]:
    """All rows of some kinds, as they were at a revision."""
    rows = [row for kind in kinds for row in attributes.every(connection, kind)]
    return _undone(rows, net_changes(row_changes.changes_above(connection, number, kinds=kinds)))


def definitions_at(connection: Connection, number: int, kind: FleetKind, name: str | None = None) -> list[Definition]:
    """The managed definitions of a kind, or the one of a name, as they were at a revision; by name."""
    stored = (
        fleet.definitions(connection) if name is None else fleet.get_definitions(connection, [(kind, name)]).values()
    )
    definitions = {definition.name: definition for definition in stored if definition.kind is kind}
    for change in net_changes(row_changes.definition_changes_above(connection, kind.value, number, name)).values():
        definitions.pop(change.name, None)
        if change.before is not None:
            definitions[change.name] = Definition(
                kind=kind,
                name=change.name,
                payload=change.before,
                source=Source.MANAGED,
                version=change.before_version,
            )
    return [definitions[known] for known in sorted(definitions)]


def _undone(rows: list[Row], later: dict[RowKey, RowChange]) -> list[Row]:
    kept = [row for row in rows if RowKey(row.kind, "", row.scope) not in later]
    restored = [
        Row(kind=change.kind, scope=change.scope, payload=change.before, version=change.before_version or 0)
        for change in later.values()
        if change.before is not None
    ]
    return kept + restored
