"""Evictions: clusters that fall silent, and what becomes of the work they had."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from admin.core.executions.attempts import DRAINED, Ended, cancel, evict, requeue
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import ClusterState, Health
from admin.services.context import Context
from admin.store import fleet, leases
from admin.store.fleet import ClusterEvent
from admin.store.leases import LeasedExecution

_BATCH = 200


def judge_health(context: Context) -> list[tuple[str, str]]:
    """Note the clusters that have been silent for too long; answers what they became."""
    agents = context.settings.agents
    now = context.clock()

    def judged(silence: float) -> Health:
        if silence > agents.lost_seconds:
            return Health.LOST
        return Health.UNREACHABLE if silence > agents.unreachable_seconds else Health.READY

    unreachable, lost = (now - timedelta(seconds=one) for one in (agents.unreachable_seconds, agents.lost_seconds))
    with context.database.reading() as connection:
        worse = fleet.silent(connection, unreachable, lost)
    found = []
    for name in worse:
        with context.database.writing() as connection:
            fleet.lock(connection)
            state = fleet.state(connection, name)
            if state.last_sync_at is None or state.health == Health.LOST.value:
                continue
            health = judged((now - state.last_sync_at).total_seconds())  # it may have come back meanwhile
            if health is Health.READY or health.value == state.health:
                continue
            event = ClusterEvent(cluster=name, at=now, type=health.value.upper())
            fleet.save(connection, replace(state, health=health.value), event)
            found.append((name, health.value))
    return found


def evict_from_lost(context: Context, most: int) -> list[tuple[LeasedExecution, Ended | None]]:
    """Take work from lost clusters whose leases are over; answers each with how it ended, if it did."""
    if most <= 0:
        return []
    now = context.clock()
    with context.database.reading() as connection:
        lost = leases.clusters_with_expired(connection, fleet.lost(connection), now)
    done: list[tuple[LeasedExecution, Ended | None]] = []
    for name in lost:
        if len(done) >= most:
            break
        with context.database.writing() as connection:
            if fleet.state(connection, name).health != Health.LOST.value:
                continue
            for one in (held := leases.expired(connection, name, now, min(_BATCH, most - len(done)))):
                change = evict(one, now)
                one.apply(change, now)
                done.append((one, change.ended))
            leases.save(connection, held)
    return done


def end_drained(context: Context) -> None:
    """At its deadline a draining cluster's agent is told to end what still runs; policy says whether it runs again."""
    now = context.clock()
    with context.database.reading() as connection:
        over = fleet.to_be_drained_by(connection, now)
    for name in over:
        with context.database.writing() as connection:
            if not _is_over(fleet.state(connection, name), now):
                continue
            held = leases.leased(connection, [name])
            for one in held:
                if one.phase == Phase.QUEUED.value and not one.confirmed:
                    one.apply(requeue(one, "Its cluster was drained.", stays=False), now)
                elif one.phase != Phase.ABORTING.value:
                    one.apply(cancel(DRAINED, "Its cluster was drained."), now)
            leases.save(connection, held)


def _is_over(state: ClusterState, now: datetime) -> bool:
    """Whether a cluster should have been drained by now."""
    return state.draining and state.drain_deadline is not None and state.drain_deadline <= now
