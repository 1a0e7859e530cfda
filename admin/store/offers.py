"""Offers: the executions that the agent of a cluster may have next, and those that are kept waiting there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Text, and_, bindparam, exists, func, or_, select, tuple_

from admin.core.executions.admissions import NAMESPACE_NOT_READY
from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA
from admin.core.settings.scopes import SCOPE_KEYS, STORED_LEVELS, Scope
from admin.store.attributes import attributes
from admin.store.execution_tables import executions
from admin.store.executions import MAY_START, UNLEASED
from admin.store.leases import CREATOR, LEASE_COLUMNS, LeasedExecution, read_leases
from admin.store.sql_types import AnySelect

_columns = executions.c
_of_cluster = _columns.cluster == bindparam("cluster")
_of_clusters = _columns.cluster.in_(bindparam("clusters", expanding=True))
_bounding = attributes.c
#: Whether there is a quota at the scope of an execution or above it. Each place is asked for by its whole key, so that
#: it is found by that, however many quotas there are.
_IS_BOUNDED = exists(
    select(1).where(
        or_(
            *(
                and_(
                    _bounding.kind == EXECUTION_QUOTA.name,
                    *(_bounding[key] == (_columns[key] if key in level.keys else "") for key in SCOPE_KEYS),
                )
                for level in STORED_LEVELS
            )
        )
    )
)
_ORDER = (_columns.tier, _columns.priority.desc(), _columns.id)
_SELECT_OFFERS = select(*LEASE_COLUMNS, _columns.content, *CREATOR, _IS_BOUNDED.label("is_bounded"))
_SELECT_OFFERED = (
    _SELECT_OFFERS.where(*UNLEASED, _of_cluster, MAY_START)
    .order_by(*_ORDER)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
#: Executions that are alike for whoever admits them: what keeps the first of them waiting keeps the others too.
_PLACE = tuple(_columns[name] for name in ("project", "domain", "workflow", "launch_plan"))
_KIND = (
    *_PLACE,
    *(_columns[name] for name in ("token_pools", "demand_cpu", "demand_memory", "demand_gpu")),
)
_position = func.row_number().over(partition_by=_KIND, order_by=_ORDER)


def _select_first_ids(*conditions: ColumnElement[bool]) -> AnySelect:
    """The first of each kind of executions that fit some conditions too, in their order."""
    numbered = (
        select(_columns.id, _columns.tier, _columns.priority, _position.label("position"))
        .where(*UNLEASED, _of_cluster, MAY_START, *conditions)
        .subquery("numbered")
    )
    return (
        select(numbered.c.id)
        .where(numbered.c.position <= bindparam("room"))
        .order_by(numbered.c.tier, numbered.c.priority.desc(), numbered.c.id)
        .limit(bindparam("most"))
    )


_SELECT_FIRST_IDS = _select_first_ids()
#: Two that need no tokens are of the same kind, which NULL would not tell.
_COMPARED_KIND = [func.coalesce(column, "") if column is _columns.token_pools else column for column in _KIND]
_SELECT_NEXT_IDS = _select_first_ids(
    _columns.id.not_in(bindparam("admitted", expanding=True)),
    tuple_(*_COMPARED_KIND).not_in(
        select(*_COMPARED_KIND).where(_columns.id.in_(bindparam("refused", expanding=True))).correlate(None)
    ),
)
_SELECT_NEEDS = (
    select(*_PLACE, _columns.token_pools, _IS_BOUNDED.label("is_bounded"))
    .where(*UNLEASED, _of_cluster, MAY_START)
    .distinct()
)
#: By their ids alone: joined with the query above, PostgreSQL numbers them again for each where it expects few to wait.
_SELECT_CANDIDATES = (
    _SELECT_OFFERS.where(_columns.id.in_(bindparam("ids", expanding=True)), *UNLEASED, _of_cluster, MAY_START)
    .order_by(*_ORDER)
    .with_for_update(skip_locked=True)
)
_reason = bindparam("reason", type_=Text)
_SELECT_NOT_TOLD = (
    select(*LEASE_COLUMNS, *CREATOR)
    .where(
        *UNLEASED,
        _of_cluster,
        MAY_START,
        or_(_columns.token_pools.is_not(None), _IS_BOUNDED, _reason == NAMESPACE_NOT_READY),
        _columns.reason != _reason,
    )
    .order_by(_columns.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
#: Those of which some may stand in line.
_SELECT_WAITING_FOR_TOKENS = (
    _SELECT_OFFERS.where(*UNLEASED, _of_cluster, _columns.reason == WAITING_FOR_TOKENS)
    .order_by(*_ORDER)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_SELECT_NEXT_START = (
    select(_columns.cluster, func.min(_columns.not_before))
    .where(*UNLEASED, _of_clusters, _columns.not_before > bindparam("now"))
    .group_by(_columns.cluster)
)


def offered(connection: Connection, cluster: str, now: datetime, limit: int) -> list[LeasedExecution]:
    """What a cluster may have next, by tier, priority and age; rows that other transactions lock are skipped."""
    return read_leases(connection, _SELECT_OFFERED, cluster=cluster, now=now, most=limit)


def candidates(connection: Connection, cluster: str, now: datetime, room: int, limit: int) -> list[LeasedExecution]:
    """The first of each kind of executions that a cluster may have next, as many of each as it has room for."""
    first = {"cluster": cluster, "now": now, "room": room, "most": limit}
    ids = connection.execute(_SELECT_FIRST_IDS, first).scalars().all()
    return read_leases(connection, _SELECT_CANDIDATES, cluster=cluster, now=now, ids=ids) if ids else []


def waiting_for_tokens(connection: Connection, cluster: str, limit: int) -> list[LeasedExecution]:
    """The first of a cluster's executions that wait for tokens."""
    return read_leases(connection, _SELECT_WAITING_FOR_TOKENS, cluster=cluster, most=limit)


