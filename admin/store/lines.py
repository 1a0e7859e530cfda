"""Lines: what waits at clusters for their agents, and what these got since a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, and_, bindparam, literal, select

from admin.core.fleet.clusters import Cluster
from admin.core.graph.rooms import asked_key
from admin.core.placement.lines import Entry, Position
from admin.core.resources import Amounts
from admin.store.decisions import decisions
from admin.store.execution_queue import ASKS_GRAPH, SUMS, UNLEASED_AT
from admin.store.execution_tables import DEMANDS, executions
from admin.store.executions import LEASED

_columns = executions.c
_LIKE = (_columns.cluster, _columns.exclusive, _columns.asks, _columns.tier, _columns.priority)
_SUMS_OF_LIKE = select(*_LIKE, literal(0), *SUMS).where(*UNLEASED_AT).group_by(*_LIKE)
_EACH = select(*_LIKE, _columns.id, *SUMS).where(*UNLEASED_AT).group_by(*_LIKE, _columns.id)


def waiting(
    connection: Connection, clusters: Mapping[str, Cluster], now: datetime, *, singly: Iterable[str] = ()
) -> dict[str, list[Entry]]:
    """What waits at each of some clusters and what their agents do not have; what is in back-off takes nothing.

    At clusters that are read singly each execution has its own place; elsewhere those of one tier and priority stand
    before all others of the same.
    """
    each = sorted({name for name in singly if name in clusters})
    like = [name for name in clusters if name not in set(each)]
    rows = [*connection.execute(_SUMS_OF_LIKE, {"clusters": like, "now": now})] if like else []
    rows += connection.execute(_EACH, {"clusters": each, "now": now}) if each else ()
    lines: dict[str, list[Entry]] = {}
    for name, exclusive, asks, tier, priority, id, *amounts in rows:
        takes = _takes(clusters[name], exclusive, asks is not None, amounts)
        if asks is not None and clusters[name].tells_nodes:
            takes = {**takes, asked_key(asks): amounts[-1]}
        lines.setdefault(name, []).append(Entry(Position.of(tier, priority, id), takes))
    return lines


class Given(NamedTuple):
    """What the agent of a cluster got by a decision."""

    id: int  #: of the execution
    decided_at: datetime
    takes: Amounts


_DECISION = and_(decisions.c.execution_id == _columns.id, decisions.c.number == _columns.decisions)
_GIVEN = (_columns.id, _columns.cluster, _columns.exclusive, ASKS_GRAPH, decisions.c.decided_at)
_GIVEN_SINCE = (
    select(*_GIVEN, *SUMS)
    .join(decisions, _DECISION)
    .where(
        LEASED,
        _columns.cluster.in_(bindparam("clusters", expanding=True)),
        decisions.c.decided_at >= bindparam("since"),
    )
    .group_by(*_GIVEN)
)


def given_since(connection: Connection, clusters: Mapping[str, Cluster], since: datetime) -> dict[str, list[Given]]:
    """What the agents of some clusters have that was decided since a time."""
    given: dict[str, list[Given]] = {}
    rows = connection.execute(_GIVEN_SINCE, {"clusters": list(clusters), "since": since})
    for id, name, exclusive, asks_graph, decided_at, *amounts in rows:
        takes = _takes(clusters[name], exclusive, asks_graph, amounts)
        given.setdefault(name, []).append(Given(id, decided_at, takes))
    return given


def _takes(cluster: Cluster, exclusive: bool, asks_graph: bool, amounts: Iterable[float]) -> Amounts:
    demand = dict(zip((*DEMANDS, "executions"), map(int, amounts), strict=True))
    return cluster.takes(demand, exclusive=exclusive, asks_graph=asks_graph)
