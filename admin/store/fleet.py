"""The fleet: what is defined, what has happened to each cluster, and a number that counts the changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    false,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
)

from admin.core.changes import RowChange
from admin.core.fleet.clusters import ClusterState, Health
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet
from admin.store.batches import update_all
from admin.store.database import RowId, UtcDateTime, insert_new, metadata
from admin.store.dialects.postgresql import take_advisory_lock

#: One row that every change of the fleet increments. A decision locks it shared, so that the fleet stays the same.
fleet_head = Table(
    "fleet_head",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

fleet_definitions = Table(
    "fleet_definitions",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("payload", JSON, nullable=False),
    Column("version", BigInteger, nullable=False),
)

cluster_states = Table(
    "cluster_states",
    metadata,
    Column("name", Text, primary_key=True),
    Column("enabled", Boolean),
    Column("cordoned", Boolean, nullable=False),
    Column("cordon_reason", Text),
    Column("report", JSON, nullable=False),
    Column("reported_at", UtcDateTime),
    Column("health", Text, nullable=False, server_default="expected"),
    Column("admitted", Boolean, nullable=False, server_default=true()),
    Column("draining", Boolean, nullable=False, server_default=false()),
    Column("drain_deadline", UtcDateTime),
    Column("last_sync_at", UtcDateTime),
    Column("agent", Text),
)

cluster_events = Table(
    "cluster_events",
    metadata,
    Column("number", RowId, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("type", Text, nullable=False),
    Column("reason", Text),
    Column("claimed_by", Text),
    Index("ix_cluster_events_cluster_number", "cluster", "number"),
)


@dataclass(frozen=True, kw_only=True)
class ClusterEvent:
    """Something that happened to a cluster."""

    cluster: str
    at: datetime
    type: str
    reason: str | None = None
    claimed_by: str | None = None
    number: int = 0


def number(connection: Connection) -> int:
    """How often the fleet has changed."""
    return int(connection.execute(select(fleet_head.c.number)).scalar_one())


#: PostgreSQL grants shared row locks past a waiting exclusive one, so deciders could starve a change of the fleet. All
#: of them take this advisory lock first, which is granted in order.
FLEET_LOCK = 0x666C656574


def share(connection: Connection) -> int:
    """The same; nobody changes the fleet until this transaction ends. Any number of transactions may share it."""
    take_advisory_lock(connection, FLEET_LOCK, shared=True)
    return int(connection.execute(select(fleet_head.c.number).with_for_update(read=True)).scalar_one())


def lock(connection: Connection) -> int:
    """The same, for a transaction that changes the fleet; waits for those that share it."""
    take_advisory_lock(connection, FLEET_LOCK)
    return int(connection.execute(select(fleet_head.c.number).with_for_update()).scalar_one())


def bump_generation(connection: Connection) -> None:
    """Count a change of the fleet, which invalidates everything cached for its generation."""
    connection.execute(update(fleet_head).values(number=fleet_head.c.number + 1))


def definitions(connection: Connection) -> list[Definition]:
    """Every managed definition."""
    return [
        Definition(
            kind=FleetKind(row.kind), name=row.name, payload=row.payload, source=Source.MANAGED, version=row.version
        )
        for row in connection.execute(select(fleet_definitions))
    ]


def some(connection: Connection, keys: Iterable[tuple[FleetKind, str]]) -> dict[tuple[FleetKind, str], Definition]:
    """Those of some definitions that are managed."""
    wanted = [(kind.value, name) for kind, name in keys]
    if not wanted:
        return {}
    return {
        (FleetKind(row.kind), row.name): Definition(
            kind=FleetKind(row.kind), name=row.name, payload=row.payload, source=Source.MANAGED, version=row.version
        )
        for row in connection.execute(_SOME, {"keys": wanted})
    }


_SOME = select(fleet_definitions).where(
    tuple_(fleet_definitions.c.kind, fleet_definitions.c.name).in_(bindparam("keys", expanding=True))
)


def write(connection: Connection, changes: list[RowChange], version: int) -> None:
    """Store changed definitions, and delete those that are to go."""
    if changes:
        lock(connection)
    for change in changes:
        mine = (fleet_definitions.c.kind == change.kind) & (fleet_definitions.c.name == change.name)
        if change.after is None:
            connection.execute(delete(fleet_definitions).where(mine))
            continue
        values = {"payload": change.after, "version": version}
        if change.before is None:
            connection.execute(insert(fleet_definitions).values(kind=change.kind, name=change.name, **values))
        else:
            connection.execute(update(fleet_definitions).where(mine).values(**values))
    if changes:
        bump_generation(connection)


def states(connection: Connection) -> dict[str, ClusterState]:
    """What has happened to every cluster that anything has happened to."""
    return {row.name: ClusterState(**row._mapping) for row in connection.execute(select(cluster_states))}


def state(connection: Connection, name: str, *, lock: bool = True) -> ClusterState:
    """What has happened to one cluster; with `lock` nobody else changes it until this transaction ends."""
    found = select(cluster_states).where(cluster_states.c.name == name)
    row = connection.execute(found.with_for_update() if lock else found).one_or_none()
    return ClusterState(name=name) if row is None else ClusterState(**row._mapping)


def hold_states(connection: Connection, names: Iterable[str]) -> dict[str, ClusterState]:
    """What has happened to some clusters, which nobody else changes until this transaction ends."""
    wanted = list(names)
    found = connection.execute(_HELD, {"names": wanted})
    return {
        **{name: ClusterState(name=name) for name in wanted},
        **{row.name: ClusterState(**row._mapping) for row in found},
    }


def last_syncs(connection: Connection) -> dict[str, datetime | None]:
    """The time of the last sync of each cluster's agent."""
    return {row[0]: row[1] for row in connection.execute(_SELECT_LAST_SYNCS)}


