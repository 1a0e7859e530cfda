"""Changes: many rows as one revision, all or nothing; or what they would do, without doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowKey, RowWrite
from admin.core.problems import Invalid, Problem, raise_problems
from admin.core.settings.resolution import Effect
from admin.core.settings.scopes import SCOPE_KEYS
from admin.core.settings.warnings import Warning
from admin.errors import MOST_DETAILS, InUse, RainbowError, VersionConflict
from admin.metrics import count_write
from admin.services.changeable.base import Changeable, ChangeOptions, Draft, Mode
from admin.services.changeable.registry import NOUNS, class_of
from admin.services.changeable.views import EarlySettings, NotInMemory, StoredSettings
from admin.services.context import Context
from admin.store import revisions

#: Rows that a message names; the details name more.
_MOST_NAMED = 5
#: Rows of a change that is drafted early: one of many rows is more likely to be in vain.
_MOST_EARLY_ROWS = 100

Writes = Sequence[RowWrite] | Callable[[Connection], Sequence[RowWrite]]


@dataclass(frozen=True, kw_only=True)
class ChangedRow:
    """One row, before and after; the version is that of the row as it is now stored."""

    change: RowChange
    index: int | None
    version: int | None


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a change did, or would do."""

    rows: tuple[ChangedRow, ...]
    warnings: tuple[Warning, ...]
    revision: int  #: the one it made, or the last one where it made none
    dry_run: bool
    effects: tuple[Effect, ...] = ()

    @property
    def is_change(self) -> bool:
        return any(row.change.is_real for row in self.rows)


def apply_changes(context: Context, writes: Writes, options: ChangeOptions) -> Changed:
    """Make a change of many rows that somebody asked for, and count it."""
    changed = make_change(context, writes, options)
    for row in changed.rows:
        count_write(row.change, dry_run=changed.dry_run)
    return changed


@dataclass(frozen=True, kw_only=True)
class ChangeRequest:
    """A change that is to be made."""

    context: Context
    writes: Writes
    options: ChangeOptions
    early: EarlyDraft | None = None


#: What became of a request: an error, also of the database, is that of this request alone.
ChangeOutcome = Changed | Exception


