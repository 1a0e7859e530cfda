"""Change drafts: changes of rows, drafted noun by noun and checked as a whole, and not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, RowWrite
from admin.core.fleet.memberships import joining_revisions
from admin.core.in_use import Use, first_uses, with_provenance
from admin.core.json_text import JsonObject
from admin.core.problems import Problem, raise_problems
from admin.core.provenance import Provenance
from admin.core.quantities import LARGEST
from admin.core.settings.scopes import SCOPE_KEYS
from admin.core.settings.warnings import Warning
from admin.errors import MOST_DETAILS, InUse, VersionConflict
from admin.services.administrators import check_administrators
from admin.services.changeable.base import Changeable, ChangeOptions, Draft, Mode
from admin.services.changeable.registry import NOUNS, class_of
from admin.services.changeable.views import StoredSettings
from admin.services.context import Context
from admin.services.later_revisions import (
    MOST_LATER,
    describe_later,
    later_details,
    later_revisions,
)
from admin.services.visibility import told_provenance
from admin.store import revisions, row_changes

#: Rows that a message names; the details name more.
_MOST_NAMED = 5

Writes = Sequence[RowWrite] | Callable[[Connection], Sequence[RowWrite]]


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A change that is checked, and not stored yet."""

    draft: Draft
    nouns: Sequence[Changeable]  #: that have writes
    warnings: tuple[Warning, ...]
    changes: Sequence[RowChange]  #: those that are real

    def changes_of(self, noun: Changeable) -> list[RowChange]:
        return [change for _, change in noun.rows if change.is_real]


def draft_change(draft: Draft, writes: Writes, head: int) -> Drafted:
    """Draft and check a change after the last revision; Invalid or a RainbowError where it may not be made."""
    _check_head(head, draft.options.expected_head)
    nouns = _draft(draft, writes(draft.connection) if callable(writes) else writes)
    warnings = _check(draft, nouns)
    changes = [change for change in draft.changes if change.is_real]
    return Drafted(draft=draft, nouns=nouns, warnings=warnings, changes=changes)


def draft_unlocked(
    context: Context, connection: Connection, writes: Writes, options: ChangeOptions
) -> tuple[Drafted, int]:
    """A change that will not be stored, and the last revision."""
    head, view = revisions.head(connection), StoredSettings(context, connection)
    draft = Draft(context=context, transaction=connection, settings_view=view, options=options)
    return draft_change(draft, writes, head), head


def planned_changes(
    context: Context, connection: Connection, proposed: Sequence[RowWrite], *, force: bool = False
) -> list[RowChange]:
    """The changes that writes would make, checked as a whole but not stored."""
    options = ChangeOptions(mode=Mode.DRY_RUN, force=force, access=context.access)
    drafted, _ = draft_unlocked(context, connection, proposed, options)
    return drafted.draft.changes


def _check_head(head: int, expected: int | None) -> None:
    if expected is not None and expected != head:
        raise VersionConflict(
            f"This was planned at revision {expected}, and revision {head} has been made since. "
            "Check what changed, and plan again."
        )


def _draft(draft: Draft, writes: Sequence[RowWrite]) -> list[Changeable]:
    """What each write does to its row, noun by noun; answers the nouns that have writes."""
    by_noun: dict[type[Changeable], list[RowWrite]] = {}
    for write in writes:
        by_noun.setdefault(class_of(write.key), []).append(write)
    classes = [noun_class for noun_class in NOUNS if noun_class in by_noun]
    _check_unique([write for noun_class in classes for write in by_noun[noun_class]])
    nouns = []
    for noun_class in classes:
        noun = noun_class(draft, by_noun[noun_class])
        for write in by_noun[noun_class]:
            with draft.collecting_problems(write):
                noun.check_known(draft.options.access, write.key)
                noun.rows.append((write, noun.change(write)))
                draft.rows.append(noun.rows[-1])
        nouns.append(noun)
    return nouns


def _check_unique(writes: Sequence[RowWrite]) -> None:
    positions: dict[RowKey, int | None] = {}
    problems = []
    for write in writes:
        if write.key in positions:
            where = f"also at position {positions[write.key]}"
            reason = f"{write.key} is in the change twice, {where}; keep one."
            problems.append(Problem(field="", reason=reason, index=write.index))
        positions[write.key] = write.index
    raise_problems(problems)


def _check(draft: Draft, nouns: Sequence[Changeable]) -> tuple[Warning, ...]:
    """Check every row against the state that all of them leave together, and against what its writer expected."""
    warnings: list[Warning] = []
    for noun in nouns:
        warnings += noun.check(noun.rows)
    for noun in nouns:
        draft.problems += noun.check_removals(noun.removed)
    raise_problems(draft.problems)
    for noun in nouns:
        for _write, change in noun.rows:
            if change.is_real:
                noun.check_access(draft.options.access, change)
    _check_expectations(draft)
    check_administrators(draft)
    if not draft.options.force:
        _check_unused(draft, nouns)
    return tuple(warnings)


