"""History: the rows as they were at a revision, found by undoing what came after it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.store import attributes, revisions
from admin.store.revisions import RowChange, RowKey


def net_changes(changes: Iterable[RowChange]) -> dict[RowKey, RowChange]:
    """What a run of changes, oldest first, comes to for each row: from before the first to after the last."""
    net: dict[RowKey, RowChange] = {}
    for change in changes:
        first = net.get(change.key, change)
        net[change.key] = RowChange(
            kind=change.kind,
            name=change.name,
            scope=change.scope,
            before=first.before,
            before_version=first.before_version,
            after=change.after,
            revision=change.revision,
        )
    return net


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
    kept = [row for row in rows if (row.kind, "", row.scope) not in later]
    restored = [
        Row(kind=change.kind, scope=change.scope, payload=change.before, version=change.before_version or 0)
        for change in later.values()
        if change.before is not None
    ]
    return kept + restored