def make_change(context: Context, writes: Writes, options: ChangeOptions) -> Changed:
    """Make a change as one revision, or report what it would do; all of it is written or nothing.

    Writes that depend on the state are a function of the connection, so that they see the state that is changed.
    Changes that are made at the same time share a transaction.
    """
    if options.dry_run:
        return _try_change(context, writes, options)
    early = draft_early(context, writes, options)
    outcome: ChangeOutcome
    [outcome] = context.changes.submit([ChangeRequest(context=context, writes=writes, options=options, early=early)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _try_change(context: Context, writes: Writes, options: ChangeOptions) -> Changed:
    with context.database.reading() as connection:
        head, view = revisions.head(connection), StoredSettings(context, connection)
        draft = Draft(context=context, transaction=connection, settings_view=view, options=options)
        drafted = draft_change(draft, writes, head)
        effects: tuple[Effect, ...] = ()
        if options.mode is Mode.PLAN:
            effects = tuple(effect for noun in drafted.nouns for effect in noun.effects(drafted.changes_of(noun)))
    return drafted.changed(head, effects)


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A change that is checked, and not stored yet."""

    draft: Draft
    nouns: Sequence[Changeable]  #: that have writes
    warnings: tuple[Warning, ...]
    changes: Sequence[RowChange]  #: those that are real

    def changes_of(self, noun: Changeable) -> list[RowChange]:
        return [change for _, change in noun.rows if change.is_real]

    def changed(self, revision: int, effects: tuple[Effect, ...] = ()) -> Changed:
        """What it did as a revision, or would do; the last revision where it makes none."""
        options = self.draft.options
        return Changed(
            rows=tuple(_changed_row(write, change, revision, options) for write, change in self.draft.rows),
            warnings=self.warnings,
            revision=revision,
            dry_run=options.dry_run,
            effects=effects,
        )


def draft_change(draft: Draft, writes: Writes, head: int) -> Drafted:
    """Draft and check a change after the last revision; Invalid or a RainbowError where it may not be made."""
    _check_head(head, draft.options.expected_head)
    nouns = _draft(draft, writes(draft.connection) if callable(writes) else writes)
    warnings = _check(draft, nouns)
    changes = [change for change in draft.changes if change.is_real]
    return Drafted(draft=draft, nouns=nouns, warnings=warnings, changes=changes)


@dataclass(frozen=True, kw_only=True)
class EarlyDraft:
    """A change that is drafted before the head of the revisions is locked; it holds if what it read is unchanged."""

    drafted: Drafted
    view: EarlySettings


def draft_early(context: Context, writes: Writes, options: ChangeOptions) -> EarlyDraft | None:
    """Draft a change of attributes from memory; None where it must be drafted while the head is locked.

    So must one that seems to be refused: memory may be behind.
    """
    if callable(writes) or len(writes) > _MOST_EARLY_ROWS or options.expected_head is not None:
        return None
    mark = context.index.mark()
    if mark is None or not all(write.key.is_attribute for write in writes):
        return None
    view = EarlySettings(context, mark)
    draft = Draft(context=context, transaction=None, settings_view=view, options=options)
    try:
        return EarlyDraft(drafted=draft_change(draft, writes, context.index.revision), view=view)
    except (Invalid, RainbowError, NotInMemory):
        return None


def planned_changes(context: Context, proposed: Sequence[RowWrite], *, force: bool = False) -> list[RowChange]:
    """The changes that writes would make, checked as a whole but not stored."""
    planned = make_change(context, proposed, ChangeOptions(mode=Mode.DRY_RUN, force=force))
    return [row.change for row in planned.rows]


def _changed_row(write: RowWrite, change: RowChange, revision: int, options: ChangeOptions) -> ChangedRow:
    if not change.is_real or options.dry_run:
        return ChangedRow(change=change, index=write.index, version=change.before_version)
    return ChangedRow(change=change, index=write.index, version=None if change.after is None else revision)


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
    _check_expectations(draft)
    if not draft.options.force:
        _check_unused(nouns)
    return tuple(warnings)


def _check_unused(nouns: Sequence[Changeable]) -> None:
    users = [user for noun in nouns for user in noun.users(noun.removed)]
    if users:
        named = " ".join(reason for _, reason in users[:_MOST_NAMED])
        more = f" And {len(users) - _MOST_NAMED} more." if len(users) > _MOST_NAMED else ""
        raise InUse(
            f"In use: {named}{more} Change them first, or use --force (force=true).",
            details=[{"field": field, "reason": reason} for field, reason in users[:MOST_DETAILS]],
        )


def _check_expectations(draft: Draft) -> None:
    conflicts = [(write, change) for write, change in draft.rows if not write.expectation.holds(change.before_version)]
    if not conflicts:
        return
    named = "; ".join(_current_state(change) for _, change in conflicts[:_MOST_NAMED])
    more = f" and {len(conflicts) - _MOST_NAMED} more" if len(conflicts) > _MOST_NAMED else ""
    raise VersionConflict(
        f"Not at the expected version: {named}{more}. Read the rows again and repeat the change.",
        details=[_conflict(write, change) for write, change in conflicts],
    )


def _current_state(change: RowChange) -> str:
    keys = {"name": change.name, **change.scope.keys()}
    place = "/".join(keys[key] for key in ("name", *SCOPE_KEYS) if keys.get(key))
    version = change.before_version
    return f"{change.kind} at {place} {f'is at version {version}' if version is not None else 'does not exist'}"


def _conflict(write: RowWrite, change: RowChange) -> dict[str, int | str]:
    facts: dict[str, int | str | None] = {
        "index": write.index,
        "resource_type": change.kind,
        "name": change.name or None,
        **change.scope.keys(),
        "expected_version": write.expectation.version,
        "current_version": change.before_version,
    }
    return {name: value for name, value in facts.items() if value is not None}
