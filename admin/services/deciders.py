"""Deciders: decide many executions by one fleet, and find out once what is the same for those that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from sqlalchemy import Connection

from admin.core.creators import CreatorRights
from admin.core.executions.attempts import is_backing_off
from admin.core.fleet.fleet import Fleet
from admin.core.placement.assessments import criteria_of
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.decisions import ASKING, ASSIGNED, Decision, Evaluation, choose, decide, evaluate
from admin.core.placement.obstacles import may_move, may_stay
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import strategy_of
from admin.core.resources import Amounts, add, subtract
from admin.services.creator_rights import usable_by
from admin.services.decision_views import looks_at_load, workload_of
from admin.services.rule_inputs import NO_INPUT, RuleInputs
from admin.store import execution_queue
from admin.store.executions import Execution, WaitingExecution


class Decider:
    """Decides executions by one fleet; what is the same for executions that are alike is found out once."""

    def __init__(
        self, fleet_now: Fleet, now: datetime, rights: CreatorRights, rule_inputs: RuleInputs | None = None
    ) -> None:
        self._fleet = fleet_now
        self._rule_inputs = rule_inputs or {}  #: of what waits, where it is decided and not only asked whether it stays
        self._rights = rights
        self._now = now
        self._settled: dict[tuple[object, ...], bool] = {}
        self._stays: dict[tuple[object, ...], bool] = {}
        self._moves: dict[tuple[str, str, bool], bool] = {}
        self._evaluations: dict[tuple[object, ...], Evaluation] = {}

    def is_settled(self, execution: WaitingExecution) -> bool:
        """Whether an execution stays where it is, whatever room there is."""
        key = (execution.cluster, *_likeness(execution), execution.project, execution.domain, *_creator(execution))
        if key not in self._settled:
            self._settled[key] = self._may_stay(execution) and not self.may_move(execution)
        return self._settled[key]

    def _may_stay(self, execution: WaitingExecution) -> bool:
        cluster = execution.cluster
        if cluster is None:
            return False
        key = (cluster, *_likeness(execution), usable_by(execution, self._rights))
        if key not in self._stays:
            workload = workload_of(execution, self._rights)
            self._stays[key] = may_stay(cluster, route_of(execution), self._fleet, workload)
        return self._stays[key]

    def may_move(self, execution: WaitingExecution) -> bool:
        """Whether an execution may leave the cluster that it waits at."""
        present = self._fleet.clusters.get(execution.cluster or "")
        if present is None:
            return False
        key = (execution.route_kind, execution.route_name, present.is_expected)
        if key not in self._moves:
            self._moves[key] = may_move(present.name, route_of(execution), self._fleet)
        return self._moves[key]

    def changes(
        self, unsettled: Iterable[WaitingExecution], taken: dict[str, dict[str, int]]
    ) -> list[tuple[WaitingExecution, Decision]]:
        """The executions whose decision is another one by now, each with it."""
        return [
            (execution, decision)
            for execution in unsettled
            if (decision := self.decide(execution, taken)) is not None and differs(execution, decision)
        ]

    def decide(self, execution: WaitingExecution, waiting: dict[str, dict[str, int]]) -> Decision | None:
        """Decide where an execution goes, and move what it takes in `waiting` from the old cluster to the new one.

        None for one that stays at an expected cluster, since none that has been seen has room for it.
        """
        rule_input = self._rule_inputs.get(execution.id, NO_INPUT)
        workload = workload_of(execution, self._rights, rule_input)
        before = waiting.get(execution.cluster or "")
        stays = self._may_stay(execution)
        if execution.cluster is not None and before is not None:
            waiting[execution.cluster] = subtract(before, self._takes_of(execution.cluster, execution, workload))
        decision = self._decide(execution, workload, waiting, needs_room=stays)
        if stays and decision.code not in (ASSIGNED, ASKING):
            if execution.cluster is not None and before is not None:
                waiting[execution.cluster] = before
            return None
        self._take(decision, execution, workload, waiting)
        return decision

    def place(self, execution: Execution, waiting: dict[str, dict[str, int]]) -> Decision:
        """Decide where an execution goes that no longer belongs to a cluster, and add what it takes to `waiting`."""
        workload = workload_of(execution, self._rights)
        decision = self._decide(execution, workload, waiting)
        self._take(decision, execution, workload, waiting)
        return decision

    def _take(
        self,
        decision: Decision,
        execution: Execution | WaitingExecution,
        workload: Workload,
        waiting: dict[str, dict[str, int]],
    ) -> None:
        if decision.cluster is not None:
            takes = self._takes_of(decision.cluster, execution, workload)
            waiting[decision.cluster] = add(waiting.get(decision.cluster, {}), takes)

    def _takes_of(self, cluster: str, execution: Execution | WaitingExecution, workload: Workload) -> Amounts:
        """What an execution takes of a cluster at which it waits."""
        if is_backing_off(execution.not_before, self._now):
            return {}
        return workload.takes_of(self._fleet.clusters[cluster])

    def _decide(
        self,
        execution: Execution | WaitingExecution,
        workload: Workload,
        waiting: dict[str, dict[str, int]],
        *,
        needs_room: bool = False,
    ) -> Decision:
        route = route_of(execution)
        if needs_room or looks_at_load(route, self._fleet, workload.requested):
            return decide(route, self._fleet, workload, waiting, needs_room=needs_room)
        key = (*_likeness(execution), criteria_of(group_of(route, self._fleet), workload))
        if key not in self._evaluations:
            self._evaluations[key] = evaluate(route, self._fleet, workload, {})
        return choose(self._evaluations[key], workload.key)


def _likeness(execution: Execution | WaitingExecution) -> tuple[object, ...]:
    """All of an execution that filters and strategies look at, but for what its name draws and its creator may use."""
    return (
        execution.route_kind,
        execution.route_name,
        execution.demand_cpu,
        execution.demand_memory,
        execution.demand_gpu,
        execution.demand_ephemeral_storage,
        execution.demand_nodes,
        execution.exclusive,
        execution.asks,
        tuple(execution.required_plugins),
        tuple(execution.avoid),
    )


def _creator(execution: WaitingExecution) -> tuple[object, ...]:
    """What the rights of the creator of an execution depend on, within its project and domain."""
    return execution.created_by, execution.created_proof, execution.created_use


def differs(execution: Execution | WaitingExecution, decision: Decision) -> bool:
    """Whether a decision is another one than what is stored of an execution."""
    if decision.code == ASKING == execution.reason:  # its clusters are being asked, or will be again
        return False
    stored = (execution.cluster, execution.reason, execution.reason_message)
    return (decision.cluster, decision.code, decision.message) != stored


def first_to_draw(
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
            group = group_of(route_of(execution), fleet_now)
            sizes[key] = len(group.members) if group else 0
        drawn += sizes[key]
        yield execution


def taken_of(
    connection: Connection, names: Iterable[str], fleet_now: Fleet, now: datetime
) -> dict[str, dict[str, int]]:
    """What is taken of some clusters by what waits there."""
    return execution_queue.taken_by_waiting(connection, {name: fleet_now.clusters[name] for name in names}, now)


def route_of(execution: Execution | WaitingExecution) -> Route:
    """The route of a stored execution."""
    return Route(kind=RouteKind(execution.route_kind), name=execution.route_name, rungs=())


def clusters_of(placed: Iterable[Execution | WaitingExecution], fleet_now: Fleet) -> set[str]:
    """The clusters that the routes of some executions lead to."""
    routes = {(execution.route_kind, execution.route_name): route_of(execution) for execution in placed}
    groups = (group_of(route, fleet_now) for route in routes.values())
    return {member.cluster for group in groups if group for member in group.members}


def clusters_with_load(fleet_now: Fleet) -> set[str]:
    """The clusters whose load counts for some pool."""
    pools = [pool for pool in fleet_now.pools.values() if strategy_of(pool).looks_at_load]
    return {member.cluster for pool in pools for member in pool.members}
