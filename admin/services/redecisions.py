"""Redecisions: waiting executions decided again, when the fleet has changed or agents gave them back.

An execution that waits at a cluster stays there for as long as that cluster may run it; but from an expected one it
moves to one that has been seen, as soon as that has room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.creators import CreatorRights
from admin.core.executions.attempts import UNDECIDED
from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.core.fleet.fleet import Fleet
from admin.core.placement.assessments import criteria_of
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import WAITS_FOR_ROOM, WAITS_FOR_RULES, Decision, decide
from admin.core.placement.routes import Route
from admin.metrics import count_redecided
from admin.services.context import Context
from admin.services.creator_rights import current_rights, usable_by
from admin.services.deciders import Decider, clusters_of, clusters_with_load, first_to_draw, route_of, taken_of
from admin.services.decision_views import looks_at_load, workload_of
from admin.services.definitions import current_fleet
from admin.services.execution_tokens import leave_lines
from admin.services.new_decisions import store_again
from admin.services.redecision_rounds import FleetRound, Redecided, Round
from admin.services.rule_inputs import NO_INPUT, RuleInputs, load_rule_inputs
from admin.store import decisions, execution_queue, fleet
from admin.store.execution_lists import ListLimits
from admin.store.executions import Execution, ExecutionId, ListedExecution, WaitingExecution

#: Executions in one transaction: few enough that creations hardly wait, many enough that thousands take seconds.
_BATCH = 500
#: Executions that no cluster passes the rules for, of which the oldest are tried again when something may have ended.
_MOST_BY_RULES = 100


def decide_waiting(context: Context) -> list[Redecided]:
    """Decide every waiting execution again, by the fleet as it is; returns those that changed."""
    changed: list[Redecided] = []
    round_ = FleetRound(context=context)
    last_id = 0
    while True:
        waiting, batch = _decide_batch(
            context, partial(execution_queue.waiting, after_id=last_id, limit=_BATCH), round_
        )
        changed += batch
        if len(waiting) < _BATCH:
            break
        last_id = waiting[-1].id
    round_.end()
    return changed


def decide_undecided(context: Context) -> list[Redecided]:
    """Decide executions that agents gave back, or that were taken from lost clusters."""
    with context.database.autocommit() as connection:
        if not execution_queue.is_any_undecided(connection):
            return []
    return _decide_batch(context, partial(execution_queue.undecided, limit=_BATCH), Round(context=context))[1]


def _decide_batch(
    context: Context, load: Callable[[Connection], list[WaitingExecution]], round_: Round
) -> tuple[list[WaitingExecution], list[Redecided]]:
    """Decide the executions that `load` locks again, and note it; returns them, and those that changed."""
    with context.database.writing() as connection:
        fleet.share(connection)
        fleet_now = current_fleet(context, connection)
        round_.begin(connection)
        loaded = hold_loaded(connection, fleet_now)
        waiting = load(connection)
        now, rights = context.clock(), current_rights(context, connection)
        decider = Decider(fleet_now, now, rights)
        unsettled = [execution for execution in waiting if not decider.is_settled(execution)]
        if not unsettled:
            return waiting, []
        rule_inputs = load_rule_inputs(connection, fleet_now, unsettled)
        by_load = [
            execution
            for execution in unsettled
            if decider.may_move(execution) or _asks_for_load(execution, fleet_now, rule_inputs)
        ]
        if by_load:
            loaded |= clusters_of(by_load, fleet_now)
            fleet_now = _with_load(connection, fleet_now)
        decider = Decider(fleet_now, now, rights, rule_inputs)
        taken = taken_of(connection, loaded, fleet_now, now) if loaded else {}
        changes = decider.changes(unsettled, taken)
        given_back = [execution for execution, _ in changes if execution.reason == UNDECIDED]
        left = decisions.clusters(connection, [(execution.id, execution.decisions) for execution in given_back])
        changed = [
            replace(_changed(execution, decision), given_back_by=left.get(execution.id))
            for execution, decision in changes
        ]
        store_again(context, connection, changes, [round_.because(connection, outcome) for outcome in changed])
        round_.note(connection, changed)
    leave_lines(context, [outcome.id for outcome in changed if _has_left(outcome)])
    count_redecided(changed)
    return waiting, changed


def _has_left(outcome: Redecided) -> bool:
    """Whether an execution waited for tokens at a cluster that it is no longer sent to."""
    return outcome.previous_reason == WAITING_FOR_TOKENS and outcome.cluster != outcome.previous_cluster


def _asks_for_load(execution: WaitingExecution, fleet_now: Fleet, rule_inputs: RuleInputs) -> bool:
    """Whether the request of an execution asks for a strategy that looks at load."""
    requested = rule_inputs.get(execution.id, NO_INPUT).requested
    return requested is not None and looks_at_load(route_of(execution), fleet_now, requested)


class Preview(NamedTuple):
    """What a fleet would change."""

    changed: list[Redecided]  #: what waits
    returned: list[Decision]  #: of what returns to the queue, as far as they were decided
    deadlines: Mapping[ExecutionId, datetime | None]  #: when the queueing budget of each that changed is over
    undecided: Sequence[Execution | WaitingExecution]  #: those that were not looked at, which would have taken too long
    unsettled: Sequence[WaitingExecution]  #: what waits and may not stay where it is, or may leave it


def preview(
    connection: Connection,
    fleet_then: Fleet,
    waiting: Iterable[WaitingExecution],
    returning: Sequence[Execution],
    limits: ListLimits,
    now: datetime,
    rights: CreatorRights,
) -> Preview:
    """What `decide_waiting` would change with a fleet, and where executions would go that return to the queue.

    Nothing is locked or stored. Only so many executions are decided, which draw from so many clusters together.
    """
    decider = Decider(fleet_then, now, rights)
    unsettled = [execution for execution in waiting if not decider.is_settled(execution)]
    decided = list(islice(first_to_draw([*returning, *unsettled], fleet_then, limits.drawn), limits.decided))
    number = min(len(returning), len(decided))
    loaded = clusters_with_load(fleet_then) | clusters_of(decided, fleet_then)
    taken = taken_of(connection, loaded, fleet_then, now) if loaded else {}
    again = unsettled[: len(decided) - number]
    decider = Decider(fleet_then, now, rights, load_rule_inputs(connection, fleet_then, again))
    changes = decider.changes(again, taken)
    returned = [decider.place(execution, taken) for execution in returning[:number]]
    changed = [_changed(execution, decision) for execution, decision in changes]
    deadlines = {execution.key: execution.queue_deadline for execution, _ in changes}
    undecided: list[Execution | WaitingExecution] = [*returning[number:], *unsettled[len(decided) - number :]]
    return Preview(changed, returned, deadlines, undecided, unsettled)


def _changed(execution: WaitingExecution, decision: Decision) -> Redecided:
    return outcome_of(execution, decision.code, decision.message, is_change=True, cluster=decision.cluster)


def outcome_of(
    execution: Execution | WaitingExecution | ListedExecution,
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
        previous_reason=execution.reason,
        previous_message=execution.reason_message,
        reason=reason,
        message=message,
        is_change=is_change,
        **place,
    )


def is_room_again(context: Context) -> bool:
    """Whether an execution that waits for room, or at an expected cluster, would find some now."""
    with context.database.reading() as connection:
        is_closed = context.settings.is_cluster_use_closed
        oldest = execution_queue.full_routes(connection, WAITS_FOR_ROOM, by_creator=is_closed)
        fleet_now = current_fleet(context, connection)
        now, rights = context.clock(), current_rights(context, connection)
        by_rules = execution_queue.unplaced(connection, WAITS_FOR_RULES, _MOST_BY_RULES)
        oldest = [*_first_of_rights(oldest, rights), *by_rules]
        movable = _oldest_movable(connection, fleet_now, now, rights)
        if not oldest and not movable:
            return False
        rule_inputs = load_rule_inputs(connection, fleet_now, [*oldest, *movable])
        if movable or any(_asks_for_load(execution, fleet_now, rule_inputs) for execution in oldest):
            fleet_now = _with_load(connection, fleet_now)
        taken = taken_of(connection, fleet_now.clusters, fleet_now, now)
        decider = Decider(fleet_now, now, rights, rule_inputs)
        workloads: dict[tuple[object, ...], tuple[Route, Workload]] = {}
        for execution in oldest:
            route = route_of(execution)
            workload = workload_of(execution, rights, rule_inputs.get(execution.id, NO_INPUT))
            key = (route.kind, route.name, criteria_of(group_of(route, fleet_now), workload))
            workloads.setdefault(key, (route, workload))
        return any(
            decide(route, fleet_now, workload, taken).cluster is not None for route, workload in workloads.values()
        ) or any(decider.decide(execution, taken) is not None for execution in movable)


def _first_of_rights(oldest: Iterable[WaitingExecution], rights: CreatorRights) -> list[WaitingExecution]:
    """The first of some executions of each route whose creators may use the same."""
    first: dict[object, WaitingExecution] = {}
    for execution in oldest:
        first.setdefault((execution.route_kind, execution.route_name, usable_by(execution, rights)), execution)
    return list(first.values())


def _oldest_movable(
    connection: Connection, fleet_now: Fleet, now: datetime, rights: CreatorRights
) -> list[WaitingExecution]:
    """The oldest execution of each route that waits at an expected cluster and may leave it."""
    expected = [name for name, cluster in fleet_now.clusters.items() if cluster.is_expected]
    if len(expected) in (0, len(fleet_now.clusters)):
        return []
    decider = Decider(fleet_now, now, rights)
    oldest = _first_of_rights(execution_queue.oldest_at(connection, expected, by_creator=rights.is_closed), rights)
    return [execution for execution in oldest if decider.may_move(execution)]


def _with_load(connection: Connection, fleet_now: Fleet) -> Fleet:
    """The fleet with the latest reports: one of load alone is no new generation where no strategy looks at load."""
    return fleet_now.with_states(fleet.states(connection))


def hold_loaded(connection: Connection, fleet_now: Fleet, placed: Sequence[Execution] = ()) -> set[str]:
    """Lock the clusters whose load counts for some pool, so that no other transaction counts on the same room.

    So are those that executions may go to which are `placed` by load whatever their pool says. They are locked before
    any execution: every transaction that locks both does so in this order.
    """
    clusters = clusters_with_load(fleet_now) | clusters_of(placed, fleet_now)
    if clusters:
        fleet.hold(connection, clusters)
    return clusters
