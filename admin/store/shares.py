"""What was placed by a pool, and otherwise on its clusters, within a window of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, bindparam, func, or_, select, true
from sqlalchemy.dialects.postgresql import ARRAY

from admin.core.json_text import JsonObject
from admin.store.decisions import decisions, trails
from admin.store.dialects import is_sqlite
from admin.store.execution_tables import executions

_columns = executions.c
_NEWEST_FIRST = (_columns.created_at.desc(), _columns.id.desc())


class Window(NamedTuple):
    """The times of creation that count."""

    after: datetime
    before: datetime


class PlacedExecution(NamedTuple):
    """An execution that a pool placed, or should, by its last decision."""

    project: str
    domain: str
    name: str
    cluster: str | None
    created_at: datetime
    created_by: str  #: as the gate knew its caller; empty where that was not kept
    claimed_by: str | None  #: unverified
    placement_trail: str
    decided_at: datetime

    @property
    def key(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}"


def placed_by(connection: Connection, pool: str, window: Window, limit: int) -> list[PlacedExecution]:
    """The executions of a pool, newest first."""
    is_last = and_(decisions.c.execution_id == _columns.id, decisions.c.number == _columns.decisions)
    query = (
        select(
            *(_columns[name] for name in PlacedExecution._fields[:-2]),
            decisions.c.placement_trail,
            decisions.c.decided_at,
        )
        .join_from(executions, decisions, is_last)
        .where(_columns.pool == pool, *_within(window))
        .order_by(*_NEWEST_FIRST)
        .limit(limit)
    )
    return list(map(PlacedExecution._make, connection.execute(query)))


def count_placed_by(connection: Connection, pool: str, window: Window, most: int) -> int:
    """How many executions a pool has, up to a number."""
    # The order makes PostgreSQL follow the index of pools; without one it may read the table from its start.
    newest = select(_columns.id).where(_columns.pool == pool, *_within(window)).order_by(*_NEWEST_FIRST).limit(most)
    return int(connection.execute(select(func.count()).select_from(newest.subquery())).scalar_one())


def placed_otherwise(
    connection: Connection, pool: str, clusters: Sequence[str], window: Window, most: int
) -> dict[str, dict[str, int]]:
    """How many of the newest executions of each cluster did not come by a pool, by the kind of their routes."""
    counts: dict[str, dict[str, int]] = {cluster: {} for cluster in clusters}
    values = {"pool": pool, **window._asdict(), "most": most}
    if is_sqlite(connection):  # which has no joins of this kind, and to ask it often costs nothing
        for cluster in clusters:
            rows = connection.execute(_PLACED_OTHERWISE, {**values, "cluster": cluster})
            counts[cluster] = {row[0]: row[1] for row in rows}
        return counts
    for cluster, route_kind, count in connection.execute(_ALL_PLACED_OTHERWISE, {**values, "clusters": list(clusters)}):
        counts[cluster][route_kind] = count
    return counts


def _newest(cluster: ColumnElement[str]) -> Select[tuple[str, str | None]]:
    """The newest executions at a cluster."""
    return (
        select(_columns.route_kind, _columns.pool)
        .where(
            _columns.cluster == cluster,
            _columns.created_at >= bindparam("after"),
            _columns.created_at < bindparam("before"),
        )
        .order_by(*_NEWEST_FIRST)
        .limit(bindparam("most"))
    )


_NEWEST = _newest(bindparam("cluster", type_=Text)).subquery()
_PLACED_OTHERWISE = (
    select(_NEWEST.c.route_kind, func.count())
    .where(or_(_NEWEST.c.pool.is_(None), _NEWEST.c.pool != bindparam("pool")))
    .group_by(_NEWEST.c.route_kind)
)
_NAMES = func.unnest(bindparam("clusters", type_=ARRAY(Text))).table_valued("name")
_NEWEST_OF_EACH = _newest(_NAMES.c.name).lateral()
_ALL_PLACED_OTHERWISE = (
    select(_NAMES.c.name, _NEWEST_OF_EACH.c.route_kind, func.count())
    .join_from(_NAMES, _NEWEST_OF_EACH, true())
    .where(or_(_NEWEST_OF_EACH.c.pool.is_(None), _NEWEST_OF_EACH.c.pool != bindparam("pool")))
    .group_by(_NAMES.c.name, _NEWEST_OF_EACH.c.route_kind)
)


def trails_of(connection: Connection, digests: Iterable[str]) -> dict[str, JsonObject]:
    """The bodies of some trails, by their digests."""
    query = select(trails.c.digest, trails.c.body).where(trails.c.digest.in_(list(digests)))
    return {row[0]: row[1] for row in connection.execute(query)}


def _within(window: Window) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _columns.created_at >= window.after, _columns.created_at < window.before
