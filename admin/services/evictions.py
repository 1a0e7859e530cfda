"""Evictions: clusters that fall silent, and what becomes of the work they had."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from admin.core.fleet import ClusterState, Health
from admin.core.lifecycle import Phase
from admin.services.attempts import Ended, evict, give_back
from admin.services.context import Context
from admin.services.executions import end
from admin.store import executions, fleet
from admin.store.executions import Execution
from admin.store.fleet import ClusterEvent

_BATCH = 200


def judge_health(context: Context) -> list[tuple[str, str]]:
    """Note the clusters that have been silent for too long; answers what they became."""
    agents = context.settings.agents
    now = context.clock()

    def judged(silence: float) -> Health:
        if silence > agents.lost_seconds:
            return Health.LOST
        return Health.UNREACHABLE if silence > agents.unreachable_seconds else Health.READY

    with context.database.reading() as connection:
        states = [one for one in fleet.states(connection).values() if one.last_sync_at is not None]
    worse = []
    for one in states:
        assert one.last_sync_at is not None
        health = judged((now - one.last_sync_at).total_seconds())
        if health is not Health.READY and health.value != one.health:
            worse.append(one.name)
    found = []
    for name in worse:
        with context.database.writing() as connection:
            fleet.lock(connection)
            state = fleet.state(connection, name)
            if state.last_sync_at is None:
                continue
            health = judged((now - state.last_sync_at).total_seconds())  # it may have come back meanwhile
            if health is Health.READY or health.value == state.health:
                continue
            event = ClusterEvent(cluster=name, at=now, type=health.value.upper())
            fleet.save(connection, replace(state, health=health.value), event)
            found.append((name, health.value))
    return found


def evict_from_lost(context: Context, most: int) -> list[tuple[Execution, Ended | None]]:
    """Take work from lost clusters whose leases are over; answers each with how it ended, if it did."""
    if most <= 0:
        return []
    now = context.clock()
    with context.database.reading() as connection:
        lost = [one.name for one in fleet.states(connection).values() if one.health == Health.LOST.value]
    done: list[tuple[Execution, Ended | None]] = []
    for name in lost:
        if len(done) >= most:
            break
        with context.database.writing() as connection:
            if fleet.state(connection, name).health != Health.LOST.value:
                continue
            rows = executions.expired(connection, name, now, min(_BATCH, most - len(done)))
            done += [(row, evict(connection, row, now)) for row in rows]
    return done


def end_drained(context: Context) -> None:
    """At its deadline a draining cluster's agent is told to end what still runs; policy says whether it runs again."""
    now = context.clock()
    with context.database.reading() as connection:
        over = [one.name for one in fleet.states(connection).values() if _is_over(one, now)]
    for name in over:
        with context.database.writing() as connection:
            if not _is_over(fleet.state(connection, name), now):
                continue
            for row in executions.leased(connection, name):
                if row.phase == Phase.QUEUED.value and not row.confirmed:
                    give_back(connection, row, now, "Its cluster was drained.", stays=False)
                elif row.phase != Phase.ABORTING.value:
                    end(connection, row, Phase.ABORTED, "DRAINED", "Its cluster was drained.", None, now)


def _is_over(state: ClusterState, now: datetime) -> bool:
    """Whether a cluster should have been drained by now."""
    return state.draining and state.drain_deadline is not None and state.drain_deadline <= now
