"""Leases: what agents have, what they may have next, and what becomes of it, written all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, bindparam, func, or_, select

from admin.core.executions.attempts import Change
from admin.store.batches import update_all
from admin.store.executions import LEASED, UNLEASED, Event, Execution, ExecutionId, add_events, executions, identity
from admin.store.keys import KeyedQuery

_columns = executions.c
_KEY = (_columns.project, _columns.domain, _columns.name)
#: What a sync needs to know of every lease.
_SMALL = [
    *(_columns.id, _columns.project, _columns.domain, _columns.name),
    *(_columns.cluster, _columns.pool, _columns.label),
    *(_columns.phase, _columns.reason, _columns.reason_message, _columns.attempt, _columns.events),
    *(_columns.created_at, _columns.started_at, _columns.lease_expires_at, _columns.confirmed),
]

# Built once: an agent's sync should cost the database's time, not ours.
_theirs = _columns.cluster == bindparam("cluster")
_some_ones = _columns.cluster.in_(bindparam("clusters", expanding=True))
_LEASED_IDS = select(_columns.id).where(_some_ones, LEASED)
_LEASED = select(*_SMALL).where(_some_ones, LEASED).order_by(_columns.id).with_for_update()
_EXPIRED = (
    select(*_SMALL, _columns.content, _columns.avoid)
    .where(_theirs, LEASED, _columns.lease_expires_at <= bindparam("now"))
    .order_by(_columns.id)
    .limit(bindparam("most"))
    .with_for_update()
)
_HAVE_EXPIRED = (
    select(_columns.cluster).where(_some_ones, LEASED).where(_columns.lease_expires_at <= bindparam("now")).distinct()
)
_may_start = or_(_columns.not_before.is_(None), _columns.not_before <= bindparam("now"))
_OFFERED = (
    select(*_SMALL, _columns.content)
    .where(*UNLEASED, _theirs, _may_start)
    .order_by(_columns.tier, _columns.priority.desc(), _columns.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_NEXT = (
    select(_columns.cluster, func.min(_columns.not_before))
    .where(*UNLEASED, _some_ones, _columns.not_before > bindparam("now"))
    .group_by(_columns.cluster)
)
_these = _columns.id.in_(bindparam("ids", expanding=True))
_DETAILS = select(_columns.id, _columns.content, _columns.avoid).where(_these)
_HELD = select(*_SMALL).where(_these).order_by(_columns.id).with_for_update()
_IDS, _NAMED = KeyedQuery(select(_columns.id), _KEY), KeyedQuery(select(*_SMALL), _KEY)


class LeasedExecution:
    """An execution that this transaction holds, and what becomes of it; `save` writes that."""

    id: int
    project: str
    domain: str
    name: str
    cluster: str | None
    pool: str | None
    label: str | None
    phase: str
    reason: str
    reason_message: str
    attempt: int
    events: int
    created_at: datetime
    started_at: datetime | None
    lease_expires_at: datetime | None
    confirmed: bool
    content: Mapping[str, Any]
    avoid: list[str]

    def __init__(self, names: Iterable[str], values: Iterable[Any]) -> None:
        self.__dict__.update(zip(names, values, strict=True))
        self._new: dict[str, Any] = {}
        self._happened: list[Event] = []

    @property
    def key(self) -> ExecutionId:
        return ExecutionId(project=self.project, domain=self.domain, name=self.name)

    def set(self, **values: Any) -> None:
        """Change something that nobody needs to be told of."""
        self.__dict__.update(values)
        self._new.update(values)

    def apply(self, change: Change, now: datetime) -> None:
        """Let something happen to it."""
        before = self.cluster
        self.set(**change.values, updated_at=now)
        self._tell(change.kind, self.reason, change.values.get("reason_message"), before, now)

    def note(self, kind: str, reason: str, message: str, now: datetime) -> None:
        """Say something in its events that changes nothing else."""
        self._tell(kind, reason, message, self.cluster, now)

    def _tell(self, kind: str, reason: str, message: str | None, cluster: str | None, now: datetime) -> None:
        self.set(events=self.events + 1)
        event = Event(
            number=self.events, at=now, type=kind, phase=self.phase, reason=reason, message=message, cluster=cluster
        )
        self._happened.append(event)


def save(connection: Connection, some: Iterable[LeasedExecution]) -> None:
    """Write what has become of executions: one statement for each set of columns, and one for all that happened."""
    changes: dict[frozenset[str], list[dict[str, Any]]] = {}
    events = []
    for one in {one.id: one for one in some}.values():
        if one._new:
            changes.setdefault(frozenset(one._new), []).append({"id": one.id, **one._new})
            events += [(one.id, event) for event in one._happened]
    for rows in changes.values():
        update_all(connection, executions, rows)
    add_events(connection, events)


def _held(found: CursorResult[Any]) -> list[LeasedExecution]:
    names = tuple(found.keys())
    return [LeasedExecution(names, row) for row in found.all()]


def offered(connection: Connection, cluster: str, now: datetime, limit: int) -> list[LeasedExecution]:
    """What a cluster may have next, in order: tier, priority, age. Those that others hold are left to them."""
    return _held(connection.execute(_OFFERED, {"cluster": cluster, "now": now, "most": limit}))


def leased(connection: Connection, clusters: Sequence[str]) -> list[LeasedExecution]:
    """Everything that the agents of clusters have a lease of, held until the transaction ends."""
    return _held(connection.execute(_LEASED, {"clusters": clusters}))


def reported(connection: Connection, clusters: Sequence[str], named: Iterable[ExecutionId]) -> list[LeasedExecution]:
    """The same together with others that agents report on, all by id: two agents may report on each other's."""
    keys = [(one.project, one.domain, one.name) for one in named]
    ids = {
        *_IDS.execute(connection, keys).scalars(),
        *connection.execute(_LEASED_IDS, {"clusters": clusters}).scalars(),
    }
    return _held(connection.execute(_HELD, {"ids": ids}))


def named(connection: Connection, keys: Iterable[ExecutionId]) -> dict[ExecutionId, Execution]:
    """Some executions by what they are called, not held."""
    wanted = [(one.project, one.domain, one.name) for one in keys]
    if not wanted:
        return {}
    return {identity(row): row for row in _NAMED.execute(connection, wanted)}


def clusters_with_expired(connection: Connection, clusters: Iterable[str], now: datetime) -> list[str]:
    """Those of some clusters whose agents have had something for longer than its lease."""
    wanted = list(clusters)
    return sorted(connection.execute(_HAVE_EXPIRED, {"clusters": wanted, "now": now}).scalars()) if wanted else []


def expired(connection: Connection, cluster: str, now: datetime, limit: int) -> list[LeasedExecution]:
    """What a cluster's agent has had for longer than its lease, in detail, held until the transaction ends."""
    return _held(connection.execute(_EXPIRED, {"cluster": cluster, "now": now, "most": limit}))


def add_details(connection: Connection, some: Iterable[LeasedExecution]) -> None:
    """Learn of executions what only the end or the beginning of an attempt needs."""
    by_id = {one.id: one for one in some}
    if by_id:
        for row in connection.execute(_DETAILS, {"ids": list(by_id)}):
            by_id[row.id].content, by_id[row.id].avoid = row.content, row.avoid


def next_not_before(connection: Connection, clusters: Sequence[str], now: datetime) -> dict[str, datetime]:
    """When the next attempt that backs off may start at each of some clusters."""
    rows = connection.execute(_NEXT, {"clusters": clusters, "now": now}).all() if clusters else []
    return {row[0]: row[1] for row in rows}
