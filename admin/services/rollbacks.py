"""Rollbacks: one revision undone, or rows restored as they were at one, as a new revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite, net_changes
from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope
from admin.errors import MOST_DETAILS, VersionConflict
from admin.services.change_drafts import Writes
from admin.services.changeable.base import ChangeOptions, Policy
from admin.services.changeable.registry import restoring_write
from admin.services.changes import Changed, apply_changes
from admin.services.context import Context
from admin.services.revisions import check_number, not_found
from admin.services.scopes import check_readable
from admin.store import revisions


def roll_back_revision(
    context: Context, number: int, options: ChangeOptions, *, only_restorable: bool = False
) -> Changed:
    """Undo one revision; refused where one of its rows is not as that revision left it.

    With `only_restorable` such rows are left as they are, unless all are such.
    """
    left: list[JsonObject] = []

    def undo(connection: Connection) -> list[RowWrite]:
        left.clear()  # it may be drafted more than once
        if revisions.get(connection, number) is None:
            raise not_found(connection, number)
        later = net_changes(revisions.changes_above(connection, number, rows_of=number))
        changed_since = [change for change in later.values() if change.is_real]
        rows = revisions.changes_of(connection, number)
        if changed_since and (not only_restorable or len(changed_since) == len(rows)):
            raise _changed_since(context, connection, number, changed_since)
        left.extend(_left_rows(connection, changed_since))
        kept = {change.key for change in changed_since}
        reversals = []
        for change in (row for row in rows if row.key not in kept):
            last = later.get(change.key, change)  # later revisions may have changed the row and changed it back
            reversals.append(replace(change.reverse(), revision=last.revision))
        return _restoring_writes(context, reversals)

    changed = _roll_back(context, undo, options, undone=number)
    return replace(changed, left=tuple(left[:MOST_DETAILS]), left_count=len(left))


def _changed_since(
    context: Context, connection: Connection, number: int, changes: Sequence[RowChange]
) -> VersionConflict:
    """The error for a revision some of whose rows were changed again: by which revision each, and which were not."""
    made_by = revisions.provenance_of(connection, (change.revision for change in changes[:MOST_DETAILS]))
    details = _left_rows(connection, changes[:MOST_DETAILS])
    named = "; ".join(f"{change.key} by {_made_by(change, made_by, context)}" for change in changes[:5])
    changed = {change.key for change in changes}
    unchanged = [_row(row) for row in revisions.changes_of(connection, number) if row.key not in changed]
    count = f" Its other rows ({len(unchanged)}) can be undone alone (--restorable)." if unchanged else ""
    return VersionConflict(
        f"Revision {number} cannot be undone alone: its rows have changed since, {named}.{count} Undo the later "
        "revisions first, or roll the scope back to an older revision.",
        details=details,
        restorable=unchanged[:MOST_DETAILS],
    )


def _left_rows(connection: Connection, changes: Sequence[RowChange]) -> list[JsonObject]:
    """Rows that were changed again, each with the later revision."""
    made_by = revisions.provenance_of(connection, (change.revision for change in changes[:MOST_DETAILS]))
    rows = []
    for change in changes:
        revision = made_by.get(change.revision)  # None where that is no longer kept
        provenance = {} if revision is None else {"provenance": revision.as_json()}
        rows.append({**_row(change), "changed_by_revision": change.revision, **provenance})
    return rows


def _made_by(change: RowChange, made_by: Mapping[int, Provenance], context: Context) -> str:
    revision = made_by.get(change.revision)
    return revision.describe(context.clock()) if revision else f"revision {change.revision}"


def _row(change: RowChange) -> JsonObject:
    """Which row a change is of, as details of errors name it."""
    name = {"name": change.name} if change.name else {}
    return {"resource_type": change.kind, **name, **change.scope.keys()}


def roll_back_scope(context: Context, number: int, scope: Scope, kind: Kind | None, options: ChangeOptions) -> Changed:
    """Restore the attributes of one exact scope as they were at a revision."""

    def restore(connection: Connection) -> list[RowWrite]:
        check_number(connection, number)
        check_readable(context, connection, scope)
        kinds = [kind.name] if kind else None
        net = net_changes(revisions.changes_above(connection, number, kinds=kinds, scopes=[scope]))
        return _restoring_writes(context, [change.reverse() for change in net.values() if change.is_attribute])

    return _roll_back(context, restore, options, restored=number)


def roll_back_everything(context: Context, number: int, options: ChangeOptions) -> Changed:
    """Restore every row as it was at a revision."""

    def restore(connection: Connection) -> list[RowWrite]:
        check_number(connection, number)
        net = net_changes(revisions.changes_above(connection, number))
        return _restoring_writes(context, [change.reverse() for change in net.values()])

    return _roll_back(context, restore, options, Policy.RESTORE_ALL, restored=number)


def _roll_back(
    context: Context,
    writes: Writes,
    options: ChangeOptions,
    policy: Policy = Policy.RESTORE,
    *,
    undone: int | None = None,
    restored: int | None = None,
) -> Changed:
    authorship = replace(options.authorship, undone=undone, restored=restored)
    return apply_changes(context, writes, replace(options, authorship=authorship, policy=policy))


def _restoring_writes(context: Context, changes: Iterable[RowChange]) -> list[RowWrite]:
    """The writes that make these changes, where each row is as its last revision left it."""
    real = (change for change in changes if change.is_real)
    return [restoring_write(context, change, index) for index, change in enumerate(real)]
