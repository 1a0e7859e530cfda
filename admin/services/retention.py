"""Retention: what has ended for long enough is deleted, a few rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from admin.core.executions.selectors import Condition, may_select_ended_before
from admin.core.fleet.clusters import PRUNED
from admin.core.retention import MINIMUM_EVENT_AGE, Cutoffs, Lifespan, Retention, batches
from admin.core.times import show_time
from admin.metrics import count_pruned
from admin.services.context import Context
from admin.store import cluster_events, execution_events, fleet, pruned_authors, retention
from admin.store.cluster_events import ClusterEvent
from admin.store.executions import Execution
from admin.store.retention import Counts, PrunedRows


@dataclass(frozen=True, kw_only=True)
class PruningSizes:
    """How much one step of pruning looks at or deletes."""

    page: int = 1000  #: rows that one query looks at
    batch: int = 500  #: rows that one transaction deletes: few enough for short locks
    window: int = 5000  #: executions whose decisions one query looks at
    trails: int = 50_000  #: trails that one walk over all decisions looks for


_SIZES = PruningSizes()


def prune(
    context: Context,
    kept: Retention,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
    is_thorough: bool = True,
    sizes: PruningSizes = _SIZES,
    claimed_by: str | None = None,
) -> Iterator[Counts]:
    """Delete what is due, one small step after another; each yields what it deleted, or would have.

    `claimed_by` is who asked for it, if somebody did.

    Whether the clock, or the time that is given, can be trusted is for the caller to check.
    A run may stop at any step and begin again, and several may run at once. Only a thorough run looks for trails that
    nothing refers to although it deleted no execution itself.
    """
    limits = kept.cutoffs(now or context.clock())
    pruned: Counter[str] = Counter()
    for counts in _prune(context, limits, sizes, dry_run=dry_run, is_thorough=is_thorough):
        if not dry_run:
            count_pruned(counts)
            pruned.update(counts)
        yield counts
    if pruned.total():
        _note_round(context, pruned, claimed_by)


#: The words for one row and for several of each table; the tables that are left out have parts of such rows.
_WORDS = {
    "executions": ("execution", "executions"),
    "decisions": ("decision", "decisions"),
    "execution_logs": ("piece of a log", "pieces of logs"),
    "execution_outputs": ("output", "outputs"),
    "execution_events": ("event of an execution", "events of executions"),
    "cluster_events": ("event of a cluster", "events of clusters"),
    "revisions": ("revision", "revisions"),
    "revision_changes": ("change of a revision", "changes of revisions"),
    "bid_rounds": ("round of bids", "rounds of bids"),
    "audit_events": ("audit event", "audit events"),
    "cluster_descriptions": ("description of a cluster", "descriptions of clusters"),
    "namespace_events": ("event of a namespace", "events of namespaces"),
    "trails": ("stored explanation", "stored explanations"),
}


def _note_round(context: Context, pruned: Mapping[str, int], claimed_by: str | None) -> None:
    """Store one event for all that a run has deleted."""
    counts = [f"{count} {_WORDS[table][count != 1]}" for table, count in pruned.items() if count and table in _WORDS]
    with context.database.writing() as connection:
        cluster_events.add_event(
            connection,
            ClusterEvent(at=context.clock(), type=PRUNED, reason=f"deleted {', '.join(counts)}", claimed_by=claimed_by),
        )


def _prune(
    context: Context, limits: Cutoffs, sizes: PruningSizes, *, dry_run: bool, is_thorough: bool
) -> Iterator[Counts]:
    if limits.logs is not None:
        yield from _walk(context, retention.LOGS, limits.logs, sizes, dry_run=dry_run)
        yield from _walk(context, retention.OUTPUTS, limits.logs, sizes, dry_run=dry_run)
    if limits.execution_events is not None:
        yield from _walk(context, retention.EVENTS, limits.execution_events, sizes, dry_run=dry_run)
    if limits.cluster_events is not None:
        yield from _walk(context, retention.ClusterEvents(), limits.cluster_events, sizes, dry_run=dry_run)
    if limits.bids is not None:
        yield from _walk(context, retention.Bids(), limits.bids, sizes, dry_run=dry_run)
    if limits.executions is not None:
        gone: Counter[str] = Counter()
        for step in _walk(context, retention.Executions(), limits.executions, sizes, dry_run=dry_run):
            gone.update(step)
            yield step
        if is_thorough or gone.total():
            yield from _sweep(context, limits.executions if dry_run else None, sizes)
    if limits.revisions is not None:
        yield from _walk(context, retention.Revisions(), limits.revisions, sizes, dry_run=dry_run)
        if not dry_run:
            with context.database.writing() as connection:
                pruned_authors.forget(connection)
    if limits.audit_events is not None:
        yield from _walk(context, retention.AUDIT_EVENTS, limits.audit_events, sizes, dry_run=dry_run)
    if limits.namespace_events is not None:
        yield from _walk(context, retention.NAMESPACE_EVENTS, limits.namespace_events, sizes, dry_run=dry_run)
    if limits.descriptions is not None:
        yield from _walk(context, retention.Descriptions(), limits.descriptions, sizes, dry_run=dry_run)


def not_counted(cutoff: datetime, verb: str = "counted") -> str:
    """What a count, or another answer about many executions, leaves out that were pruned by a cutoff."""
    return f"Executions that ended before {show_time(cutoff)} are pruned, so they are not {verb}."


def find_not_counted(connection: Connection, conditions: Iterable[Condition], verb: str = "counted") -> str | None:
    """The same of the executions that conditions select; None where none of these can have been pruned."""
    cutoff = retention.cutoffs(connection).executions
    if cutoff is None or not may_select_ended_before(conditions, cutoff):
        return None
    return not_counted(cutoff, verb)


def is_log_past(context: Context, execution: Execution) -> bool:
    """Whether an execution ended longer ago than logs and output files are kept by configuration."""
    limit = context.settings.retention.cutoffs(context.clock()).logs
    life = Lifespan(execution.created_at, execution.phase, execution.finished_at)
    return limit is not None and life.is_due(limit)


def _walk(
    context: Context, pruned: PrunedRows, limit: datetime, sizes: PruningSizes, *, dry_run: bool
) -> Iterator[Counts]:
    last = None
    is_recorded = dry_run
    while True:
        with context.database.reading() as connection:
            step = pruned.find(connection, last, limit, sizes.page)
        for keys in batches(step.due, sizes.batch):
            with context.database.transaction(dry_run=dry_run) as connection:
                counts = (pruned.count if dry_run else pruned.delete)(connection, keys, limit)
                if not is_recorded and any(counts.values()):
                    retention.record_cutoff(connection, pruned.name, limit)
                    is_recorded = True
            yield counts
        last = step.last
        if last is None:
            return
        yield {}


def _sweep(context: Context, spared: datetime | None, sizes: PruningSizes) -> Iterator[Counts]:
    """Delete the trails that no decision refers to; or count them, as if all that is due by `spared` were gone."""
    last = ""
    while True:
        until = context.monotonic() + MINIMUM_EVENT_AGE.total_seconds() / 2
        mark = _mark(context) if spared is None else 0
        with context.database.reading() as connection:
            digests = retention.trails_after(connection, last, sizes.trails)
        if not digests:
            return
        last = digests[-1]
        unused = set(digests)
        place: int | None = 0
        while place is not None:
            with context.database.reading() as connection:
                used, place = retention.trails_in_use(connection, place, spared, sizes.window)
            unused -= used
            yield {}
        if spared is not None:
            yield {"trails": len(unused)}
        else:
            yield from _delete_unused(context, unused, mark, until, sizes.batch)


def _mark(context: Context) -> int:
    """The id of the last event; every decision from now on leaves a later one."""
    with context.database.writing() as connection:
        fleet.lock(connection)  # so that no decision is in progress
        return execution_events.last_event(connection)


def _delete_unused(context: Context, unused: set[str], mark: int, until: float, most: int) -> Iterator[Counts]:
    """Delete trails that no decision since an event refers to, for as long as events are sure to be kept.

    `most` is the number of trails and of events that one transaction handles.
    """
    while unused and context.monotonic() < until:
        counts: Counts = {}
        with context.database.writing() as connection:
            fleet.lock(connection)
            last = execution_events.last_event(connection)
            is_short = last - mark <= most
            if is_short:
                unused -= retention.trails_decided(connection, mark, last)
                batch = list(islice(unused, most))
                counts = retention.delete_trails(connection, batch)
                unused.difference_update(batch)
        yield counts
        if not is_short:  # too many events to read them while all decisions wait
            for low in range(mark, last, most):
                with context.database.reading() as connection:
                    unused -= retention.trails_decided(connection, low, min(low + most, last))
                yield {}
        mark = last
