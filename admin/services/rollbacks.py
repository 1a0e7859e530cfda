"""Rollbacks: revisions undone, or rows restored as they were at one, as a new revision."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, RowWrite, net_changes
from admin.core.json_text import JsonObject
from admin.core.provenance import show_numbers
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope
from admin.errors import MOST_DETAILS, PermissionDenied, VersionConflict
from admin.services.access import Access
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

#: Revisions that are undone together; more are a matter of going back to an older one.
MOST_UNDONE = 1000
#: Rows that a message names; the details name more.
_MOST_NAMED = 5


def roll_back_revisions(
    context: Context, numbers: Collection[int], options: ChangeOptions, *, only_restorable: bool = False
) -> Changed:
    """Undo some revisions as one; refused where others have changed one of their rows since.

    With `only_restorable` such rows are left as they are, unless all are such.
    """
    undone = sorted(set(numbers))
    left: list[JsonObject] = []
    changed_back: list[JsonObject] = []

    def undo(connection: Connection) -> list[RowWrite]:
        left.clear()  # it may be drafted more than once
        changed_back.clear()
        for number in undone:
            _check_seen(connection, number, options.access)
        since = LaterChanges(connection, undone)
        if since.changed and (not only_restorable or len(since.changed) == len(since.rows)):
            raise _changed_since(context, connection, since)
        left.extend(since.details(connection, since.changed))
        changed_back.extend(since.details(connection, since.changed_back))
        kept = {change.key for change in since.changed}
        return _restoring_writes(context, [row.reverse() for row in since.rows.values() if row.key not in kept])

    *others, newest = undone
    changed = _roll_back(context, undo, options, undone=newest, also_undone=others or None)
    return replace(
        changed,
        left=tuple(left[:MOST_DETAILS]),
        left_count=len(left),
        changed_back=tuple(changed_back[:MOST_DETAILS]),
    )


def _check_seen(connection: Connection, number: int, access: Access) -> None:
    """Refuse a revision that is not there, or some of whose rows the caller may not see."""
    rows = row_changes.changes_of(connection, number)
    seen = seen_changes(access, rows)
    if revisions.get(connection, number) is None or (rows and not seen):
        raise not_found(connection, number)
    if len(seen) < len(rows):
        raise PermissionDenied(f"Revision {number} also changed rows that you may not see: you cannot undo it.")


class LaterChanges:
    """What other revisions have done to the rows of some revisions since."""

    def __init__(self, connection: Connection, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.rows: dict[RowKey, RowChange] = {}  #: from before the first of the revisions to what they are now
        self._revisions: dict[RowKey, list[int]] = {}  #: the other revisions that changed each row, oldest first
        others: dict[RowKey, list[RowChange]] = {}
        for change in row_changes.changes_above(connection, numbers[0] - 1, rows_of=numbers):
            is_undone = change.revision in numbers
            if not is_undone and change.key not in self.rows:
                continue  # it came before those of the revisions that changed this row
            self.rows |= net_changes([self.rows.get(change.key, change), change])
            if not is_undone:
                others.setdefault(change.key, []).append(change)
                self._revisions.setdefault(change.key, []).append(change.revision)
        self.changed = [changes[-1] for key, changes in others.items() if self._has_changed(changes)]
        blocked = {change.key for change in self.changed}
        self.changed_back = [changes[-1] for key, changes in others.items() if key not in blocked]

    def _has_changed(self, changes: Sequence[RowChange]) -> bool:
        """Whether other revisions left a row otherwise than they found it, between two of the revisions or after."""
        runs: dict[int, list[RowChange]] = {}
        for change in changes:
            runs.setdefault(bisect(self.numbers, change.revision), []).append(change)
        return any(net.is_real for run in runs.values() for net in net_changes(run).values())

    @property
    def title(self) -> str:
        """`Revision 7`, or `Revisions 7..9`, which others undo or not."""
        return f"Revision{'s' if len(self.numbers) > 1 else ''} {show_numbers(self.numbers)}"

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
            **({"rolled_back": True} if self._is_rollback(last) else {}),
            **(later_details(later, len(self._revisions[change.key])) if later else {}),
        }

    def _is_rollback(self, revision: JsonObject) -> bool:
        """Whether a later revision undid the same revisions, and maybe others together with them."""
        return set(self.numbers) <= _undone_by(revision)

    def describe(self, change: RowChange, detail: JsonObject, now: datetime) -> str:
        """A row that was changed again, and by which revisions."""
        entries = detail.get("later") or [_last(detail)]
        return f"{change.key} by {describe_later(entries, detail.get('later_count', 1), now)}"

    def _newest(self, change: RowChange) -> list[int]:
        return self._revisions[change.key][: -MOST_LATER - 1 : -1]


def _undone_by(revision: JsonObject) -> set[int]:
    """The revisions that a later one undid."""
    return {*revision.get("also_undone", ()), revision["undone"]} if "undone" in revision else set()


def _last(detail: JsonObject) -> JsonObject:
    """The last revision of a row that was changed again; its number alone where it is no longer kept."""
    return detail.get("provenance") or {"revision": detail["changed_by_revision"]}


def _changed_since(context: Context, connection: Connection, since: LaterChanges) -> VersionConflict:
    """The error for revisions some of whose rows were changed again: by which revisions each, and which were not."""
    details = since.details(connection, since.changed[:MOST_DETAILS])
    changed = {change.key for change in since.changed}
    unchanged = [_row(row) for row in since.rows.values() if row.key not in changed]
    is_one = len(since.numbers) == 1
    whose = "Its" if is_one else "Their"
    count = f" {whose} other rows ({len(unchanged)}) can be undone alone (--restorable)." if unchanged else ""
    last, now = {change.revision for change in since.changed}, context.clock()
    if len(last) == 1 and all(detail.get("rolled_back") for detail in details):
        rollback = _last(details[0])
        if _undone_by(rollback) == set(since.numbers):
            rollback = {**rollback, "undone": None}  # what it undid is said already
            changes = "its change" if is_one else "their changes"
        else:
            changes = "all that it undid"
        message = (
            f"{since.title} {'was' if is_one else 'were'} rolled back already, by {describe_later([rollback], 1, now)}."
            f"{count} To make {changes} again, roll back revision {details[0]['changed_by_revision']}."
        )
    else:
        pairs = zip(since.changed[:_MOST_NAMED], details, strict=False)
        named = "; ".join(since.describe(change, detail, now) for change, detail in pairs)
        message = (
            f"{since.title} cannot be undone alone: {whose.lower()} rows have changed since, {named}.{count} Undo the "
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
    also_undone: Sequence[int] | None = None,
    restored: int | None = None,
) -> Changed:
    authorship = replace(options.authorship, undone=undone, also_undone=also_undone, restored=restored)
    return apply_changes(context, writes, replace(options, authorship=authorship, policy=policy))


def _restoring_writes(context: Context, changes: Iterable[RowChange]) -> list[RowWrite]:
    """The writes that make these changes, where each row is as its last revision left it."""
    real = (change for change in changes if change.is_real)
    return [restoring_write(context, change, index) for index, change in enumerate(real)]
