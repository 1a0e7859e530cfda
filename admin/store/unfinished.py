"""Executions that have not ended: how many there are and where, and which of them agents have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select, tuple_

from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.store.execution_tables import executions
from admin.store.executions import (
    LEASED,
    OPEN,
    SELECT_EXECUTION,
    SELECT_LISTED,
    UNLEASED,
    Execution,
    ExecutionId,
    ListedExecution,
)

_columns = executions.c
_IS_UNFINISHED = and_(OPEN, _columns.phase.in_([phase.value for phase in UNFINISHED]))


def leased_at(connection: Connection, clusters: Collection[str], limit: int) -> list[Execution]:
    """Executions that the agents of clusters have, by cluster and id."""
    return _leased(connection, _columns.cluster.in_(clusters), limit) if clusters else []


def leased_by(connection: Connection, routes: Collection[tuple[str, str]], limit: int) -> list[Execution]:
    """Executions that agents have and that were placed by one of some routes, each its kind and name."""
    # The range has the planner read the index of leases, which is in the order of clusters, and not the table.
    placed_by = and_(_columns.cluster >= "", tuple_(_columns.route_kind, _columns.route_name).in_(routes))
    return _leased(connection, placed_by, limit) if routes else []


def _leased(connection: Connection, condition: ColumnElement[bool], limit: int) -> list[Execution]:
    query = SELECT_EXECUTION.where(condition, LEASED).order_by(_columns.cluster, _columns.id).limit(limit)
    return list(map(Execution._make, connection.execute(query)))


def count_leased(connection: Connection, clusters: Collection[str], routes: Collection[tuple[str, str]]) -> int:
    """How many executions agents have that are at one of some clusters, or were placed by one of some routes."""
    placed_by = tuple_(_columns.route_kind, _columns.route_name)
    conditions = [_columns.cluster.in_(clusters)] if clusters else []
    conditions += [placed_by.in_(routes)] if routes else []
    query = select(func.count(_columns.id)).where(_columns.cluster >= "", or_(false(), *conditions), LEASED)
    return int(connection.execute(query).scalar_one())


def leases_at(connection: Connection, cluster: str, limit: int) -> list[ListedExecution]:
    """The oldest executions that the agent of a cluster has."""
    query = SELECT_LISTED.where(_columns.cluster == cluster, LEASED).order_by(_columns.id).limit(limit)
    return list(map(ListedExecution._make, connection.execute(query)))


def counts_by_cluster(connection: Connection) -> dict[tuple[str, str], int]:
    """How many unfinished executions each cluster has in each phase."""
    counts = Counter[tuple[str, str]]()
    for cluster, count in connection.execute(_WAITING_BY_CLUSTER):
        counts[cluster, Phase.QUEUED.value] = count
    for query in (_LEASED_BY_CLUSTER, _GOING_ON_BY_CLUSTER):
        for cluster, phase, count in connection.execute(query):
            counts[cluster, phase] += count
    return counts


#: What waits is counted along an index of it alone, in which no execution needs to be looked up.
_WAITING_BY_CLUSTER = (
    select(_columns.cluster, func.count()).where(*UNLEASED, _columns.cluster.is_not(None)).group_by(_columns.cluster)
)
_LEASED_BY_CLUSTER = (
    select(_columns.cluster, _columns.phase, func.count())
    .where(LEASED, _columns.cluster.is_not(None))
    .group_by(_columns.cluster, _columns.phase)
)
#: Of which no agent has a lease any more, such as at silent clusters.
_GOING_ON_BY_CLUSTER = (
    select(_columns.cluster, _columns.phase, func.count())
    .where(
        OPEN,
        _columns.phase.in_([phase.value for phase in UNFINISHED if phase is not Phase.QUEUED]),
        _columns.lease_expires_at.is_(None),
        _columns.cluster.is_not(None),
    )
    .group_by(_columns.cluster, _columns.phase)
)


def leases_by_cluster(connection: Connection) -> dict[str, int]:
    """How many leases each cluster's agent has."""
    query = select(_columns.cluster, func.count()).where(LEASED).group_by(_columns.cluster)
    return {row[0]: row[1] for row in connection.execute(query)}


def count(connection: Connection, **columns: str) -> int:
    """How many unfinished executions have some values."""
    conditions = [func.coalesce(_columns[name], "") == value for name, value in columns.items()]
    query = select(func.count()).where(_IS_UNFINISHED, *conditions)
    return int(connection.execute(query).scalar_one())


def first(connection: Connection, limit: int, **columns: str) -> list[ExecutionId]:
    """The oldest unfinished executions that have some values."""
    conditions = [func.coalesce(_columns[name], "") == value for name, value in columns.items()]
    names = (_columns.project, _columns.domain, _columns.name)
    query = select(*names).where(_IS_UNFINISHED, *conditions).order_by(_columns.id).limit(limit)
    return list(map(ExecutionId._make, connection.execute(query)))


def counts(connection: Connection) -> Iterator[tuple[str, str, str, str, str, str, int]]:
    """Unfinished executions by phase, reason, domain, cluster, pool and label."""
    names = ("phase", "reason", "domain", "cluster", "pool", "label")
    groups = [func.coalesce(_columns[name], "") for name in names]
    query = select(*groups, func.count()).where(_IS_UNFINISHED)
    for row in connection.execute(query.group_by(*groups)):
        yield tuple(row)
