"""Revisions: listed, shown, compared, watched, and rolled back."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from admin.core.fleet.definitions import FleetKind
from admin.core.projects import from_payload
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.scopes import Scope
from admin.core.settings.writes import Expectation
from admin.errors import MOST_DETAILS, NotFound, RevisionNotFound, RevisionPruned, UndeclaredKind, VersionConflict
from admin.services.changes import (
    Changed,
    ChangeOptions,
    ChangeSet,
    DefinitionWrite,
    ProjectWrite,
    RowWrite,
    make_change,
)
from admin.services.context import Context
from admin.services.scopes import check_existed, check_readable
from admin.store import history, revisions
from admin.store.revisions import PROJECT, Revision, RevisionFilter, RowChange


@dataclass(frozen=True, kw_only=True)
class RevisionPage:
    """Some revisions, the numbers of the last and the oldest of all, and the one to go on after, if there are more."""

    revisions: tuple[Revision, ...]
    head: int
    oldest: int
    next_number: int | None


def list_revisions(
    context: Context, wanted: RevisionFilter, from_number: int | None, limit: int, wait_seconds: float = 0
) -> RevisionPage:
    """Revisions, newest first; above a number oldest first, waiting for one if there is none yet."""
    with context.database.reading() as connection:
        check_existed(context, connection, Scope(domain=wanted.domain or "", project=wanted.project or ""))
    deadline = time.monotonic() + wait_seconds
    while True:
        with context.database.reading() as connection:
            head, oldest = revisions.head(connection), revisions.oldest(connection)
            found = revisions.page(connection, wanted, from_number, limit + 1)
        remaining = deadline - time.monotonic()
        if found or remaining <= 0 or context.revision_watcher.is_closing:
            break
        context.revision_watcher.wait_above(head, remaining)
    more = found[limit - 1].number if len(found) > limit else None
    return RevisionPage(revisions=tuple(found[:limit]), head=head, oldest=oldest, next_number=more)


def get_revision(context: Context, number: int) -> tuple[Revision, list[RowChange]]:
    """One revision with the rows it changed."""
    with context.database.reading() as connection:
        found = revisions.get(connection, number)
        if found is None:
            raise _not_found(connection, number)
        return found, revisions.changes_of(connection, number)


def difference(context: Context, start: int, end: int) -> list[RowChange]:
    """The net difference between the states at two revisions, in either direction."""
    low, high = sorted((start, end))
    with context.database.reading() as connection:
        check_number(connection, high)
        check_number(connection, low)
        net = history.net_changes(revisions.changes_above(connection, low, up_to=high))
    rows = [change for change in net.values() if change.is_real]
    return rows if start <= end else [_reversed(change) for change in rows]


def check_number(connection: Connection, number: int) -> None:
    """Refuse a revision that has not happened yet, or whose state cannot be reached; 0 is before the first."""
    if not revisions.oldest(connection) - 1 <= number <= revisions.head(connection):
        raise _not_found(connection, number)


def _not_found(connection: Connection, number: int) -> NotFound:
    head, oldest = revisions.head(connection), revisions.oldest(connection)
    if number < oldest and oldest > 1:
        return RevisionPruned(
            f"Revision {number} is no longer kept; the oldest that is kept is {oldest}. Settings can be read, and "
            f"brought back, as they were at {oldest - 1} or later. The admin's retention.revisions says for how long."
        )
    return RevisionNotFound(f"There is no revision {number}; the last one is {head}. `rainbowctl history` lists them.")


def roll_back_revision(context: Context, number: int, options: ChangeOptions) -> Changed:
    """Undo one revision; refused where one of its rows is not as that revision left it."""

    def undo(connection: Connection) -> ChangeSet:
        if revisions.get(connection, number) is None:
            raise _not_found(connection, number)
        later = history.net_changes(revisions.changes_above(connection, number, rows_of=number))
        moved = [change for change in later.values() if change.is_real]
        if moved:
            raise _moved_since(number, moved)
        undone = []
        for change in revisions.changes_of(connection, number):
            last = later.get(change.key, change)  # others may have changed it and changed it back
            undone.append(replace(_reversed(change), revision=last.revision))
        return _change_set(context, undone)

    return make_change(context, undo, replace(options, restores=True))


def _moved_since(number: int, moved: list[RowChange]) -> VersionConflict:
    details = [
        {
            "resource_type": change.kind,
            **({"name": change.name} if change.name else {}),
            **change.scope.keys(),
            "changed_by_revision": change.revision,
        }
        for change in moved[:MOST_DETAILS]
    ]
    named = "; ".join(f"{one.kind} {one.place} by revision {one.revision}" for one in moved[:5])
    return VersionConflict(
        f"Revision {number} cannot be undone alone, for its rows have changed since: {named}. Undo the later ones "
        "first, or roll the scope back to an older revision.",
        details=details,
    )


def roll_back_scope(context: Context, number: int, scope: Scope, kind: Kind | None, options: ChangeOptions) -> Changed:
    """Bring the rows of one exact scope back to what they were at a revision."""

    def restore(connection: Connection) -> ChangeSet:
        check_number(connection, number)
        check_readable(context, connection, scope)
        kinds = [kind.name] if kind else None
        net = history.net_changes(revisions.changes_above(connection, number, kinds=kinds, scopes=[scope]))
        return _change_set(context, [_reversed(change) for change in net.values() if change.kind != PROJECT])

    return make_change(context, restore, replace(options, restores=True))


def roll_back_everything(context: Context, number: int, options: ChangeOptions) -> Changed:
    """Bring everything back to what it was at a revision."""

    def restore(connection: Connection) -> ChangeSet:
        check_number(connection, number)
        net = history.net_changes(revisions.changes_above(connection, number))
        return _change_set(context, [_reversed(change) for change in net.values()])

    return make_change(context, restore, replace(options, restores=True, archived_too=True))


def _reversed(change: RowChange) -> RowChange:
    """The change that takes this one back."""
    return RowChange(
        kind=change.kind,
        name=change.name,
        scope=change.scope,
        before=change.after,
        after=change.before,
        revision=change.revision,
    )


def _change_set(context: Context, changes: list[RowChange]) -> ChangeSet:
    """Rows to restore, each expected to be as its last change left it, so that nothing is lost that came between."""
    rows, projects, definitions = [], [], []
    for index, change in enumerate(change for change in changes if change.is_real):
        expectation = Expectation(absent=True) if change.before is None else Expectation(version=change.revision)
        if change.kind == PROJECT:
            given = None if change.after is None else from_payload(change.after)
            projects.append(ProjectWrite(id=change.scope.project, given=given, expectation=expectation, index=index))
            continue
        if change.name:
            definitions.append(
                DefinitionWrite(
                    kind=FleetKind(change.kind),
                    name=change.name,
                    payload=change.after,
                    expectation=expectation,
                    index=index,
                )
            )
            continue
        rows.append(
            RowWrite(
                kind=_declared(context, change.kind),
                scope=change.scope,
                change=partial(_restored, context, change),
                expectation=expectation,
                index=index,
            )
        )
    return ChangeSet(rows=tuple(rows), projects=tuple(projects), definitions=tuple(definitions))


def _restored(context: Context, change: RowChange, _before: Payload | None) -> Payload | None:
    """The payload of then, if the kind still allows it."""
    return None if change.after is None else context.settings.kinds[change.kind].read(change.after)


def _declared(context: Context, name: str) -> Kind:
    if name not in context.settings.kinds:
        raise UndeclaredKind(
            f"This would change rows of the kind {name}, which configuration no longer declares. Declare kinds.{name} "
            "again first, or roll back single scopes of other kinds.",
            details=[{"field": "resource_type", "reason": f"{name} is not declared."}],
        )
    return context.settings.kinds[name]
