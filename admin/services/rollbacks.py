"""Rollbacks: one revision undone, or rows restored as they were at one, as a new revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, RowWrite, net_changes
from admin.core.json_text import JsonObject
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope
from admin.errors import MOST_DETAILS, PermissionDenied, VersionConflict
from admin.services.change_drafts import Writes
from admin.services.changeable.base import ChangeOptions, Policy
from admin.services.changeable.registry import restoring_write
from admin.services.changes import Changed, apply_changes
from admin.services.context import Context
from admin.services.later_revisions import (
    MOST_LATER,
    describe_later,
    later_details,
    later_revisions,
)
from admin.services.revisions import check_number, not_found
from admin.services.scopes import check_readable
from admin.services.visibility import seen_changes
from admin.store import revisions, row_changes

#: Rows that a message names; the details name more.
_MOST_NAMED = 5


def roll_back_revision(
    context: Context, number: int, options: ChangeOptions, *, only_restorable: bool = False
) -> Changed:
    """Undo one revision; refused where one of its rows is not as that revision left it.

    With `only_restorable` such rows are left as they are, unless all are such.
    """
    left: list[JsonObject] = []
    changed_back: list[JsonObject] = []

    def undo(connection: Connection) -> list[RowWrite]:
        left.clear()  # it may be drafted more than once
        changed_back.clear()
        rows = row_changes.changes_of(connection, number)
        seen = seen_changes(options.access, rows)
        if revisions.get(connection, number) is None or (rows and not seen):
            raise not_found(connection, number)
        if len(seen) < len(rows):
            raise PermissionDenied(f"Revision {number} also changed rows that you may not see: you cannot undo it.")
        since = LaterChanges(connection, number)
        if since.changed and (not only_restorable or len(since.changed) == len(rows)):
            raise _changed_since(context, connection, since, rows)
        left.extend(since.details(connection, since.changed))
        changed_back.extend(since.details(connection, since.changed_back))
        kept = {change.key for change in since.changed}
        reversals = []
        for change in (row for row in rows if row.key not in kept):
            last = since.net.get(change.key, change)  # later revisions may have changed the row and changed it back
            reversals.append(replace(change.reverse(), revision=last.revision))
        return _restoring_writes(context, reversals)

    changed = _roll_back(context, undo, options, undone=number)
    return replace(
        changed,
        left=tuple(left[:MOST_DETAILS]),
        left_count=len(left),
        changed_back=tuple(changed_back[:MOST_DETAILS]),
    )


class LaterChanges:
    """What later revisions did to the rows of one revision."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.number = number
        self._revisions: dict[RowKey, list[int]] = {}  #: those that changed each row, oldest first

        def noted() -> Iterator[RowChange]:
            for change in row_changes.changes_above(connection, number, rows_of=number):
                self._revisions.setdefault(change.key, []).append(change.revision)
                yield change

        self.net = net_changes(noted())
        self.changed = [change for change in self.net.values() if change.is_real]
        self.changed_back = [change for change in self.net.values() if not change.is_real]

    def details(self, connection: Connection, changes: Sequence[RowChange]) -> list[JsonObject]:
        """Rows that were changed again, each with the later revisions; of very many rows the first have all of it."""
        named = changes[:MOST_DETAILS]
        entries = later_revisions(connection, (number for change in named for number in self._newest(change)))
        return [self._detail(change, entries) for change in changes]

    def _detail(self, change: RowChange, entries: Mapping[int, JsonObject]) -> JsonObject:
        last = entries.get(change.revision, {})
        later = [entries[number] for number in self._newest(change) if number in entries]
        return {
            **_row(change),
            "changed_by_revision": change.revision,
            **({"provenance": last} if "author" in last else {}),
            **({"rolled_back": True} if last.get("undone") == self.number else {}),
            **(later_details(later, len(self._revisions[change.key])) if later else {}),
        }

    def describe(self, change: RowChange, detail: JsonObject, now: datetime) -> str:
        """A row that was changed again, and by which revisions."""
        entries = detail.get("later") or [_last(detail)]
        return f"{change.key} by {describe_later(entries, detail.get('later_count', 1), now)}"

    def _newest(self, change: RowChange) -> list[int]:
        return self._revisions[change.key][: -MOST_LATER - 1 : -1]


def _last(detail: JsonObject) -> JsonObject:
    """The last revision of a row that was changed again; its number alone where it is no longer kept."""
    return detail.get("provenance") or {"revision": detail["changed_by_revision"]}


def _changed_since(
    context: Context, connection: Connection, since: LaterChanges, rows: Sequence[RowChange]
) -> VersionConflict:
    """The error for a revision some of whose rows were changed again: by which revisions each, and which were not."""
    details = since.details(connection, since.changed[:MOST_DETAILS])
    changed = {change.key for change in since.changed}
    unchanged = [_row(row) for row in rows if row.key not in changed]
    count = f" Its other rows ({len(unchanged)}) can be undone alone (--restorable)." if unchanged else ""
    last, now = {change.revision for change in since.changed}, context.clock()
    if len(last) == 1 and all(detail.get("rolled_back") for detail in details):
        by = describe_later([{**_last(details[0]), "undone": None}], 1, now)  # what it undid is said already
        message = (
            f"Revision {since.number} was rolled back already, by {by}.{count} To make its change again, roll back "
            f"revision {details[0]['changed_by_revision']}."
        )
    else:
        pairs = zip(since.changed[:_MOST_NAMED], details, strict=False)
        named = "; ".join(since.describe(change, detail, now) for change, detail in pairs)
        message = (
            f"Revision {since.number} cannot be undone alone: its rows have changed since, {named}.{count} Undo the "
            "later revisions first, or roll the scope back to an older revision."
        )
    return VersionConflict(message, details=details, restorable=unchanged[:MOST_DETAILS])


def _row(change: RowChange) -> JsonObject:
    """Which row a change is of, as details of errors name it."""
    name = {"name": change.name} if change.name else {}
    return {"resource_type": change.kind, **name, **change.scope.keys()}


def roll_back_scope(context: Context, number: int, scope: Scope, kind: Kind | None, options: ChangeOptions) -> Changed:
    """Restore the attributes of one exact scope as they were at a revision."""
    options.access.check("attributes.read", scope)

    def restore(connection: Connection) -> list[RowWrite]:
        check_number(connection, number)
        check_readable(context, connection, scope)
        kinds = [kind.name] if kind else None
        net = net_changes(row_changes.changes_above(connection, number, kinds=kinds, scopes=[scope]))
        return _restoring_writes(context, [change.reverse() for change in net.values() if change.is_attribute])

    return _roll_back(context, restore, options, restored=number)


def roll_back_everything(context: Context, number: int, options: ChangeOptions) -> Changed:
    """Restore every row as it was at a revision."""

    options.access.check("attributes.write")  # before anything is told of all the others

    def restore(connection: Connection) -> list[RowWrite]:
        check_number(connection, number)
        net = net_changes(row_changes.changes_above(connection, number))
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
