"""Evictions: clusters that stop syncing, and what becomes of their work."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from admin.core.executions.attempts import DRAINED, Ended, cancel, evict, requeue
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import ClusterState, Health
from admin.metrics import count_finished
from admin.services.context import Context
from admin.store import fleet, leases
from admin.store.fleet import ClusterEvent
from admin.store.leases import LeasedExecution

_BATCH = 200


def judge_health(context: Context) -> list[tuple[str, str]]:
    """Mark the clusters that have been silent for too long; returns them with their new health."""
    agents = context.settings.agents
    now = context.clock()
    unreachable = now - timedelta(seconds=agents.unreachable_seconds)
    lost = now - timedelta(seconds=agents.lost_seconds)
    with context.database.reading() as connection:
        silent = fleet.silent(connection, unreachable, lost)
    changed = []
    for name in silent:
        with context.database.writing() as connection:
            fleet.lock(connection)
            state = fleet.hold_state(connection, name)
            if state.last_sync_at is None or state.health == Health.LOST.value:
                continue
            health = _health(state.last_sync_at, unreachable, lost)  # its agent may have synced meanwhile
            if health is Health.READY or health.value == state.health:
                continue
            event = ClusterEvent(cluster=name, at=now, type=health.value.upper())
            fleet.save(connection, replace(state, health=health.value), event)
            changed.append((name, health.value))
    return changed


def _health(last_sync_at: datetime, unreachable: datetime, lost: datetime) -> Health:
    """The health of a cluster by its last sync, and by the times from which on it counts as silent."""
    if last_sync_at < lost:
        return Health.LOST
    return Health.UNREACHABLE if last_sync_at < unreachable else Health.READY


def evict_from_lost(context: Context, most: int) -> list[tuple[LeasedExecution, Ended | None]]:
    """Take executions with expired leases from lost clusters; returns each with how it ended, None if it did not."""
    if most <= 0:
        return []
    now = context.clock()
    with context.database.reading() as connection:
        lost = leases.clusters_with_expired(connection, fleet.lost(connection), now)
    evicted: list[tuple[LeasedExecution, Ended | None]] = []
    for name in lost:
        if len(evicted) >= most:
            break
        with context.database.writing() as connection:
            if fleet.hold_state(connection, name).health != Health.LOST.value:
                continue
            expired = leases.expired(connection, name, now, min(_BATCH, most - len(evicted)))
            for lease in expired:
                change = evict(lease, now)
                lease.apply(change, now)
                evicted.append((lease, change.ended))
            leases.save(connection, expired)
    for lease, ended in evicted:
        if ended is not None:
            count_finished(ended.phase.value, ended.reason, lease, now)
    return evicted


def end_drained(context: Context) -> None:
    """Have the agents of clusters whose drain is over end what still runs; its policy says whether it runs again."""
    now = context.clock()
    with context.database.reading() as connection:
        overdue = fleet.to_be_drained_by(connection, now)
    for name in overdue:
        with context.database.writing() as connection:
            if not _is_drain_over(fleet.hold_state(connection, name), now):
                continue
            leased = leases.leased(connection, [name])
            for lease in leased:
                if not lease.may_have_started:
                    lease.apply(requeue(lease, "Its cluster was drained.", stays=False), now)
                elif lease.phase != Phase.ABORTING.value:
                    lease.apply(cancel(DRAINED, "Its cluster was drained."), now)
            leases.save(connection, leased)


def _is_drain_over(state: ClusterState, now: datetime) -> bool:
    return state.draining and state.drain_deadline is not None and state.drain_deadline <= now
