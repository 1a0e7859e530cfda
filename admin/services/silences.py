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
from admin.core.executions.silences import Drain, Silence, describe_silence
from admin.core.fleet.clusters import SILENT, Health
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.deletions import deleted_cluster
from admin.store import clock_checks, cluster_events, execution_events, fleet, reconciliations
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


def note_silences(connection: Connection, executions: Iterable[Execution | ListedExecution]) -> dict[int, str]:
    """The same of several, by their row ids; the others are left out."""
    unfinished = [execution for execution in executions if execution.cluster and execution.finished_at is None]
    if not unfinished:
        return {}
    heard = fleet.heard(connection, {execution.cluster or "" for execution in unfinished})
    notes = ((execution.id, note_silence(execution, heard.get(execution.cluster or ""))) for execution in unfinished)
    return {id: note for id, note in notes if note is not None}


def view_silence(
    context: Context, connection: Connection, execution: Execution, heard: HeardCluster | None
) -> SilenceView | None:
    """What is to be said of an unfinished execution whose cluster is silent; None for any other."""
    last = heard_last(execution, heard)
    if last is None:
        return None
    now = context.clock()
    silence = _silence(context, connection, execution, last)
    return SilenceView(
        since=silence.since,
        on_lost=silence.on_lost,
        lease_expires_at=silence.lease_expires_at,
        next_at=silence.next_at,
        next=silence.next_step(now),
        note=silence.note,
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
    name = execution.cluster
    if name is None or execution.lease_expires_at is None:
        return None
    state = fleet.states(connection, [name]).get(name)
    if state is None or not state.draining:
        return None
    now = context.clock()
    event = cluster_events.switched_by(connection, {"draining": [name]}, now).get((name, "draining"))
    return Drain(
        cluster=name,
        deadline=state.drain_deadline,
        by="its event is not kept" if event is None else event.describe(now),
        is_retried=seconds_until_retry(execution, CLUSTER_LOST) is not None,
    )


def _suspensions(connection: Connection, now: datetime) -> Iterator[str]:
    """What keeps executions at silent clusters from being judged."""
    if reconciliations.load(connection).is_waiting:
        yield "Nothing is judged before the restored database is reconciled: `rainbowctl get reconciliation`."
    if not clock_checks.get(connection, now).trusts(now):
        yield "Nothing is given up while the clock is not trusted: `rainbowctl get clock`."


def _silence(context: Context, connection: Connection, execution: Execution, last: HeardLast) -> Silence:
    agents = context.settings.agents
    retries = Retries.of(execution.content.get("retry"))
    is_aborting = execution.phase == Phase.ABORTING.value
    may_follow = not is_aborting or execution.reason == DRAINED
    cluster = execution.cluster or ""
    is_gone = not current_fleet(context, connection).has_cluster(cluster)
    deleted = deleted_cluster(connection, cluster) if is_gone else None
    lost_at = last.since + timedelta(seconds=agents.lost_seconds)
    return Silence(
        cluster=cluster,
        since=last.since,
        on_lost=retries.on_lost,
        lease_expires_at=execution.lease_expires_at,
        lost_at=min(lost_at, context.clock()) if is_gone else lost_at,  # a deleted one counts as lost at once
        given_up_at=last.since + timedelta(seconds=agents.give_up_seconds),
        has_started=may_have_started(execution),
        is_aborting=is_aborting,
        is_drained=execution.reason == DRAINED,
        is_retried=seconds_until_retry(execution, CLUSTER_LOST) is not None and may_follow,
        is_taken_over=last.is_taken_over,
        is_lost=last.is_lost,
        drain=find_drain(context, connection, execution),
        deleted="" if deleted is None else deleted.describe(context.clock()),
        command=give_up_command(execution),
    )