def further_candidates(
    connection: Connection,
    cluster: str,
    now: datetime,
    room: int,
    limit: int,
    *,
    admitted: Collection[int],
    refused: Collection[int],
) -> list[LeasedExecution]:
    """The same without some that are admitted, and without all that are of the kinds of some that were refused."""
    first = {"cluster": cluster, "now": now, "room": room, "most": limit}
    excluded = {"admitted": sorted(admitted), "refused": sorted(refused)}
    ids = connection.execute(_SELECT_NEXT_IDS, first | excluded).scalars().all()
    return read_leases(connection, _SELECT_CANDIDATES, cluster=cluster, now=now, ids=ids) if ids else []


class Needs(NamedTuple):
    """What some executions that wait at a cluster have in common, as far as gates may concern them."""

    project: str
    domain: str
    workflow: str
    launch_plan: str
    token_pools: str | None
    is_bounded: bool

    @property
    def scope(self) -> Scope:
        """The scope that their settings were resolved at."""
        return Scope(self.domain, self.project, self.workflow, self.launch_plan)


def needs(connection: Connection, cluster: str, now: datetime) -> list[Needs]:
    """What everything needs that a cluster may have next."""
    return [Needs._make(row) for row in connection.execute(_SELECT_NEEDS, {"cluster": cluster, "now": now})]


def not_told(connection: Connection, cluster: str, now: datetime, reason: str, limit: int) -> list[LeasedExecution]:
    """What waits at a cluster and may be held back for a reason, but has another one."""
    return read_leases(connection, _SELECT_NOT_TOLD, cluster=cluster, now=now, reason=reason, most=limit)


def next_not_before(connection: Connection, clusters: Sequence[str], now: datetime) -> dict[str, datetime]:
    """When the next attempt that backs off may start at each cluster."""
    if not clusters:
        return {}
    rows = connection.execute(_SELECT_NEXT_START, {"clusters": clusters, "now": now})
    return {row[0]: row[1] for row in rows}
