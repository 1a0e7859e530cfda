"""Evictions: clusters that stop syncing, and what becomes of their work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from admin.core.executions.attempts import end_for_drain, judge_silence
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import SILENT, ClusterState, Health
from admin.core.fleet.silence import describe_loss
from admin.core.token_pools.grants import Release
from admin.metrics import count_finished
from admin.services.context import Context
from admin.services.execution_tokens import give_back_of_judged
from admin.services.silences import was_silent_before_drain
from admin.store import clock_checks, cluster_events, fleet, leases
from admin.store.cluster_events import ClusterEvent
from admin.store.fleet import HeardCluster
from admin.store.leases import LeasedExecution, SilentClusters

_BATCH = 200
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def listen(context: Context) -> dict[str, HeardCluster]:
    """Note which agents have synced since the last time; returns what is stored of that, by cluster."""
    with context.database.autocommit() as connection:
        heard = fleet.heard(connection)
    context.watch.listen({name: cluster.last_sync_at for name, cluster in heard.items()}, context.monotonic())
    return heard


def judge_health(context: Context) -> list[tuple[str, str]]:
    """Listen, and mark the clusters that have been silent for too long; returns them with their new health."""
    agents = context.settings.agents
    heard = listen(context)
    lost = context.watch.silent(agents.lost_seconds)
    changed = []
    for name in context.watch.silent(agents.unreachable_seconds):
        health = Health.LOST if name in lost else Health.UNREACHABLE
        if heard[name].health in (health.value, Health.LOST.value, Health.EXPECTED.value):
            continue  # of a cluster that was deleted and defined again, the agent is no longer the one that was heard
        with context.database.writing() as connection:
            fleet.lock(connection)
            state = fleet.hold_state(connection, name)
            if (state.last_sync_at, state.health) != heard[name]:
                continue  # its agent has synced meanwhile
            seconds = agents.lost_seconds if health is Health.LOST else agents.unreachable_seconds
            reason = describe_loss(state.last_sync_at, seconds, f"agents.{health.value}Seconds")
            event = ClusterEvent(cluster=name, at=context.clock(), type=health.value.upper(), reason=reason)
            fleet.save(connection, replace(state, health=health.value), event)
            changed.append((name, health.value))
    return changed


def evict_from_lost(context: Context, most: int) -> list[LeasedExecution]:
    """Take so many executions with expired leases from lost clusters, and mark those that wait for a silent one."""
    if most <= 0:
        return []
    now = context.clock()
    with context.database.autocommit() as connection:
        is_trusted = clock_checks.get(connection, now).trusts(now)
        silent = _silent(context, fleet.heard(connection), now, is_trusted=is_trusted)
        names = leases.clusters_with_expired(connection, silent, now)
    judged: list[LeasedExecution] = []
    pending: list[Release] = []
    for name in names:
        room = most - number_evicted(judged)
        if room <= 0:
            break
        with context.database.writing() as connection:
            state = fleet.hold_state(connection, name)
            heard = {name: HeardCluster(state.last_sync_at, state.health)}
            silent = _silent(context, heard, now, is_trusted=is_trusted)
            if not silent.given_up:  # what waits is marked first, whatever the rate of evictions
                judged += _judge(context, connection, state, silent._replace(lost=[]), now, _BATCH, pending)
            judged += _judge(context, connection, state, silent, now, min(_BATCH, room), pending)
    context.tokens.finish(pending)
    for lease in judged:
        if Phase(lease.phase).is_finished:
            count_finished(lease, now)
    return judged


def number_evicted(judged: Iterable[LeasedExecution]) -> int:
    """How many executions do not wait for their cluster."""
    return sum(lease.silent_since is None for lease in judged)


def _judge(
    context: Context,
    connection: Connection,
    state: ClusterState,
    silent: SilentClusters,
    now: datetime,
    most: int,
    pending: list[Release],
) -> list[LeasedExecution]:
    """Judge executions at a silent cluster; tokens to be given back later are added to those that are pending."""
    judged = leases.expired(connection, state.name, silent, now, most)
    for lease in judged:
        is_given_up = lease.cluster in silent.given_up or lease.silent_since is not None
        since = state.last_sync_at or now
        is_lost_first = was_silent_before_drain(context, connection, lease, lease.silent_since or since)
        change = judge_silence(lease, since, now, is_given_up=is_given_up, is_lost_first=is_lost_first)
        lease.apply(change, now)
    pending += give_back_of_judged(context, connection, judged, now)
    leases.save(connection, judged)
    return judged


def _silent(context: Context, heard: Mapping[str, HeardCluster], now: datetime, *, is_trusted: bool) -> SilentClusters:
    """Those of some clusters that are silent; none is given up by a clock that cannot be trusted."""
    limit = now - timedelta(seconds=context.settings.agents.give_up_seconds)
    lost = [name for name, cluster in heard.items() if cluster.health == Health.LOST.value]
    unreachable = [name for name, cluster in heard.items() if cluster.health == Health.UNREACHABLE.value]
    given_up = [name for name in lost if is_trusted and (heard[name].last_sync_at or now) <= limit]
    return SilentClusters(
        clusters=[*lost, *unreachable],
        lost=lost,
        given_up=given_up,
        given_up_before=limit if is_trusted else _NEVER,
    )


def end_drained(context: Context) -> None:
    """Have the agents of clusters whose drain is over end what still runs; its policy says whether it runs again."""
    now = context.clock()
    with context.database.autocommit() as connection:
        overdue = fleet.to_be_drained_by(connection, now)
    for name in overdue:
        with context.database.writing() as connection:
            state = fleet.hold_state(connection, name)
            if not state.draining or state.drain_deadline is None or state.drain_deadline > now:
                continue
            leased = leases.leased(connection, [name])
            drained_by = cluster_events.switched_by(connection, {"draining": [name]}, now).get((name, "draining"))
            silent_since = state.last_sync_at if state.health in SILENT else None
            for lease in leased:
                change = end_for_drain(lease, drained_by, silent_since)
                if change is not None:
                    lease.apply(change, now)
            pending = give_back_of_judged(context, connection, leased, now)
            leases.save(connection, leased)
        context.tokens.finish(pending)
