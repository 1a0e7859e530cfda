"""Redecisions: waiting executions decided again, when the fleet has changed or somebody asks.

What waits at a cluster stays there for as long as that cluster may run it: nothing moves for the sake of moving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import Condition, equals
from admin.core.fleet.fleet import Fleet
from admin.core.placement.decisions import WAITS_FOR_ROOM, Decision, decide, may_stay
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import strategy_of
from admin.core.placement.workloads import Workload
from admin.core.problems import Invalid
from admin.core.resources import subtract
from admin.core.settings.scopes import Scope
from admin.errors import RainbowError
from admin.services.catalogs import StoredCatalog
from admin.services.context import Context
from admin.services.decisions import add_decision, decided_values, decision_row, placement_values
from admin.services.definitions import current_fleet
from admin.services.executions import end, matching
from admin.services.launches import Placement, find_launch, find_situation, place_launch, run_request_of
from admin.store import decisions, executions, fleet
from admin.store.executions import Event, Execution

#: Executions in one transaction: few enough that creations hardly wait, many enough that thousands take seconds.
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Redecided:
    """What became of one waiting execution."""

    execution: Execution
    cluster: str | None
    pool: str | None
    label: str | None
    code: str
    message: str
    is_change: bool


def decide_waiting(context: Context) -> list[Redecided]:
    """Decide everything that waits again, by the fleet as it is; answers what changed."""
    changed: list[Redecided] = []
    last = 0
    while True:
        rows, some = _decide_batch(context, last)
        changed += some
        if len(rows) < _BATCH:
            return changed
        last = rows[-1].id


def _decide_batch(context: Context, above: int) -> tuple[list[Execution], list[Redecided]]:
    with context.database.writing() as connection:
        fleet.share(connection)
        now = current_fleet(context, connection)
        loaded = _hold_loaded(connection, now)
        rows = executions.waiting(connection, above, _BATCH)
        unsettled = [row for row in rows if not _is_settled(row, now)]
        if not unsettled:
            return rows, []
        waiting = executions.demand_waiting(connection, loaded) if loaded else {}
        changes = [(row, one) for row in unsettled if _is_news(row, one := _decide(row, now, waiting))]
        _store(connection, changes, context.clock())
    return rows, [_redecided(row, one, row.pool, row.label) for row, one in changes]


def _redecided(row: Execution, decision: Decision, pool: str | None, label: str | None) -> Redecided:
    return Redecided(
        execution=row,
        cluster=decision.cluster,
        pool=pool,
        label=label,
        code=decision.code,
        message=decision.message,
        is_change=True,
    )


def is_room_again(context: Context) -> bool:
    """Whether something that waits for room would find some now: what ended since may have left it."""
    with context.database.reading() as connection:
        rows = executions.full_routes(connection, WAITS_FOR_ROOM)
        if not rows:
            return False
        now = current_fleet(context, connection)
        waiting = executions.demand_waiting(connection, now.clusters)
        return any(decide(_route(row), now, _workload(row), waiting).cluster is not None for row in rows)


def decide_undecided(context: Context) -> list[Redecided]:
    """Decide what agents gave back, or what was taken from lost clusters."""
    with context.database.reading() as connection:
        if not executions.undecided(connection, 1):
            return []
    with context.database.writing() as connection:
        fleet.share(connection)
        now = current_fleet(context, connection)
        loaded = _hold_loaded(connection, now)
        rows = executions.undecided(connection, _BATCH)
        waiting = executions.demand_waiting(connection, loaded) if loaded else {}
        changes = [(row, _decide(row, now, waiting)) for row in rows]
        _store(connection, changes, context.clock())
    return [_redecided(row, one, row.pool, row.label) for row, one in changes]


def _route(row: Execution) -> Route:
    return Route(kind=RouteKind(row.route_kind), name=row.route_name, rungs=())


def _workload(row: Execution) -> Workload:
    key = str(executions.identity(row))
    return Workload(
        key=key, demand=executions.demand_of(row), plugins=tuple(row.required_plugins), declined=tuple(row.avoid)
    )


def _is_settled(row: Execution, now: Fleet) -> bool:
    return row.cluster is not None and may_stay(row.cluster, _route(row), now, _workload(row))


def _hold_loaded(connection: Connection, now: Fleet) -> set[str]:
    """The clusters whose load counts for some pool, held so that nobody else counts on the same room.

    They are held before any execution is: whoever holds both does it in this order.
    """
    pools = [pool for pool in now.pools.values() if strategy_of(pool).looks_at_load]
    clusters = {member.cluster for pool in pools for member in pool.members}
    if clusters:
        fleet.hold(connection, clusters)
    return clusters


def _decide(row: Execution, now: Fleet, waiting: dict[str, dict[str, int]]) -> Decision:
    """Where one goes; it takes its demand along from where it waited."""
    demand = executions.demand_of(row)
    if row.cluster in waiting:
        waiting[row.cluster] = subtract(waiting[row.cluster], demand)
    decision = decide(_route(row), now, _workload(row), waiting)
    if decision.cluster is not None:
        there = waiting.get(decision.cluster, {})
        waiting[decision.cluster] = {name: there.get(name, 0) + demand.get(name, 0) for name in {*there, *demand}}
    return decision


def _is_news(row: Execution, decision: Decision) -> bool:
    return (decision.cluster, decision.code, decision.message) != (row.cluster, row.reason, row.reason_message)


def _store(connection: Connection, changes: list[tuple[Execution, Decision]], now: datetime) -> None:
    """Store new decisions beside the old ones; what the settings said stays what it was."""
    if not changes:
        return
    settings = decisions.settings_trails(connection, [(row.id, row.decisions) for row, _ in changes])
    decisions.add_trails(connection, [one.evaluation.trail for _, one in changes])
    decisions.add(
        connection,
        [
            decision_row(row.id, row.decisions + 1, now, one, settings[row.id], "fleet changed", row.revision)
            for row, one in changes
        ],
    )
    executions.change_many(
        connection,
        [
            {
                "id": row.id,
                **decided_values(one),
                "updated_at": now,
                "decisions": row.decisions + 1,
                "events": row.events + 1,
            }
            for row, one in changes
        ],
    )
    executions.add_events(connection, [(row.id, _event(row, one, now)) for row, one in changes])


def _event(row: Execution, decision: Decision, now: datetime) -> Event:
    return Event(
        number=row.events + 1,
        at=now,
        type="DECIDED",
        phase=Phase.QUEUED.value,
        reason=decision.code,
        message=decision.message,
        cluster=decision.cluster,
    )


def end_overdue(context: Context) -> list[Execution]:
    """End what waited longer than its queueing budget."""
    now = context.clock()
    with context.database.reading() as connection:
        if not executions.overdue(connection, now, 1):
            return []
    with context.database.writing() as connection:
        rows = executions.hold(connection, executions.overdue(connection, now, _BATCH))
        ended = []
        for row in rows:
            if row.lease_expires_at is not None:
                continue  # an agent has got it at the last moment
            reason = f"Waited past its queueing budget, until {row.queue_deadline.isoformat(timespec='seconds')}."
            if end(connection, row, Phase.TIMED_OUT, "QUEUEING_BUDGET_EXCEEDED", reason, None, now):
                ended.append(row)
    return ended


def redecide(context: Context, conditions: Iterable[Condition], *, scope: Scope, dry_run: bool) -> list[Redecided]:
    """Decide waiting executions again under the settings as they are now; each for itself."""
    waiting = equals("phase", Phase.QUEUED.value)
    return [_redecide(context, row, dry_run=dry_run) for row in matching(context, [*conditions, waiting], scope)]


def _redecide(context: Context, row: Execution, *, dry_run: bool) -> Redecided:
    transaction = context.database.reading() if dry_run else context.database.writing()
    with transaction as connection:
        if not dry_run:
            fleet.share(connection)
            _hold_loaded(connection, current_fleet(context, connection))
        held = executions.get(connection, executions.identity(row), lock=not dry_run)
        if held is None or held.phase != Phase.QUEUED.value or held.lease_expires_at is not None:
            return _unchanged(row, row.reason, row.reason_message)
        try:
            resolved = find_launch(StoredCatalog(context, connection), run_request_of(held))
            situation = find_situation(context, connection, resolved.launch.scope)
            placement = place_launch(
                context, connection, resolved.launch, row.name, situation, hold=not dry_run, moving=held
            )
        except Invalid as refusal:
            return _unchanged(row, getattr(refusal, "error", "invalid_request"), str(refusal))
        except RainbowError as refusal:
            return _unchanged(row, refusal.name, refusal.message)
        new = placement_values(placement, resolved, held.created_at)
        if all(_same(getattr(held, name), value) for name, value in new.items()):
            return _unchanged(row, held.reason, held.reason_message)
        if not dry_run:
            _adopt(context, connection, held, placement, new, situation.revision)
    return _redecided(row, placement.decision, new["pool"], new["label"])


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


def _unchanged(row: Execution, code: str, message: str) -> Redecided:
    return Redecided(
        execution=row,
        cluster=row.cluster,
        pool=row.pool,
        label=row.label,
        code=code,
        message=message,
        is_change=False,
    )


def _adopt(
    context: Context,
    connection: Connection,
    row: Execution,
    placement: Placement,
    new: Mapping[str, Any],
    revision: int,
) -> None:
    now = context.clock()
    add_decision(connection, row.id, row.decisions + 1, now, placement, revision, "asked to decide again")
    counted = {"decisions": row.decisions + 1, "events": row.events + 1, "updated_at": now, "revision": revision}
    executions.change(connection, row.id, {**new, **counted})
    executions.add_events(connection, [(row.id, _event(row, placement.decision, now))])
