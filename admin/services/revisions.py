"""Revisions: list, watch, read and compare."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, net_changes
from admin.core.provenance import Provenance
from admin.core.settings.scopes import Scope
from admin.errors import NotFound, RevisionNotFound, RevisionPruned
from admin.services.context import Context
from admin.services.later_revisions import MOST_LATER
from admin.services.scopes import check_existed
from admin.services.visibility import seen_changes, seen_rows
from admin.services.waiting import Wait
from admin.store import revisions, row_changes
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
    seen = replace(conditions, seen=seen_rows(context.access))
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=conditions.domain or "", project=conditions.project or ""))
    deadline = time.monotonic() + wait_seconds
    with context.wait_limiter.slot(Wait.REVISION) as slot:
        while True:
            with context.database.reading() as connection:
                head, oldest = revisions.head(connection), revisions.oldest(connection)
                page = revisions.page(connection, seen, from_number, limit + 1)
            remaining = deadline - time.monotonic()
            if page or remaining <= 0 or context.revision_watcher.is_closing:
                break
            slot.require()
            context.revision_watcher.wait_above(head, remaining)
    next_number = page[limit - 1].number if len(page) > limit else None
    return RevisionPage(revisions=tuple(page[:limit]), head=head, oldest=oldest, next_number=next_number)


@dataclass(frozen=True, kw_only=True)
class RevisionView:
    """One revision with the rows it changed."""

    revision: Revision
    changes: list[RowChange]
    rolled_back_by: list[Provenance]  #: the newest later revisions that rolled it, or rows of it, back


def get_revision(context: Context, number: int) -> RevisionView:
    """One revision with the rows it changed, and by which ones it was rolled back."""
    with context.database.reading() as connection:
        revision = revisions.get(connection, number)
        changes = seen_changes(context.access, row_changes.changes_of(connection, number))
        if revision is None or (revision.change_count and not changes):
            raise not_found(connection, number)
        return RevisionView(
            revision=replace(revision, change_count=len(changes)),
            changes=changes,
            rolled_back_by=revisions.rollbacks_of(connection, number, MOST_LATER),
        )


def difference(context: Context, start: int, end: int) -> list[RowChange]:
    """The net difference between the states at two revisions, in either direction."""
    low, high = sorted((start, end))
    with context.database.reading() as connection:
        check_number(connection, high)
        check_number(connection, low)
        net = net_changes(row_changes.changes_above(connection, low, up_to=high))
    rows = seen_changes(context.access, (change for change in net.values() if change.is_real))
    return rows if start <= end else [change.reverse() for change in rows]


def check_number(connection: Connection, number: int) -> None:
    """Refuse a revision that has not happened yet, or whose state cannot be reached; 0 is before the first."""
    if not revisions.oldest(connection) - 1 <= number <= revisions.head(connection):
        raise not_found(connection, number)


def not_found(connection: Connection, number: int) -> NotFound:
    """The error for a revision that is not there, or no longer."""
    head, oldest = revisions.head(connection), revisions.oldest(connection)
    if number < oldest and oldest > 1:
        return RevisionPruned(
            f"Revision {number} is no longer kept; the oldest that is kept is {oldest}. Settings can be read and "
            f"restored as they were at {oldest - 1} or later. Revisions are deleted by `rainbow-admin prune "
            "--revisions`, and once they are older than the admin's retention.revisions, if that is set."
        )
    return RevisionNotFound(f"There is no revision {number}; the last one is {head}. `rainbowctl history` lists them.")
