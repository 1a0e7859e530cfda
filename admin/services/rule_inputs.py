"""Rule inputs: what rules look at of executions that wait, which only decisions by rules need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import JobParameters, RequestedStrategy, group_of
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.scores import Strategy, strategy_of
from admin.store import execution_queue
from admin.store.executions import WaitingExecution


class RuleInput(NamedTuple):
    """What an execution brings along beside its demand."""

    requested: RequestedStrategy | None  #: the strategy that its request asks for
    job: JobParameters | None  #: None where no rules are asked


#: By the ids of executions.
RuleInputs = Mapping[int, RuleInput]
NO_INPUT = RuleInput(None, None)


def load_rule_inputs(connection: Connection, fleet: Fleet, waiting: Iterable[WaitingExecution]) -> RuleInputs:
    """The strategies that executions ask for; and the jobs of those that are placed by rules, their own or a pool's."""
    routes = {execution.id: (execution.route_kind, execution.route_name) for execution in waiting}
    if not routes:
        return {}
    requested = execution_queue.requested_strategies(connection, routes)
    by_rules = [
        id
        for id, (kind, name) in routes.items()
        if (strategy := _strategy(kind, name, fleet, requested.get(id))) is not None and strategy.rules is not None
    ]
    jobs = execution_queue.job_parameters(connection, by_rules) if by_rules else {}
    return {id: RuleInput(requested.get(id), jobs.get(id)) for id in requested.keys() | jobs.keys()}


def _strategy(kind: str, name: str, fleet: Fleet, requested: RequestedStrategy | None) -> Strategy | None:
    group = group_of(Route(kind=RouteKind(kind), name=name, rungs=()), fleet)
    return None if group is None else strategy_of(group, requested)
