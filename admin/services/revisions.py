"""Revisions: list, watch, read, compare and roll back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite, net_changes
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope
from admin.errors import MOST_DETAILS, NotFound, RevisionNotFound, RevisionPruned, VersionConflict
from admin.services.changeable.base import ChangeOptions, Policy
from admin.services.changeable.registry import restoring_write
from admin.services.changes import Changed, Writes, apply_changes
from admin.services.context import Context
from admin.services.scopes import check_existed, check_readable
from admin.services.waiting import Wait
from admin.store import revisions
from admin.store.revisions import Revision, RevisionFilter


@dataclass(frozen=True, kw_only=True)
class RevisionPage:
    """A page of revisions."""

    revisions: tuple[Revision, ...]
    head: int  #: the last revision of all
    oldest: int  #: the oldest revision that is kept
    next_number: int | None  #: the revision after which the next page starts, if there is one


def list_revisions(
    context: Context, conditions: RevisionFilter, from_number: int | None, limit: int, wait_seconds: float = 0
) -> RevisionPage:
    """Revisions, newest first; above a number oldest first, after a wait if there is none yet."""
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
    deadline = time.monotonic() + wait_seconds
    with context.waiting_room.place(Wait.REVISION) as place:
        while True:
            with context.database.reading() as connection:
                head, oldest = revisions.head(connection), revisions.oldest(connection)
                page = revisions.page(connection, conditions, from_number, limit + 1)
            remaining = deadline - time.monotonic()
            if page or remaining <= 0 or context.revision_watcher.is_closing:
                break
            place.require()
            context.revision_watcher.wait_above(head, remaining)
    next_number = page[limit - 1].number if len(page) > limit else None
    return RevisionPage(revisions=tuple(page[:limit]), head=head, oldest=oldest, next_number=next_number)


def get_revision(context: Context, number: int) -> tuple[Revision, list[RowChange]]:
    """One revision with the rows it changed."""
    with context.database.reading() as connection:
        revision = revisions.get(connection, number)
        if revision is None:
            raise _not_found(connection, number)
        return revision, revisions.changes_of(connection, number)


def difference(context: Context, start: int, end: int) -> list[RowChange]:
    """The net difference between the states at two revisions, in either direction."""
    low, high = sorted((start, end))
    with context.database.reading() as connection:
        check_number(connection, high)
        check_number(connection, low)
        net = net_changes(revisions.changes_above(connection, low, up_to=high))
    rows = [change for change in net.values() if change.is_real]
    return rows if start <= end else [change.reverse() for change in rows]


def check_number(connection: Connection, number: int) -> None:
    """Refuse a revision that has not happened yet, or whose state cannot be reached; 0 is before the first."""
    if not revisions.oldest(connection) - 1 <= number <= revisions.head(connection):
        raise _not_found(connection, number)


def _not_found(connection: Connection, number: int) -> NotFound:
    head, oldest = revisions.head(connection), revisions.oldest(connection)
    if number < oldest and oldest > 1:
        return RevisionPruned(
            f"Revision {number} is no longer kept; the oldest that is kept is {oldest}. Settings can be read and "
            f"restored as they were at {oldest - 1} or later. The admin's retention.revisions sets for how long."
        )
    return RevisionNotFound(f"There is no revision {number}; the last one is {head}. `rainbowctl history` lists them.")


def roll_back_revision(context: Context, number: int, options: ChangeOptions) -> Changed:
    """Undo one revision; refused where one of its rows is not as that revision left it."""

    def undo(connection: Connection) -> list[RowWrite]:
        if revisions.get(connection, number) is None:
            raise _not_found(connection, number)
        later = net_changes(revisions.changes_above(connection, number, rows_of=number))
        changed_since = [change for change in later.values() if change.is_real]
        if changed_since:
            raise _changed_since(number, changed_since)
        reversals = []
        for change in revisions.changes_of(connection, number):
            last = later.get(change.key, change)  # later revisions may have changed the row and changed it back
            reversals.append(replace(change.reverse(), revision=last.revision))
        return _restoring_writes(context, reversals)

    return _roll_back(context, undo, options, undone=number)


def _changed_since(number: int, changes: list[RowChange]) -> VersionConflict:
    details = [
        {
            "resource_type": change.kind,
            **({"name": change.name} if change.name else {}),
            **change.scope.keys(),
            "changed_by_revision": change.revision,
        }
        for change in changes[:MOST_DETAILS]
    ]
    named = "; ".join(f"{change.key} by revision {change.revision}" for change in changes[:5])
    return VersionConflict(
        f"Revision {number} cannot be undone alone: its rows have changed since, {named}. Undo the later revisions "
        "first, or roll the scope back to an older revision.",
        details=details,
    )


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
