"""The queue of executions: those that wait for a cluster, or at one for its agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
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
)

from admin.core.executions.attempts import UNDECIDED
from admin.core.fleet.clusters import Cluster
from admin.core.placement.routes import RouteKind
from admin.core.resources import add, occupied
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
from admin.store.sql_types import AnySelect

_columns = executions.c
_WAITS = (QUEUED, _columns.lease_expires_at.is_(None))
_SELECT_WAITING = select(*(_columns[name] for name in WaitingExecution._fields))


def waiting(connection: Connection, after_id: int, limit: int, *, lock: bool = True) -> list[WaitingExecution]:
    """Executions that wait and that no agent has, by id; with `lock` until the transaction ends."""
    query = _SELECT_WAITING.where(*_WAITS, OPEN, _columns.id > after_id).order_by(_columns.id).limit(limit)
    return list(map(WaitingExecution._make, connection.execute(query.with_for_update() if lock else query)))


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
    connection: Connection, clusters: Mapping[str, Cluster], now: datetime
) -> dict[str, dict[str, int]]:
    """What is taken of each of some clusters by what waits there; what is in back-off takes nothing.

    Of a cluster whose agent syncs and has not reported what is free, also what its agent has.
    """
    taken: dict[str, dict[str, int]] = {}
    unreported = [name for name, cluster in clusters.items() if cluster.state.has_unreported_agent]
    rows = [*connection.execute(_TAKEN, {"clusters": list(clusters), "now": now})]
    rows += connection.execute(_HELD, {"clusters": unreported}) if unreported else ()
    for name, exclusive, *amounts in rows:
        demand = dict(zip((*DEMANDS, "executions"), map(int, amounts), strict=True))
        occupies = occupied(demand, clusters[name].capacity or {}, exclusive=exclusive)
        taken[name] = add(taken.get(name, {}), occupies)
    return taken


_SUM_DEMANDS = select(
    _columns.cluster,
    _columns.exclusive,
    *(func.sum(cast(_columns[f"demand_{resource}"], Float)) for resource in DEMANDS),
    func.count(),
).group_by(_columns.cluster, _columns.exclusive)
_TAKEN = _SUM_DEMANDS.where(
    QUEUED, OPEN, MAY_START, func.coalesce(_columns.cluster, "").in_(bindparam("clusters", expanding=True))
)
_HELD = _SUM_DEMANDS.where(LEASED, not_(QUEUED), _columns.cluster.in_(bindparam("clusters", expanding=True)))


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
