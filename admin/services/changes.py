"""Changes: many rows as one revision, all or nothing; or what they would do, without doing it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite
from admin.core.cluster_resources.differences import NamespaceChange
from admin.core.in_use import Use
from admin.core.json_text import JsonObject
from admin.core.problems import Invalid
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA
from admin.core.settings.resolution import Row
from admin.core.settings.warnings import Warning
from admin.errors import MOST_DETAILS, RainbowError
from admin.metrics import count_write
from admin.services.access import UNRESTRICTED
from admin.services.affected_scopes import ChangedValues, affected_finder, find_changed_values
from admin.services.audit import note_owners_removed
from admin.services.capped_defaults import caps_below, find_capped_below
from admin.services.change_drafts import (
    Drafted,
    Writes,
    draft_change,
    draft_unlocked,
    explain_uses,
    users_of_removed,
)
from admin.services.changeable.base import ChangeOptions, Draft, Mode
from admin.services.changeable.views import EarlySettings, NotInMemory
from admin.services.context import Context
from admin.services.deletions import explain_deletions
from admin.services.execution_quotas import warn_of_use
from admin.services.lost_rights import LostRight, find_lost_rights
from admin.services.namespace_previews import preview_namespaces
from admin.services.new_executions import NewExecutions, new_executions_after
from admin.services.next_routes import NextRoute, next_routes
from admin.services.previews import ExecutionPreview, preview_changes
from admin.services.quota_warnings import warn_of_quotas
from admin.services.refused_workflows import Refusals, refusals_in_memory, rows_with_limits
from admin.services.resource_warnings import sets_cluster_resources, warn_of_untaken_resources
from admin.services.token_warnings import bounds_tokens, warn_of_held_tokens
from admin.services.use_reach import RemovedReach, reach_of_removed
from admin.services.visibility import seen_warnings

_log = logging.getLogger("rainbow.changes")

#: Rows of a change that is drafted early: one of many rows is more likely to be drafted again.
_MOST_EARLY_ROWS = 100


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
    values: ChangedValues = field(default_factory=ChangedValues)  #: of a plan: the effective values that would change
    users: tuple[Use, ...] = ()  #: of a dry run: what would miss rows that are removed all the same
    reach: tuple[RemovedReach, ...] = ()  #: of the same: the scopes that have each of them now
    preview: ExecutionPreview | None = None  #: of a dry run: what would become of executions
    new_executions: NewExecutions = field(default_factory=NewExecutions)  #: of a dry run: where it keeps them out
    routes: tuple[NextRoute, ...] = ()  #: of the same: what decides where changed settings no longer do
    namespaces: tuple[NamespaceChange, ...] = ()  #: of the same: what becomes of namespaces on clusters
    lost_rights: tuple[LostRight, ...] = ()  #: of the same: what users of changed groups would no longer have
    left: tuple[JsonObject, ...] = ()  #: of a rollback: the first rows that it leaves, with the later revision of each
    left_count: int = 0
    changed_back: tuple[JsonObject, ...] = ()  #: of a rollback: rows that later revisions changed and changed back
    without_tokens: tuple[str, ...] = ()  #: users and clusters whose tokens were revoked with them, as events name them

    @property
    def is_change(self) -> bool:
        return any(row.change.is_real for row in self.rows)


def apply_changes(context: Context, writes: Writes, options: ChangeOptions) -> Changed:
    """Make a requested change of many rows, and count it."""
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
    everything = context.seen_by(UNRESTRICTED)  # of changes of others too, which share a transaction
    request = ChangeRequest(context=everything, writes=writes, options=options, early=early)
    outcome: ChangeOutcome
    [outcome] = context.changes.submit([request])
    if isinstance(outcome, Exception):
        raise outcome
    note_owners_removed(context, options.authorship, outcome.without_tokens)
    try:
        return with_late_warnings(context.seen_by(options.access), outcome)
    except Exception:  # the change is committed, so that no fault of a warning may be taken for its own
        _log.exception("the warnings about a committed change could not be completed")
        return outcome


def with_late_warnings(context: Context, changed: Changed) -> Changed:
    """A committed change with all of its warnings, from memory where that has what they need."""
    changes = [row.change for row in changed.rows]
    refusals = refusals_in_memory(context, changes, changed.revision)
    is_known = all(warning.missing is None for warning in changed.warnings) and not caps_below(changes)
    is_known = is_known and not any(map(_has_late_warnings, changes))
    if refusals is not None and is_known:
        return replace(changed, warnings=(*changed.warnings, *refusals)) if refusals else changed
    with context.database.reading() as connection:
        return replace(changed, warnings=_complete_warnings(context, connection, changed.warnings, changes))


def _has_late_warnings(change: RowChange) -> bool:
    """Whether what is in use, or the fleet, may give reason to warn of a change."""
    return change.kind == EXECUTION_QUOTA.name or bounds_tokens(change) or sets_cluster_resources(change)


def _complete_warnings(
    context: Context, connection: Connection, warnings: Sequence[Warning], changes: Sequence[RowChange]
) -> tuple[Warning, ...]:
    """Warnings with what they do not need to be drafted: deletions, and what new limits refuse or cap below."""
    refusals = Refusals(context, connection).warnings(rows_with_limits(changes), changes)
    capped = seen_warnings(context.access, find_capped_below(context, connection, changes))
    used = [*warn_of_use(context, connection, changes), *warn_of_held_tokens(context, changes)]
    used += warn_of_untaken_resources(context, connection, changes)
    written = [
        Row(kind=change.kind, scope=change.scope, payload=change.after, version=change.revision)
        for change in changes
        if change.after is not None and change.is_real
    ]
    used += warn_of_quotas(context, connection, written, changes)
    return (*explain_deletions(context, connection, warnings), *capped, *refusals, *used)


def _try_change(context: Context, writes: Writes, options: ChangeOptions) -> Changed:
    with context.database.reading() as connection:
        drafted, head = draft_unlocked(context, connection, writes, options)
        is_plan, affected = options.mode is Mode.PLAN, affected_finder(context, connection)
        values = find_changed_values(context, connection, drafted.changes, affected) if is_plan else ChangedValues()
        users = list(users_of_removed(drafted.nouns)) if options.force else []
        users[:MOST_DETAILS] = explain_uses(context, connection, users[:MOST_DETAILS])
        reach = reach_of_removed(context, connection, drafted.changes) if users else []
        preview = preview_changes(context, connection, drafted.changes)
        new_executions = new_executions_after(context, connection, drafted.changes, affected)
        routes = next_routes(context, connection, drafted.changes)
        lost_rights = find_lost_rights(context, connection, drafted.changes)
        namespaces = preview_namespaces(context, connection, drafted.changes)
        warnings = _complete_warnings(context, connection, drafted.warnings, drafted.draft.changes)
    return replace(
        changed_by(drafted, head),
        warnings=warnings,
        values=values,
        users=tuple(users),
        reach=tuple(reach),
        preview=preview,
        new_executions=new_executions,
        routes=tuple(routes),
        lost_rights=tuple(lost_rights),
        namespaces=tuple(namespaces),
    )


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


def changed_by(drafted: Drafted, revision: int) -> Changed:
    """What a change did as a revision, or would do; the last revision where it makes none."""
    options = drafted.draft.options
    return Changed(
        rows=tuple(_changed_row(write, change, revision, options) for write, change in drafted.draft.rows),
        warnings=drafted.warnings,
        revision=revision,
        dry_run=options.dry_run,
        without_tokens=tuple(drafted.draft.without_tokens),
    )


def _changed_row(write: RowWrite, change: RowChange, revision: int, options: ChangeOptions) -> ChangedRow:
    if not change.is_real or options.dry_run:
        return ChangedRow(change=change, index=write.index, version=change.before_version)
    return ChangedRow(change=change, index=write.index, version=None if change.after is None else revision)
