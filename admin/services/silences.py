"""Silences: what is to be said of an execution whose cluster is silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.attempts import may_have_started, seconds_until_retry
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST, DRAINED, Retries
from admin.core.executions.silences import WHEN_LOST, Drain, Silence, describe_silence
from admin.core.fleet.clusters import SILENT, Cluster, Health
from admin.core.fleet.silence import Loss, foresee_loss, show_loss
from admin.core.times import show_duration
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.deletions import deleted_cluster
from admin.services.visibility import told_events
from admin.store import (
    clock_checks,
    cluster_events,
    execution_events,
    executions,
    fleet,
    loop_leases,
    reconciliations,
)
from admin.store.executions import Execution, ListedExecution
from admin.store.fleet import HeardCluster
from admin.store.leases import LeasedExecution


@dataclass(frozen=True, kw_only=True)
class SilenceView:
    """A silence, in values and in words."""

    since: datetime
    on_lost: str
    lease_expires_at: datetime | None
    next_at: datetime
    next: str  #: what decides about it next
    note: str  #: what is known, as lists have it
    outlook: str  #: what becomes of it and when, as lists have it
    message: str  #: the same, what happens next, and what an operator can do


class HeardLast(NamedTuple):
    """When the agent that has an execution was last heard, though it is not any more."""

    since: datetime
    is_taken_over: bool  #: whether another agent serves its cluster now
    is_lost: bool = False  #: whether its cluster counts as lost


def heard_last(execution: Execution | ListedExecution, heard: HeardCluster | None) -> HeardLast | None:
    """Since when the agent of an unfinished execution is silent; None where it is not.

    `heard` is when the agent of its cluster was heard last.
    """
    if execution.cluster is None or Phase(execution.phase).is_finished:
        return None
    if heard is None or heard.last_sync_at is None:
        return None
    is_silent = heard.health in SILENT
    since = heard.last_sync_at if is_silent else execution.silent_since
    is_lost = heard.health == Health.LOST.value
    return None if since is None else HeardLast(since, is_taken_over=not is_silent, is_lost=is_lost)


def note_silence(execution: Execution | ListedExecution, heard: HeardCluster | None) -> str | None:
    """What is known of an unfinished execution whose cluster is silent, in short; None for any other."""
    last = heard_last(execution, heard)
    if last is None:
        return None
    is_aborting = execution.phase == Phase.ABORTING.value
    return describe_silence(execution.cluster, last.since, is_taken_over=last.is_taken_over, is_aborting=is_aborting)


class NotedSilence(NamedTuple):
    """A silence as lists have it."""

    note: str
    outlook: str


def note_silences(
    context: Context, connection: Connection, listed: Iterable[Execution | ListedExecution]
) -> dict[int, NotedSilence]:
    """The silences of several executions, by their row ids; the others are left out."""
    unfinished = [execution for execution in listed if execution.cluster and execution.finished_at is None]
    if not unfinished:
        return {}
    heard = fleet.heard(connection, {execution.cluster or "" for execution in unfinished})
    last_heard = {execution.id: heard_last(execution, heard.get(execution.cluster or "")) for execution in unfinished}
    silent = [id for id, last in last_heard.items() if last is not None]
    clusters: dict[str, _SilentCluster] = {}
    now = context.clock()
    noted: dict[int, NotedSilence] = {}
    for execution in executions.get_many(connection, silent) if silent else ():
        last, cluster = last_heard[execution.id], execution.cluster or ""
        if last is None:
            continue
        if cluster not in clusters:
            clusters[cluster] = _silent_cluster(context, connection, cluster)
        silence = _silence(context, execution, last, clusters[cluster])
        noted[execution.id] = NotedSilence(silence.note, silence.outlook(now))
    return noted


def view_silence(
    context: Context, connection: Connection, execution: Execution, heard: HeardCluster | None
) -> SilenceView | None:
    """What is to be said of an unfinished execution whose cluster is silent; None for any other."""
    last = heard_last(execution, heard)
    if last is None:
        return None
    now = context.clock()
    silence = _silence(context, execution, last, _silent_cluster(context, connection, execution.cluster or ""))
    return SilenceView(
        since=silence.since,
        on_lost=silence.on_lost,
        lease_expires_at=silence.lease_expires_at,
        next_at=silence.next_at,
        next=silence.next_step(now),
        note=silence.note,
        outlook=silence.outlook(now),
        message=" ".join([silence.describe(now), *_suspensions(connection, now)]),
    )


def find_silence(context: Context, execution: Execution) -> SilenceView | None:
    """The same in a transaction of its own."""
    if execution.cluster is None or execution.finished_at is not None:
        return None
    with context.database.reading() as connection:
        heard = fleet.heard(connection, [execution.cluster])
        return view_silence(context, connection, execution, heard.get(execution.cluster))


def was_silent_before_drain(
    context: Context, connection: Connection, execution: Execution | LeasedExecution, since: datetime
) -> bool:
    """Whether the cluster of an execution that a drain is to end was silent already when it was drained."""
    if execution.phase != Phase.ABORTING.value or execution.reason != DRAINED or execution.cluster is None:
        return False
    ordered_at = execution_events.last_time(connection, execution.id, Phase.ABORTING.value, execution.events + 1)
    clusters = {"draining": [execution.cluster]}
    drained = cluster_events.switched_by(connection, clusters, ordered_at or context.clock())
    event = drained.get((execution.cluster, "draining"))
    # An agent that is heard is silent for a while between two syncs.
    silent = timedelta(seconds=context.settings.agents.unreachable_seconds)
    return event is not None and event.at - since >= silent


def give_up_command(execution: Execution) -> str:
    """The command by which an operator gives up an execution at a silent cluster."""
    return f"rainbowctl delete execution {execution.key} --giveUp"


def find_drain(context: Context, connection: Connection, execution: Execution) -> Drain | None:
    """The drain of the cluster whose agent has an execution."""
    if execution.cluster is None or execution.lease_expires_at is None:
        return None
    return _drain_of(execution, _find_cluster_drain(context, connection, execution.cluster))


class _ClusterDrain(NamedTuple):
    deadline: datetime | None
    by: str  #: its event, by whom, when and why


def _find_cluster_drain(context: Context, connection: Connection, name: str) -> _ClusterDrain | None:
    state = fleet.states(connection, [name]).get(name)
    if state is None or not state.draining:
        return None
    now = context.clock()
    events = told_events(context.access, cluster_events.switched_by(connection, {"draining": [name]}, now))
    event = events.get((name, "draining"))
    return _ClusterDrain(state.drain_deadline, "its event is not kept" if event is None else event.describe(now))


def _drain_of(execution: Execution, drain: _ClusterDrain | None) -> Drain | None:
    if drain is None or execution.cluster is None or execution.lease_expires_at is None:
        return None
    return Drain(
        cluster=execution.cluster,
        deadline=drain.deadline,
        by=drain.by,
        is_retried=seconds_until_retry(execution, CLUSTER_LOST) is not None,
    )


def _suspensions(connection: Connection, now: datetime) -> Iterator[str]:
    """What keeps executions at silent clusters from being judged."""
    if reconciliations.load(connection).is_waiting:
        yield "Nothing is judged before the restored database is reconciled: `rainbowctl get reconciliation`."
    if not clock_checks.get(connection, now).trusts(now):
        yield "Nothing is given up while the clock is not trusted: `rainbowctl get clock`."


def foresee_cluster_loss(context: Context, connection: Connection, last_sync_at: datetime) -> Loss:
    """When a silent cluster counts as lost if it is not heard before."""
    seconds, now = context.settings.agents.lost_seconds, context.clock()
    holder = loop_leases.find_holder(connection, loop_leases.BACKGROUND, now)
    if holder is None:  # nobody has done background work yet: whoever begins is about to
        return foresee_loss(last_sync_at, seconds, now, listened_since=last_sync_at)
    return foresee_loss(last_sync_at, seconds, now, listened_since=holder.since, is_listened=holder.is_present)


class ClusterLoss(NamedTuple):
    """When a silent cluster counts as lost if it stays so, and what becomes of its work then."""

    at: datetime
    message: str


def view_cluster_loss(context: Context, connection: Connection, cluster: Cluster) -> ClusterLoss | None:
    """When a cluster that is unreachable counts as lost; None of any other."""
    last_sync_at = cluster.state.last_sync_at
    if cluster.health is not Health.UNREACHABLE or last_sync_at is None or cluster.is_deleted:
        return None
    now = context.clock()
    loss = foresee_cluster_loss(context, connection, last_sync_at)
    limit = f"agents.lostSeconds: {show_duration(loss.seconds)}"
    message = f"It counts as lost {show_loss(loss.at, loss, now)} ({limit}). {WHEN_LOST}"
    return ClusterLoss(loss.at, " ".join([message, *_suspensions(connection, now)]))


class _SilentCluster(NamedTuple):
    """What is to be known of a silent cluster for what may run there."""

    is_gone: bool
    deleted: str  #: by which revision
    drain: _ClusterDrain | None
    loss: Loss | None  #: None of one whose agent never synced


def _silent_cluster(context: Context, connection: Connection, name: str) -> _SilentCluster:
    is_gone = not current_fleet(context, connection).has_cluster(name)
    deleted = deleted_cluster(connection, name) if is_gone and context.access.sees_fleet() else None
    heard = fleet.heard(connection, [name]).get(name)
    last_sync_at = None if heard is None else heard.last_sync_at
    return _SilentCluster(
        is_gone=is_gone,
        deleted="" if deleted is None else deleted.describe(context.clock()),
        drain=_find_cluster_drain(context, connection, name),
        loss=None if last_sync_at is None else foresee_cluster_loss(context, connection, last_sync_at),
    )


def _silence(context: Context, execution: Execution, last: HeardLast, cluster: _SilentCluster) -> Silence:
    agents = context.settings.agents
    retries = Retries.of(execution.content.get("retry"))
    is_aborting = execution.phase == Phase.ABORTING.value
    may_follow = not is_aborting or execution.reason == DRAINED
    loss = cluster.loss
    if loss is None or last.is_taken_over or last.is_lost:  # by the last sync of its own agent
        now = context.clock()
        loss = foresee_loss(last.since, agents.lost_seconds, now, listened_since=last.since)
    if cluster.is_gone:  # a deleted one counts as lost at once
        loss = loss._replace(at=min(loss.at, context.clock()))
    return Silence(
        cluster=execution.cluster or "",
        since=last.since,
        on_lost=retries.on_lost,
        lease_expires_at=execution.lease_expires_at,
        loss=loss,
        given_up_at=last.since + timedelta(seconds=agents.give_up_seconds),
        has_started=may_have_started(execution),
        is_aborting=is_aborting,
        is_drained=execution.reason == DRAINED,
        is_retried=seconds_until_retry(execution, CLUSTER_LOST) is not None and may_follow,
        is_taken_over=last.is_taken_over,
        is_lost=last.is_lost,
        drain=_drain_of(execution, cluster.drain),
        deleted=cluster.deleted,
        command=give_up_command(execution),
    )