def silent(connection: Connection, unreachable: datetime, lost: datetime) -> list[str]:
    """The clusters that were last heard before these times, and are not thought to be unreachable or lost yet."""
    return list(connection.execute(_SILENT, {"unreachable": unreachable, "lost": lost}).scalars())


def lost(connection: Connection) -> list[str]:
    """The clusters that are lost."""
    return list(connection.execute(_LOST).scalars())


def to_be_drained_by(connection: Connection, now: datetime) -> list[str]:
    """The clusters whose drain should be over."""
    return list(connection.execute(_TO_BE_DRAINED, {"now": now}).scalars())


def clusters_defined_above(connection: Connection, version: int) -> dict[str, int]:
    """The clusters that were defined anew by revisions above a number, and by which."""
    return {row[0]: row[1] for row in connection.execute(_DEFINED_ABOVE, {"above": version})}


_HELD = (
    select(cluster_states)
    .where(cluster_states.c.name.in_(bindparam("names", expanding=True)))
    .order_by(cluster_states.c.name)
    .with_for_update()
)
_SELECT_LAST_SYNCS = select(cluster_states.c.name, cluster_states.c.last_sync_at)
_health, _last_sync_at = cluster_states.c.health, cluster_states.c.last_sync_at
_SILENT = select(cluster_states.c.name).where(
    _health != Health.LOST.value,
    or_(
        _last_sync_at < bindparam("lost"),
        and_(_last_sync_at < bindparam("unreachable"), _health != Health.UNREACHABLE.value),
    ),
)
_LOST = select(cluster_states.c.name).where(_health == Health.LOST.value)
_TO_BE_DRAINED = select(cluster_states.c.name).where(
    cluster_states.c.draining, cluster_states.c.drain_deadline <= bindparam("now")
)
_DEFINED_ABOVE = select(fleet_definitions.c.name, fleet_definitions.c.version).where(
    fleet_definitions.c.kind == FleetKind.CLUSTER.value, fleet_definitions.c.version > bindparam("above")
)


def hold(connection: Connection, names: Iterable[str]) -> None:
    """Hold some clusters, so that only one at a time counts what is free on them."""
    wanted = sorted(names)
    insert_new(connection, cluster_states, [{"name": name, "cordoned": False, "report": {}} for name in wanted])
    found = select(cluster_states.c.name).where(cluster_states.c.name.in_(wanted))
    connection.execute(found.order_by(cluster_states.c.name).with_for_update()).all()


def hold_back(connection: Connection, name: str) -> None:
    """Let a cluster of which nothing is known wait for an operator."""
    insert_new(connection, cluster_states, [{"name": name, "cordoned": False, "report": {}, "admitted": False}])


def save(connection: Connection, found: ClusterState, event: ClusterEvent, *, counts: bool = True) -> None:
    """Store what has happened to a cluster; it `counts` unless no decision can depend on it."""
    mine = cluster_states.c.name == found.name
    if connection.execute(update(cluster_states).where(mine).values(**vars(found))).rowcount == 0:
        connection.execute(insert(cluster_states).values(**vars(found)))
    values = {name: value for name, value in vars(event).items() if name != "number"}
    connection.execute(insert(cluster_events).values(**values))
    if counts:
        bump_generation(connection)


def touch(connection: Connection, some: Iterable[ClusterState]) -> None:
    """Note that the agents of clusters were heard, which does not change the fleet."""
    rows = [{"name": one.name, "last_sync_at": one.last_sync_at, "agent": one.agent} for one in some]
    update_all(connection, cluster_states, rows, key="name")


def forget(connection: Connection, names: Iterable[str]) -> None:
    """Forget the state of clusters that are gone."""
    connection.execute(delete(cluster_states).where(cluster_states.c.name.in_(list(names))))


def lose(connection: Connection, names: Iterable[str]) -> None:
    """Forget everything of some clusters but that they are lost."""
    values: dict[str, Any] = {
        "health": Health.LOST.value,
        "enabled": None,
        "cordoned": False,
        "cordon_reason": None,
        "report": {},
    }
    values |= {"reported_at": None, "draining": False, "drain_deadline": None, "agent": None}
    connection.execute(update(cluster_states).where(cluster_states.c.name.in_(list(names))).values(**values))


def events(connection: Connection, cluster: str, below: int | None, limit: int) -> list[ClusterEvent]:
    """What happened to a cluster, newest first, from below a number on."""
    found = select(cluster_events).where(cluster_events.c.cluster == cluster)
    if below is not None:
        found = found.where(cluster_events.c.number < below)
    rows = connection.execute(found.order_by(cluster_events.c.number.desc()).limit(limit))
    return [ClusterEvent(**row._mapping) for row in rows]


class FleetCache:
    """The fleet as it was last read, for as long as its number stays the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Fleet | None = None

    @property
    def last(self) -> Fleet | None:
        """The fleet as this process knows it; whoever decides by it must see that it is still so."""
        return self._last

    def at(self, wanted: int, build: Callable[[], Fleet], *, keep: bool) -> Fleet:
        """The fleet of a number; read anew if the last one was another.

        `keep` only what others may see: a transaction that writes may still be taken back.
        """
        last = self._last
        if last is not None and last.number == wanted:
            return last
        found = build()
        if not keep:
            return found
        with self._lock:
            if self._last is None or self._last.number < found.number:
                self._last = found
        return found
