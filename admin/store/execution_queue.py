"""The queue of executions: those that wait for a cluster, or at one for its agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    TextClause,
    bindparam,
    case,
    cast,
    false,
    func,
    not_,
    select,
    true,
    union_all,
)

from admin.core.executions.attempts import UNDECIDED
from admin.core.executions.plans import parameters_of
from admin.core.executions.spec import requested_strategy
from admin.core.fleet.asking import REQUEST_FIELDS
from admin.core.fleet.clusters import Cluster
from admin.core.graph.rooms import asked_key
from admin.core.placement.candidates import JobParameters, RequestedStrategy
from admin.core.placement.routes import RouteKind
from admin.core.resources import add
from admin.core.settings.scopes import Scope
from admin.store.execution_tables import DEMANDS, executions
from admin.store.executions import (
    IS_QUEUED,
    LEASED,
    MAY_START,
    OPEN,
    QUEUED,
    SELECT_LISTED,
    UNLEASED,
    ListedExecution,
    WaitingExecution,
)
from admin.store.sql_types import AnyRow, AnySelect

_columns = executions.c
_WAITS = (QUEUED, _columns.lease_expires_at.is_(None))
_SELECT_WAITING = select(*(_columns[name] for name in WaitingExecution._fields))


def waiting(connection: Connection, after_id: int, limit: int, *, lock: bool = True) -> list[WaitingExecution]:
    """Executions that wait and that no agent has, by id; with `lock` until the transaction ends."""
    query = _SELECT_WAITING.where(*_WAITS, OPEN, _columns.id > after_id).order_by(_columns.id).limit(limit)
    return list(map(WaitingExecution._make, connection.execute(query.with_for_update() if lock else query)))


def waiting_scopes(connection: Connection, limit: int) -> dict[Scope, int]:
    """How many of the first executions that wait, and that no agent has, resolve their settings at each scope."""
    keys = [_columns[key] for key in Scope._fields]
    first = select(*keys).where(*_WAITS, OPEN).order_by(_columns.id).limit(limit).subquery()
    query = select(*first.c, func.count()).group_by(*first.c)
    return {Scope(*names): count for *names, count in connection.execute(query)}


def count_naming(connection: Connection, clusters: Iterable[str]) -> dict[str, int]:
    """How many executions wait at each of some clusters whose requests name it."""
    query = select(_columns.cluster, func.count(_columns.id)).where(
        *UNLEASED, _columns.cluster.in_(list(clusters)), _columns.route_kind == RouteKind.CLUSTER.value
    )
    return {row[0]: row[1] for row in connection.execute(query.group_by(_columns.cluster))}


def count_waiting(connection: Connection) -> int:
    """How many executions wait and are with no agent."""
    return int(connection.execute(select(func.count(_columns.id)).where(*_WAITS, OPEN)).scalar_one())


def next_at(connection: Connection, cluster: str, limit: int) -> list[ListedExecution]:
    """The executions that wait at a cluster and that its agent does not have, the first to be leased first."""
    return _first(connection, [*UNLEASED, _columns.cluster == cluster], limit)


def waiting_for(connection: Connection, cluster: str, limit: int) -> list[ListedExecution]:
    """The executions that wait without a cluster and whose requests name one, the first to be leased first."""
    is_named = (_columns.route_kind == RouteKind.CLUSTER.value, _columns.route_name == cluster)
    return _first(connection, [QUEUED, _columns.cluster.is_(None), *is_named], limit)


def _first(
    connection: Connection, conditions: Iterable[ColumnElement[bool] | TextClause], limit: int
) -> list[ListedExecution]:
    order = (_columns.tier, _columns.priority.desc(), _columns.id)
    query = SELECT_LISTED.where(*conditions).order_by(*order).limit(limit)
    return list(map(ListedExecution._make, connection.execute(query)))


def taken_by_waiting(
    connection: Connection, clusters: Mapping[str, Cluster], now: datetime, *, leased_only: bool = False
) -> dict[str, dict[str, int]]:
    """What is taken of each of some clusters by what waits there; what is in back-off takes nothing.

    Of a cluster whose agent syncs and has not reported what is free, also what its agent has. With `leased_only` that
    is what agents have of it.
    """
    unreported = [name for name, cluster in clusters.items() if cluster.state.has_unreported_agent]
    if len(clusters) > _MOST_CLUSTERS_NAMED:
        all_taken = connection.execute(_TAKEN_OF_ALL[leased_only], {"now": now})
        rows = [row for row in all_taken if row[0] in clusters]
    else:
        rows = [*connection.execute(_TAKEN[leased_only], {"clusters": list(clusters), "now": now})]
    rows += connection.execute(_HELD, {"clusters": unreported}) if unreported else ()
    taken = _taken(rows, clusters)
    by_node = [name for name, cluster in clusters.items() if cluster.tells_nodes]
    asked = connection.execute(_ASKED[leased_only], {"clusters": by_node, "now": now}) if by_node else ()
    for name, asks, count in asked:
        taken[name] = add(taken.get(name, {}), {asked_key(asks): count})
    return taken


def _taken(rows: Iterable[AnyRow], clusters: Mapping[str, Cluster]) -> dict[str, dict[str, int]]:
    taken: dict[str, dict[str, int]] = {}
    for name, exclusive, asks_graph, *amounts in rows:
        demand = dict(zip((*DEMANDS, "executions"), map(int, amounts), strict=True))
        takes = clusters[name].takes(demand, exclusive=exclusive, asks_graph=asks_graph)
        taken[name] = add(taken.get(name, {}), takes)
    return taken


#: What executions ask for together, and how many there are.
SUMS = (*(func.sum(cast(_columns[f"demand_{resource}"], Float)) for resource in DEMANDS), func.count())
#: A statement about more clusters is longer than what waits at all of them, by cluster.
_MOST_CLUSTERS_NAMED = 100
_AT = _columns.cluster.in_(bindparam("clusters", expanding=True))
#: What waits at some clusters, may start, and no agent has.
UNLEASED_AT = (*UNLEASED, MAY_START, _AT)
#: Whether it is known what one asks of a cluster's graph.
ASKS_GRAPH = _columns.asks.is_not(None)
_TOGETHER = (_columns.cluster, _columns.exclusive, ASKS_GRAPH)
_SUM_DEMANDS = select(*_TOGETHER, *SUMS).group_by(*_TOGETHER)
_COUNT_ASKED = (
    select(_columns.cluster, _columns.asks, func.count())
    .where(_columns.asks.is_not(None))
    .group_by(_columns.cluster, _columns.asks)
)


def _waiting_by_lease(query: AnySelect) -> dict[bool, Executable]:
    """A query of what waits and may start, and of what agents have of it: each has an index, and both together none."""
    leased = query.where(LEASED, IS_QUEUED, MAY_START)
    return {False: union_all(query.where(*UNLEASED, MAY_START), leased), True: leased}


_TAKEN = _waiting_by_lease(_SUM_DEMANDS.where(_AT))
_TAKEN_OF_ALL = _waiting_by_lease(_SUM_DEMANDS.where(_columns.cluster.is_not(None)))
_ASKED = _waiting_by_lease(_COUNT_ASKED.where(_AT))
_HELD = _SUM_DEMANDS.where(LEASED, not_(QUEUED), _AT)


def full_routes(connection: Connection, reasons: Iterable[str], *, by_creator: bool = False) -> list[WaitingExecution]:
    """The oldest execution of each route, or of each creator by it, that waits for one of some reasons."""
    waits = (*_WAITS, _columns.cluster.is_(None), _columns.reason.in_(list(reasons)))
    return _first_of_routes(connection, _OLDEST[by_creator].where(*waits))


def oldest_at(connection: Connection, clusters: Iterable[str], *, by_creator: bool = False) -> list[WaitingExecution]:
    """The oldest execution of each route, or of each creator by it, that waits at one of some clusters."""
    return _first_of_routes(connection, _OLDEST[by_creator].where(*UNLEASED, _columns.cluster.in_(list(clusters))))


_SELECT_OLDEST = select(func.min(_columns.id)).group_by(_columns.route_kind, _columns.route_name, _columns.created_use)

_OLDEST = {
    False: _SELECT_OLDEST,
    True: _SELECT_OLDEST.group_by(_columns.project, _columns.created_by, _columns.created_proof),
}


def _first_of_routes(connection: Connection, oldest: AnySelect) -> list[WaitingExecution]:
    query = _SELECT_WAITING.where(_columns.id.in_(oldest)).order_by(_columns.id)
    return list(map(WaitingExecution._make, connection.execute(query)))


def unplaced(connection: Connection, reasons: Iterable[str], limit: int) -> list[WaitingExecution]:
    """The oldest executions that wait without a cluster for one of some reasons."""
    waits = (*_WAITS, _columns.cluster.is_(None), _columns.reason.in_(list(reasons)))
    query = _SELECT_WAITING.where(*waits).order_by(_columns.id).limit(limit)
    return list(map(WaitingExecution._make, connection.execute(query)))


_SPEC = _columns.request["spec"]
_STRATEGY_FIELDS = ("strategy", "rules", *REQUEST_FIELDS)
#: The strategy that the request of an execution asks for; NULL where it asks for none.
REQUESTED_STRATEGY = _SPEC["strategy"].as_string()
_REQUESTED = select(_columns.id, *(_SPEC[field] for field in _STRATEGY_FIELDS)).where(
    _columns.id.in_(bindparam("ids", expanding=True)), REQUESTED_STRATEGY.is_not(None)
)


def requested_strategies(connection: Connection, ids: Iterable[int]) -> dict[int, RequestedStrategy]:
    """The strategies that the requests of some executions ask for; of those alone that ask for one."""
    rows = connection.execute(_REQUESTED, {"ids": list(ids)})
    requests = {id: requested_strategy(dict(zip(_STRATEGY_FIELDS, values, strict=True))) for id, *values in rows}
    return {id: requested for id, requested in requests.items() if requested is not None}


_PARAMETERS = select(
    *(_columns[name] for name in ("id", "content", "priority", "project", "domain", "workflow", "launch_plan"))
).where(_columns.id.in_(bindparam("ids", expanding=True)))


def job_parameters(connection: Connection, ids: Iterable[int]) -> dict[int, JobParameters]:
    """What rules may look at of the jobs of some executions."""
    return {
        id: parameters_of(content["job"], Scope(domain, project, workflow, launch_plan), priority)
        for id, content, priority, project, domain, workflow, launch_plan in connection.execute(
            _PARAMETERS, {"ids": list(ids)}
        )
    }


def overdue(connection: Connection, now: datetime, limit: int) -> list[int]:
    """The ids of executions that waited longer than their queueing budget."""
    # Written as a CASE so that the index of offered executions does not match.
    is_free = case((_columns.lease_expires_at.is_(None), true()), else_=false())
    query = select(_columns.id).where(IS_QUEUED, _columns.queue_deadline <= now, is_free)
    return list(connection.execute(query.order_by(_columns.queue_deadline).limit(limit)).scalars())


_IS_UNDECIDED = (*_WAITS, _columns.cluster.is_(None), _columns.reason == UNDECIDED)
_ANY_UNDECIDED = select(_columns.id).where(*_IS_UNDECIDED).limit(1)


def is_any_undecided(connection: Connection) -> bool:
    """Whether any execution was given back and needs another cluster."""
    return connection.execute(_ANY_UNDECIDED).first() is not None


def undecided(connection: Connection, limit: int) -> list[WaitingExecution]:
    """Executions that were given back and need another cluster, locked until the transaction ends."""
    query = _SELECT_WAITING.where(*_IS_UNDECIDED)
    rows = connection.execute(query.order_by(_columns.id).limit(limit).with_for_update(skip_locked=True))
    return list(map(WaitingExecution._make, rows))
