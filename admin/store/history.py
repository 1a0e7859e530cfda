"""History: the rows as of a revision, computed by undoing later changes."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, net_changes
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.store import attributes, revisions


def applying_at(connection: Connection, number: int, kinds: list[str], scope: Scope) -> list[Row]:
    """The rows of some kinds at a scope and at every broader one, as they were at a revision."""
    rows: list[Row] = list(attributes.applying(connection, kinds, scope))
    later = revisions.changes_above(connection, number, kinds=kinds, scopes=list(scope.chain()))
    return _undone(rows, net_changes(later))


def every_at(connection: Connection, number: int, kinds: list[str]) -> list[Row]:
    """All rows of some kinds, as they were at a revision."""
    rows = [row for kind in kinds for row in attributes.every(connection, kind)]
    return _undone(rows, net_changes(revisions.changes_above(connection, number, kinds=kinds)))


def _undone(rows: list[Row], later: dict[RowKey, RowChange]) -> list[Row]:
    kept = [row for row in rows if RowKey(row.kind, "", row.scope) not in later]
    restored = [
        Row(kind=change.kind, scope=change.scope, payload=change.before, version=change.before_version or 0)
        for change in later.values()
        if change.before is not None
    ]
    return kept + restored
