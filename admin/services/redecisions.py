"""Redecisions: waiting executions decided again, when the fleet has changed or on request.

An execution that waits at a cluster stays there for as long as that cluster may run it; but from an expected one it
moves to one that has been seen, as soon as that has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.limits import QUEUEING_BUDGET_EXCEEDED
from admin.core.executions.queues import queue_deadline
from admin.core.executions.selectors import Condition, equals
from admin.core.fleet.clusters import REDECIDED
from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import (
    ASSIGNED,
    WAITS_FOR_ROOM,
    Decision,
    Evaluation,
    choose,
    decide,
    evaluate,
    may_move,
    may_stay,
)
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import strategy_of
from admin.core.problems import Invalid
from admin.core.resources import add, subtract
from admin.core.settings.scopes import Scope
from admin.core.times import show_time
from admin.errors import RainbowError
from admin.metrics import count_finished, count_redecided
from admin.services.context import Context
from admin.services.decision_views import StoredView, looks_at_load, prepare, reason_of, workload_of
from admin.services.definitions import current_fleet
from admin.services.executions import end, matching
from admin.services.run_requests import CreationRequest, run_request_of
from admin.store import decisions, executions, fleet
from admin.store.decisions import StoredDecision
from admin.store.executions import Event, Execution, ExecutionId, ListedExecution, WaitingExecution
from admin.store.fleet import ClusterEvent

#: Executions in one transaction: few enough that creations hardly wait, many enough that thousands take seconds.
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Redecided:
    """The outcome of a new decision of one execution."""

    id: ExecutionId
    previous_cluster: str | None
    cluster: str | None
    pool: str | None
    label: str | None
    reason: str
    message: str
    is_change: bool

    @property
    def domain(self) -> str:
        return self.id.domain


def decide_waiting(context: Context) -> list[Redecided]:
    """Decide every waiting execution again, by the fleet as it is; returns those that changed."""
    changed: list[Redecided] = []
    last_id = 0
    while True:
        waiting, batch = _decide_batch(context, partial(executions.waiting, after_id=last_id, limit=_BATCH))
        changed += batch
        if len(waiting) < _BATCH:
            break
        last_id = waiting[-1].id
    _note_round(context, changed)
    return changed


def decide_undecided(context: Context) -> list[Redecided]:
    """Decide executions that agents gave back, or that were taken from lost clusters."""
    with context.database.reading() as connection:
        if not executions.undecided(connection, 1):
            return []
    changed = _decide_batch(context, partial(executions.undecided, limit=_BATCH))[1]
    _note_round(context, changed)
    return changed


#: Clusters that the event of a round names; the others are counted together.
_MOST_NAMED = 5


def _note_round(
    context: Context, changed: Sequence[Redecided], claimed_by: str | None = None, cause: str | None = None
) -> None:
    """Store one event for all executions that were decided again together, however many they are."""
    if not changed:
        return
    counts = Counter(
        f"{outcome.previous_cluster or 'none'} -> {outcome.cluster or f'none ({outcome.reason})'}"
        for outcome in changed
    )
    parts = [f"{move}: {count}" for move, count in counts.most_common(_MOST_NAMED)]
    rest = len(changed) - sum(count for _, count in counts.most_common(_MOST_NAMED))
    parts += [f"others: {rest}"] if rest else []
    reason = f"{len(changed)} decided again: {', '.join(parts)}" + (f". {cause}" if cause else "")
    with context.database.writing() as connection:
        event = ClusterEvent(at=context.clock(), type=REDECIDED, reason=reason, claimed_by=claimed_by)
        fleet.add_event(connection, event)


def _decide_batch(
    context: Context, load: Callable[[Connection], list[WaitingExecution]]
) -> tuple[list[WaitingExecution], list[Redecided]]:
    """Decide the executions that `load` locks again; returns them, and those that changed."""
    with context.database.writing() as connection:
        fleet.share(connection)
        fleet_now = current_fleet(context, connection)
        loaded = _hold_loaded(connection, fleet_now)
        waiting = load(connection)
        decider = _Decider(fleet_now)
        unsettled = [execution for execution in waiting if not decider.is_settled(execution)]
        if not unsettled:
            return waiting, []
        movable = [execution for execution in unsettled if decider.may_move(execution)]
        if movable:
            loaded |= _clusters_of(movable, fleet_now)
            fleet_now = _with_load(connection, fleet_now)
            decider = _Decider(fleet_now)
        taken = _taken(connection, loaded, fleet_now) if loaded else {}
        changes = decider.changes(unsettled, taken)
        _store(connection, changes, context.clock())
    changed = [_changed(execution, decision) for execution, decision in changes]
    count_redecided(changed)
    return waiting, changed


class Preview(NamedTuple):
    """What a fleet would change."""

    changed: list[Redecided]  #: what waits
    returned: list[Decision]  #: of what returns to the queue, as far as they were decided
    is_complete: bool  #: False where that would have taken too long


def preview(
    connection: Connection,
    fleet_then: Fleet,
    waiting: Iterable[WaitingExecution],
    returning: Sequence[Execution],
    most_drawn: int,
) -> Preview:
    """What `decide_waiting` would change with a fleet, and where executions would go that return to the queue.

    Nothing is locked or stored. So many executions are decided that they draw from `most_drawn` clusters together.
    """
    decider = _Decider(fleet_then)
    unsettled = [execution for execution in waiting if not decider.is_settled(execution)]
    decided = list(_first_to_draw([*returning, *unsettled], fleet_then, most_drawn))
    number = min(len(returning), len(decided))
    loaded = _clusters_with_load(fleet_then) | _clusters_of(decided, fleet_then)
    taken = _taken(connection, loaded, fleet_then) if loaded else {}
    changes = decider.changes(unsettled[: len(decided) - number], taken)
    returned = [decider.place(execution, taken) for execution in returning[:number]]
    changed = [_changed(execution, decision) for execution, decision in changes]
    return Preview(changed, returned, len(decided) == len(unsettled) + len(returning))


def _first_to_draw(
    placed: Iterable[Execution | WaitingExecution], fleet_now: Fleet, most_drawn: int
) -> Iterator[Execution | WaitingExecution]:
    """The first of some executions that draw from so many clusters together, and at least one."""
    sizes: dict[tuple[str, str], int] = {}
    drawn = 0
    for execution in placed:
        if drawn > most_drawn:
            return
        key = (execution.route_kind, execution.route_name)
        if key not in sizes:
            group = group_of(_route(execution), fleet_now)
            sizes[key] = len(group.members) if group else 0
        drawn += sizes[key]
        yield execution


def _changed(execution: WaitingExecution, decision: Decision) -> Redecided:
    return _outcome(execution, decision.code, decision.message, is_change=True, cluster=decision.cluster)


def _outcome(
    execution: WaitingExecution | ListedExecution,
    reason: str,
    message: str,
    *,
    is_change: bool = False,
    **changed: str | None,
) -> Redecided:
    """The outcome for an execution whose cluster, pool and label stay unless they are among the changed ones."""
    place = {"cluster": execution.cluster, "pool": execution.pool, "label": execution.label, **changed}
    return Redecided(
        id=execution.key,
        previous_cluster=execution.cluster,
        reason=reason,
        message=message,
        is_change=is_change,
        **place,
    )


def is_room_again(context: Context) -> bool:
    """Whether an execution that waits for room, or at an expected cluster, would find some now."""
    with context.database.reading() as connection:
        oldest = executions.full_routes(connection, WAITS_FOR_ROOM)
        fleet_now = current_fleet(context, connection)
        movable = _oldest_movable(connection, fleet_now)
        if not oldest and not movable:
            return False
        if movable:
            fleet_now = _with_load(connection, fleet_now)
        taken, decider = _taken(connection, fleet_now.clusters, fleet_now), _Decider(fleet_now)
        return any(
            decide(_route(execution), fleet_now, workload_of(execution), taken).cluster is not None
            for execution in oldest
        ) or any(decider.decide(execution, taken) is not None for execution in movable)


def _taken(connection: Connection, names: Iterable[str], fleet_now: Fleet) -> dict[str, dict[str, int]]:
    """What is taken of some clusters by what waits there."""
    return executions.taken_by_waiting(connection, {name: fleet_now.clusters[name] for name in names})


def _oldest_movable(connection: Connection, fleet_now: Fleet) -> list[WaitingExecution]:
    """The oldest execution of each route that waits at an expected cluster and may leave it."""
    expected = [name for name, cluster in fleet_now.clusters.items() if cluster.is_expected]
    if len(expected) in (0, len(fleet_now.clusters)):
        return []
    decider = _Decider(fleet_now)
    return [execution for execution in executions.oldest_at(connection, expected) if decider.may_move(execution)]


def _with_load(connection: Connection, fleet_now: Fleet) -> Fleet:
    """The fleet with the latest reports: one of load alone is no new generation where no strategy looks at load."""
    return fleet_now.with_states(fleet.states(connection))


def _route(execution: Execution | WaitingExecution) -> Route:
    return Route(kind=RouteKind(execution.route_kind), name=execution.route_name, rungs=())


def _clusters_of(placed: Iterable[Execution | WaitingExecution], fleet_now: Fleet) -> set[str]:
    """The clusters that the routes of some executions lead to."""
    routes = {(execution.route_kind, execution.route_name): _route(execution) for execution in placed}
    groups = (group_of(route, fleet_now) for route in routes.values())
    return {member.cluster for group in groups if group for member in group.members}


def _hold_loaded(connection: Connection, fleet_now: Fleet) -> set[str]:
    """Lock the clusters whose load counts for some pool, so that no other transaction counts on the same room.

    They are locked before any execution: every transaction that locks both does so in this order.
    """
    clusters = _clusters_with_load(fleet_now)
    if clusters:
        fleet.hold(connection, clusters)
    return clusters


def _clusters_with_load(fleet_now: Fleet) -> set[str]:
    """The clusters whose load counts for some pool."""
    pools = [pool for pool in fleet_now.pools.values() if strategy_of(pool).looks_at_load]
    return {member.cluster for pool in pools for member in pool.members}


class _Decider:
    """Decides executions by one fleet; what is the same for executions that are alike is found out once."""

    def __init__(self, fleet_now: Fleet) -> None:
        self._fleet = fleet_now
        self._stays: dict[tuple[object, ...], bool] = {}
        self._moves: dict[tuple[str, str, bool], bool] = {}
        self._evaluations: dict[tuple[object, ...], Evaluation] = {}

    def is_settled(self, execution: WaitingExecution) -> bool:
        """Whether an execution stays where it is, whatever room there is."""
        return self._may_stay(execution) and not self.may_move(execution)

    def _may_stay(self, execution: WaitingExecution) -> bool:
        cluster = execution.cluster
        if cluster is None:
            return False
        key = (cluster, *_likeness(execution))
        if key not in self._stays:
            self._stays[key] = may_stay(cluster, _route(execution), self._fleet, workload_of(execution))
        return self._stays[key]

    def may_move(self, execution: WaitingExecution) -> bool:
        """Whether an execution may leave the cluster that it waits at."""
        present = self._fleet.clusters.get(execution.cluster or "")
        if present is None:
            return False
        key = (execution.route_kind, execution.route_name, present.is_expected)
        if key not in self._moves:
            self._moves[key] = may_move(present.name, _route(execution), self._fleet)
        return self._moves[key]

    def changes(
        self, unsettled: Iterable[WaitingExecution], taken: dict[str, dict[str, int]]
    ) -> list[tuple[WaitingExecution, Decision]]:
        """The executions whose decision is another one by now, each with it."""
        return [
            (execution, decision)
            for execution in unsettled
            if (decision := self.decide(execution, taken)) is not None and _differs(execution, decision)
        ]

    def decide(self, execution: WaitingExecution, waiting: dict[str, dict[str, int]]) -> Decision | None:
        """Decide where an execution goes, and move what it takes in `waiting` from the old cluster to the new one.

        None for one that stays at an expected cluster, since none that has been seen has room for it.
        """
        workload, before = workload_of(execution), waiting.get(execution.cluster or "")
        stays = self._may_stay(execution)
        if execution.cluster is not None and before is not None:
            waiting[execution.cluster] = subtract(before, workload.takes_of(self._fleet.clusters[execution.cluster]))
        decision = self._decide(execution, workload, waiting, needs_room=stays)
        if stays and decision.code != ASSIGNED:
            if execution.cluster is not None and before is not None:
                waiting[execution.cluster] = before
            return None
        _take(decision, workload, self._fleet, waiting)
        return decision

    def place(self, execution: Execution, waiting: dict[str, dict[str, int]]) -> Decision:
        """Decide where an execution goes that no longer belongs to a cluster, and add what it takes to `waiting`."""
        workload = workload_of(execution)
        decision = self._decide(execution, workload, waiting)
        _take(decision, workload, self._fleet, waiting)
        return decision

    def _decide(
        self,
        execution: Execution | WaitingExecution,
        workload: Workload,
        waiting: dict[str, dict[str, int]],
        *,
        needs_room: bool = False,
    ) -> Decision:
        route = _route(execution)
        if needs_room or looks_at_load(route, self._fleet):
            return decide(route, self._fleet, workload, waiting, needs_room=needs_room)
        key = _likeness(execution)
        if key not in self._evaluations:
            self._evaluations[key] = evaluate(route, self._fleet, workload, {})
        return choose(self._evaluations[key], workload.key)


def _likeness(execution: Execution | WaitingExecution) -> tuple[object, ...]:
    """All of an execution that filters and strategies look at, but for what its name draws."""
    return (
        execution.route_kind,
        execution.route_name,
        execution.demand_cpu,
        execution.demand_memory,
        execution.demand_gpu,
        execution.demand_ephemeral_storage,
        execution.demand_nodes,
        execution.exclusive,
        tuple(execution.required_plugins),
        tuple(execution.avoid),
    )


def _take(decision: Decision, workload: Workload, fleet_now: Fleet, waiting: dict[str, dict[str, int]]) -> None:
    if decision.cluster is not None:
        taken = workload.takes_of(fleet_now.clusters[decision.cluster])
        waiting[decision.cluster] = add(waiting.get(decision.cluster, {}), taken)


def _differs(execution: Execution | WaitingExecution, decision: Decision) -> bool:
    stored = (execution.cluster, execution.reason, execution.reason_message)
    return (decision.cluster, decision.code, decision.message) != stored


def _store(connection: Connection, changes: list[tuple[WaitingExecution, Decision]], now: datetime) -> None:
    """Store new decisions, by the settings trails of the decisions before."""
    if not changes:
        return
    settings = decisions.settings_trails(connection, [(execution.id, execution.decisions) for execution, _ in changes])
    decisions.add_trails(connection, [decision.evaluation.trail for _, decision in changes])
    new = [
        _NewDecision(execution, decision, settings[execution.id], "fleet changed", execution.revision, {})
        for execution, decision in changes
    ]
    _store_decisions(connection, new, now)


class _NewDecision(NamedTuple):
    """A new decision of an execution, whose trails are stored."""

    execution: Execution | WaitingExecution
    decision: Decision
    settings_trail: str
    because: str
    revision: int
    values: Mapping[str, object]  #: columns that change beside those of every decision


def _store_decisions(connection: Connection, new: list[_NewDecision], now: datetime) -> None:
    stored, changed, events = [], [], []
    for execution, decision, settings_trail, because, revision, values in new:
        number, event_number = execution.decisions + 1, execution.events + 1
        decided = {"cluster": decision.cluster, "reason": decision.code, "reason_message": decision.message}
        stored.append(
            StoredDecision(
                execution_id=execution.id,
                number=number,
                decided_at=now,
                cluster=decision.cluster,
                reason=decision.code,
                reason_message=decision.message,
                because=because,
                revision=revision,
                settings_trail=settings_trail,
                placement_trail=decision.evaluation.trail.digest,
                scores=decision.evaluation.scores,
            )
        )
        counted = {"updated_at": now, "decisions": number, "events": event_number}
        changed.append({"id": execution.id, **values, **decided, **counted})
        event = Event(
            number=event_number,
            at=now,
            type="DECIDED",
            phase=Phase.QUEUED.value,
            reason=decision.code,
            message=decision.message,
            cluster=decision.cluster,
        )
        events.append((execution.id, event))
    decisions.add(connection, stored)
    executions.change_many(connection, changed)
    executions.add_events(connection, events)


def end_overdue(context: Context) -> list[Execution]:
    """End executions that waited longer than their queueing budget."""
    now = context.clock()
    reason = QUEUEING_BUDGET_EXCEEDED
    with context.database.reading() as connection:
        if not executions.overdue(connection, now, 1):
            return []
    ended = []
    with context.database.writing() as connection:
        for execution in executions.hold(connection, executions.overdue(connection, now, _BATCH)):
            if execution.lease_expires_at is not None or execution.queue_deadline is None:
                continue  # an agent has leased it at the last moment
            message = f"It still waited when its queueing budget ended at {show_time(execution.queue_deadline)}."
            if end(connection, execution, Phase.TIMED_OUT, reason, message, None, now):
                ended.append(execution)
    for execution in ended:
        count_finished(execution._replace(phase=Phase.TIMED_OUT.value, reason=reason), now)
    return ended


def redecide(
    context: Context,
    conditions: Iterable[Condition],
    *,
    scope: Scope,
    dry_run: bool,
    claimed_by: str | None = None,
    cause: str | None = None,
) -> list[Redecided]:
    """Decide waiting executions again under the settings in force, each in a transaction of its own."""
    waiting = equals("phase", Phase.QUEUED.value)
    listed = matching(context, [*conditions, waiting], scope)
    redecided = [_redecide(context, execution, dry_run=dry_run) for execution in listed]
    if not dry_run:
        changed = [outcome for outcome in redecided if outcome.is_change]
        count_redecided(changed)
        _note_round(context, changed, claimed_by, cause)
    return redecided


def _redecide(context: Context, listed: ListedExecution, *, dry_run: bool) -> Redecided:
    with context.database.transaction(dry_run=dry_run) as connection:
        if not dry_run:
            fleet.share(connection)
            _hold_loaded(connection, current_fleet(context, connection))
        execution = executions.get(connection, listed.key, lock=not dry_run)
        if execution is None or execution.phase != Phase.QUEUED.value or execution.lease_expires_at is not None:
            return _outcome(listed, listed.reason, listed.reason_message)
        request = CreationRequest(run_request_of(execution), execution.name)
        try:
            view = StoredView(context, connection, hold=not dry_run, moving=execution)
            preparation = prepare(context, view, request)
        except (Invalid, RainbowError) as refusal:
            return _outcome(listed, *reason_of(refusal))
        run_plan, decision = preparation.run_plan, preparation.place(request.key).decision
        values = preparation.plan_values(run_plan.queue)
        values["queue_deadline"] = queue_deadline(run_plan.quality_of_service, execution.created_at)
        is_same = all(getattr(execution, name) == value for name, value in values.items())
        if is_same and not _differs(execution, decision):
            return _outcome(listed, execution.reason, execution.reason_message)
        if not dry_run:
            settings, revision = run_plan.effective.trail, preparation.basis.revision
            decisions.add_trails(connection, [settings, decision.evaluation.trail])
            values["revision"] = revision
            new = _NewDecision(execution, decision, settings.digest, "asked to decide again", revision, values)
            _store_decisions(connection, [new], context.clock())
    place = {"cluster": decision.cluster, "pool": run_plan.route.pool, "label": run_plan.route.label}
    return _outcome(listed, decision.code, decision.message, is_change=True, **place)