def _check_unused(draft: Draft, nouns: Sequence[Changeable]) -> None:
    users = list(users_of_removed(nouns))
    if users:
        caller = draft.context.seen_by(draft.options.access)
        shown = explain_uses(caller, draft.connection, first_uses(users, MOST_DETAILS))
        named = " ".join(use.sentence for use in shown[:_MOST_NAMED])
        others = sum(use.count for use in shown[_MOST_NAMED:])
        more = f" And {others} more." if others else ""
        raise InUse(
            f"In use: {named}{more} Change them first, or force it (`force=true`, --force of rainbowctl).",
            details=[use.as_detail() for use in shown],
        )


def explain_uses(context: Context, connection: Connection, uses: Sequence[Use]) -> list[Use]:
    """Uses that say by which revisions they are so, as far as the caller may know these."""
    uses = _with_joining(connection, uses)
    made_by = revisions.provenance_of(connection, (use.version for use in uses if use.version))
    return with_provenance(uses, told_provenance(context.access, connection, made_by), context.clock())


def _with_joining(connection: Connection, uses: Sequence[Use]) -> list[Use]:
    """Uses of which those by pools and labels have the revision that added the member, not the last one of the row."""
    joined = {
        group: joining_revisions(row_changes.last_changes(connection, *group, row_changes.MOST_OF_GROUP))
        for group in {use.group for use in uses if use.group is not None}
    }
    return [use if use.group is None else replace(use, version=joined[use.group].get(use.removed)) for use in uses]


def users_of_removed(nouns: Sequence[Changeable]) -> Iterator[Use]:
    """What would miss the rows that a change removes."""
    return (user for noun in nouns for user in noun.users(noun.removed))


def _check_expectations(draft: Draft) -> None:
    conflicts = [(write, change) for write, change in draft.rows if not write.expectation.holds(change.before_version)]
    if not conflicts:
        return
    made_by = _last_changes(draft, [change for _, change in conflicts[:MOST_DETAILS]])
    later = {change.key: _later(draft.connection, write, change) for write, change in conflicts[:_MOST_NAMED]}
    now = draft.context.clock()
    named = "; ".join(_current_state(change, made_by, later[change.key], now) for _, change in conflicts[:_MOST_NAMED])
    more = f" and {len(conflicts) - _MOST_NAMED} more" if len(conflicts) > _MOST_NAMED else ""
    is_new = all(write.expectation.absent for write, _ in conflicts)
    problem = "Exists already" if is_new else "Not at the expected version"
    raise VersionConflict(
        f"{problem}: {named}{more}. Read the rows again and repeat the change.",
        details=[
            {**_conflict(write, change, made_by.get(change.key)), **later.get(change.key, {})}
            for write, change in conflicts
        ],
    )


def _later(connection: Connection, write: RowWrite, change: RowChange) -> JsonObject:
    """The revisions that changed a row since the version that its writer expected; of one what it rolled back."""
    expected = write.expectation.version
    if expected is None:
        return {}
    since = row_changes.changed_since(connection, change.key, min(expected, LARGEST), MOST_LATER)
    entries = later_revisions(connection, since.newest)
    return later_details([entries[number] for number in since.newest], since.number)


def _last_changes(draft: Draft, changes: Sequence[RowChange]) -> dict[RowKey, Provenance]:
    """The revisions that made rows as they are, or deleted them, as far as those are kept."""
    connection = draft.connection
    versions = {change.key: change.before_version for change in changes}
    made_by = revisions.provenance_of(connection, (version for version in versions.values() if version))
    made_by = told_provenance(draft.options.access, connection, made_by)
    missing = [key for key, version in versions.items() if not version][:_MOST_NAMED]
    deleted = {key: _deleted_by(connection, key) for key in missing}
    made_or_deleted = {key: made_by.get(version) if version else deleted.get(key) for key, version in versions.items()}
    return {key: provenance for key, provenance in made_or_deleted.items() if provenance is not None}


def _deleted_by(connection: Connection, key: RowKey) -> Provenance | None:
    if key.name:
        return row_changes.deleted_by(connection, key.kind, [key.name]).get(key.name)
    return row_changes.deleted_at(connection, key.kind, key.scope)


def _current_state(change: RowChange, made_by: Mapping[RowKey, Provenance], later: JsonObject, now: datetime) -> str:
    keys = {"name": change.name, **change.scope.keys()}
    place = "/".join(keys[key] for key in ("name", *SCOPE_KEYS) if keys.get(key))
    version = change.before_version
    state = f"is at version {version}" if version is not None else "does not exist"
    if "later" in later:
        state += f" (changed since by {describe_later(later['later'], later['later_count'], now)})"
    elif change.key in made_by:
        by = made_by[change.key].describe(now)
        state += f" ({'' if version else 'deleted by '}{by})"
    return f"{change.kind} at {place} {state}"


def _conflict(write: RowWrite, change: RowChange, made_by: Provenance | None) -> JsonObject:
    facts: JsonObject = {
        "index": write.index,
        "resource_type": change.kind,
        "name": change.name or None,
        **change.scope.keys(),
        "expected_version": write.expectation.version,
        "current_version": change.before_version,
        "provenance": made_by and made_by.as_json(),
    }
    return {name: value for name, value in facts.items() if value is not None}
