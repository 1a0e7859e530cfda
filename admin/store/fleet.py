"""The fleet: what is defined, what has happened to each cluster, and the generation, which counts the changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Table,
    Text,
    bindparam,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    text,
    true,
    update,
)

from admin.core.changes import ANONYMOUS, RowChange
from admin.core.fleet.clusters import END_EVENTS, REPORTED, STATE_EVENTS, SWITCHES, ClusterState, Health
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet
from admin.core.provenance import Provenance
from admin.store.batches import update_all
from admin.store.database import RowId, UtcDateTime, head_table, insert_new, metadata
from admin.store.dialects.postgresql import take_advisory_lock
from admin.store.keys import KeyedQuery
from admin.store.sql_types import AnyRow

#: The fleet's generation. A decision locks its row shared, so that the fleet stays the same.
fleet_head = head_table("fleet_head")

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
    Column("agent_instance", Text, nullable=False, server_default=""),
    Column("agent_host", Text, nullable=False, server_default=""),
    Column("agent_since", UtcDateTime),
    Column("syncs", BigInteger, nullable=False, server_default="0"),
    Column("ending", JSON, nullable=False, server_default="[]"),  # what the agent was told to end, and still has
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
    Index("ix_cluster_events_cluster_type_number", "cluster", "type", "number"),
)
#: What the timeline shows is found among the many reports by this index.
_NO_REPORT = f"type <> '{REPORTED}'"
Index(
    "ix_cluster_events_no_report",
    cluster_events.c.number,
    postgresql_where=text(_NO_REPORT),
    sqlite_where=text(_NO_REPORT),
)


@dataclass(frozen=True, kw_only=True)
class ClusterEvent:
    """Something that happened to a cluster; or in the admin, to no cluster."""

    cluster: str = ""
    at: datetime
    type: str
    reason: str | None = None
    claimed_by: str | None = None
    number: int = 0

    @property
    def author(self) -> str | None:
        """Who did it, as far as that is known; None for what the admin and agents do by themselves."""
        return ANONYMOUS if self.claimed_by or self.type in SWITCHES else None

    @property
    def provenance(self) -> Provenance:
        """What is said of a state that it led to."""
        return Provenance(
            event=self.number,
            author=self.author or ANONYMOUS,
            claimed_by=self.claimed_by,
            at=self.at,
            message=self.reason,
        )


class HeardCluster(NamedTuple):
    """When a cluster's agent was heard last, and the cluster's health."""

    last_sync_at: datetime | None
    health: str


_SELECT_GENERATION = select(fleet_head.c.number)


def generation(connection: Connection) -> int:
    """How often the fleet has changed."""
    return int(connection.execute(_SELECT_GENERATION).scalar_one())


#: PostgreSQL grants shared row locks past a waiting exclusive one, so deciders could starve a change of the fleet. All
#: of them take this advisory lock first, which is granted in order.
FLEET_LOCK = 0x666C656574


def share(connection: Connection) -> int:
    """The fleet's generation under a shared lock: the fleet cannot change until this transaction ends."""
    take_advisory_lock(connection, FLEET_LOCK, shared=True)
    return int(connection.execute(select(fleet_head.c.number).with_for_update(read=True)).scalar_one())


def lock(connection: Connection) -> int:
    """The fleet's generation under an exclusive lock, for a transaction that changes the fleet."""
    take_advisory_lock(connection, FLEET_LOCK)
    return int(connection.execute(select(fleet_head.c.number).with_for_update()).scalar_one())


def bump_generation(connection: Connection) -> None:
    """Count a change of the fleet, which invalidates everything cached for its generation."""
    connection.execute(update(fleet_head).values(number=fleet_head.c.number + 1))


def definitions(connection: Connection) -> list[Definition]:
    """Every managed definition."""
    return list(map(_definition, connection.execute(select(fleet_definitions))))


def get_definitions(
    connection: Connection, keys: Iterable[tuple[FleetKind, str]]
) -> dict[tuple[FleetKind, str], Definition]:
    """The managed definitions of those with some keys."""
    rows = _SELECT_DEFINITIONS.execute(connection, [(kind.value, name) for kind, name in keys])
    return {(definition.kind, definition.name): definition for definition in map(_definition, rows)}


def _definition(row: AnyRow) -> Definition:
    return Definition(
        kind=FleetKind(row.kind), name=row.name, payload=row.payload, source=Source.MANAGED, version=row.version
    )


_SELECT_DEFINITIONS = KeyedQuery(select(fleet_definitions), [fleet_definitions.c.kind, fleet_definitions.c.name])


def write(connection: Connection, changes: list[RowChange], version: int) -> None:
    """Store changed definitions, and delete removed ones."""
    if changes:
        lock(connection)
    for change in changes:
        is_definition = (fleet_definitions.c.kind == change.kind) & (fleet_definitions.c.name == change.name)
        if change.after is None:
            connection.execute(delete(fleet_definitions).where(is_definition))
            continue
        values = {"payload": change.after, "version": version}
        if change.before is None:
            connection.execute(insert(fleet_definitions).values(kind=change.kind, name=change.name, **values))
        else:
            connection.execute(update(fleet_definitions).where(is_definition).values(**values))
    if changes:
        bump_generation(connection)


def states(connection: Connection, names: Iterable[str] | None = None) -> dict[str, ClusterState]:
    """The states of some clusters, or of all, that have one."""
    query = select(cluster_states)
    if names is not None:
        query = query.where(cluster_states.c.name.in_(list(names)))
    return {row.name: ClusterState(**row._mapping) for row in connection.execute(query)}


def hold_state(connection: Connection, name: str) -> ClusterState:
    """The state of a cluster, whose row is locked until this transaction ends."""
    return hold_states(connection, [name])[name]


def hold_states(connection: Connection, names: Iterable[str]) -> dict[str, ClusterState]:
    """The states of clusters, whose rows are locked until this transaction ends."""
    clusters = list(names)
    rows = connection.execute(_LOCK_STATES, {"names": clusters})
    return {
        **{name: ClusterState(name=name) for name in clusters},
        **{row.name: ClusterState(**row._mapping) for row in rows},
    }


def heard(connection: Connection, names: Iterable[str] | None = None) -> dict[str, HeardCluster]:
    """When each cluster's agent was heard, or those of some, and what its health is."""
    query = _SELECT_HEARD if names is None else _SELECT_HEARD.where(cluster_states.c.name.in_(list(names)))
    return {row[0]: HeardCluster(*row[1:]) for row in connection.execute(query)}


def to_be_drained_by(connection: Connection, now: datetime) -> list[str]:
    """The draining clusters whose deadline has passed."""
    return list(connection.execute(_TO_BE_DRAINED, {"now": now}).scalars())


def clusters_defined_above(connection: Connection, version: int) -> dict[str, int]:
    """The clusters that revisions above a number defined, with that revision."""
    return {row[0]: row[1] for row in connection.execute(_DEFINED_ABOVE, {"above": version})}


_LOCK_STATES = (
    select(cluster_states)
    .where(cluster_states.c.name.in_(bindparam("names", expanding=True)))
    .order_by(cluster_states.c.name)
    .with_for_update()
)
_SELECT_HEARD = select(cluster_states.c.name, *(cluster_states.c[name] for name in HeardCluster._fields))
_TO_BE_DRAINED = select(cluster_states.c.name).where(
    cluster_states.c.draining, cluster_states.c.drain_deadline <= bindparam("now")
)
_DEFINED_ABOVE = select(fleet_definitions.c.name, fleet_definitions.c.version).where(
    fleet_definitions.c.kind == FleetKind.CLUSTER.value, fleet_definitions.c.version > bindparam("above")
)


def hold(connection: Connection, names: Iterable[str]) -> None:
    """Lock the rows of clusters, so that one transaction at a time counts what is free on them."""
    clusters = sorted(names)
    insert_new(connection, cluster_states, [{"name": name, "cordoned": False, "report": {}} for name in clusters])
    hold_states(connection, clusters)


def hold_back(connection: Connection, name: str) -> None:
    """Have a new cluster wait for an operator to admit it."""
    insert_new(connection, cluster_states, [{"name": name, "cordoned": False, "report": {}}])
    connection.execute(update(cluster_states).where(cluster_states.c.name == name).values(admitted=False))


def save(
    connection: Connection, state: ClusterState, event: ClusterEvent, *, may_change_decisions: bool = True
) -> None:
    """Store what has happened to a cluster."""
    is_cluster = cluster_states.c.name == state.name
    if connection.execute(update(cluster_states).where(is_cluster).values(**vars(state))).rowcount == 0:
        connection.execute(insert(cluster_states).values(**vars(state)))
    add_event(connection, event)
    if may_change_decisions:
        bump_generation(connection)


def add_event(connection: Connection, event: ClusterEvent) -> None:
    """Store something that happened to a cluster."""
    add_events(connection, [event])


def add_events(connection: Connection, events: Iterable[ClusterEvent]) -> None:
    """Store what happened to clusters."""
    rows = [{name: value for name, value in vars(event).items() if name != "number"} for event in events]
    if rows:
        connection.execute(insert(cluster_events), rows)


def add_numbered_event(connection: Connection, event: ClusterEvent) -> int:
    """Store something that happened; returns its number."""
    values = {name: value for name, value in vars(event).items() if name != "number"}
    key = connection.execute(insert(cluster_events).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def complete_event(connection: Connection, number: int, reason: str) -> None:
    """Say in an event what has come of it."""
    connection.execute(update(cluster_events).where(cluster_events.c.number == number).values(reason=reason))


#: What every sync changes of a cluster's state.
_TOUCHED = ("name", "last_sync_at", "agent", "agent_instance", "agent_host", "agent_since", "syncs")


def touch(connection: Connection, synced: Iterable[ClusterState]) -> None:
    """Store the last syncs of clusters, which does not change the fleet."""
    rows = [{name: getattr(state, name) for name in _TOUCHED} for state in synced]
    update_all(connection, cluster_states, rows, key="name")


def keep_ending(connection: Connection, states: Iterable[ClusterState]) -> None:
    """Store what the agents of clusters were told to end, which does not change the fleet."""
    update_all(connection, cluster_states, [{"name": state.name, "ending": state.ending} for state in states], "name")


def forget(connection: Connection, names: Iterable[str]) -> None:
    """Reset the states of clusters; how many syncs were stored stays, for an agent that remembers it may come back."""
    _reset(connection, names)


def lose(connection: Connection, names: Iterable[str]) -> None:
    """Mark clusters as lost, and reset the rest of their states."""
    _reset(connection, names, "admitted", "last_sync_at", health=Health.LOST.value)


def _reset(connection: Connection, names: Iterable[str], *kept: str, **more: object) -> None:
    """Give clusters the state of a new one, but for the columns that are kept and those that are given."""
    new = vars(ClusterState(name=""))
    values = {name: value for name, value in new.items() if name not in ("name", "syncs", *kept)} | more
    connection.execute(update(cluster_states).where(cluster_states.c.name.in_(list(names))).values(**values))


@dataclass(frozen=True, kw_only=True)
class ClusterEventFilter:
    """Which events of clusters a list contains; None for any."""

    cluster: str | None = None
    types: Sequence[str] | None = None
    of_clusters: bool = False  #: without those of no cluster
    actor: str | None = None  #: the author, verified or claimed
    after: datetime | None = None
    before: datetime | None = None
    without_reports: bool = False  #: an agent makes one at each change of its load


def events(connection: Connection, filters: ClusterEventFilter, below: int | None, limit: int) -> list[ClusterEvent]:
    """Events of clusters, newest first, below a number if one is given."""
    query = select(cluster_events)
    if filters.cluster is not None:
        query = query.where(cluster_events.c.cluster == filters.cluster)
    if filters.actor == ANONYMOUS:
        query = query.where(or_(cluster_events.c.claimed_by.is_not(None), cluster_events.c.type.in_(SWITCHES)))
    elif filters.actor is not None:
        query = query.where(cluster_events.c.claimed_by == filters.actor)
    if filters.types is not None:
        query = query.where(cluster_events.c.type.in_(filters.types))
    if filters.of_clusters:
        query = query.where(cluster_events.c.cluster != "")
    if filters.without_reports:
        query = query.where(text(_NO_REPORT))
    if filters.after is not None:
        query = query.where(cluster_events.c.at >= filters.after)
    if filters.before is not None:
        query = query.where(cluster_events.c.at < filters.before)
    if below is not None:
        query = query.where(cluster_events.c.number < below)
    rows = connection.execute(query.order_by(cluster_events.c.number.desc()).limit(limit))
    return [ClusterEvent(**row._mapping) for row in rows]


def count_reports(connection: Connection, cluster: str, above: int | None, below: int | None) -> int:
    """How many reports of a cluster are among the events between two numbers."""
    query = select(func.count()).where(cluster_events.c.cluster == cluster, cluster_events.c.type == REPORTED)
    if above is not None:
        query = query.where(cluster_events.c.number > above)
    if below is not None:
        query = query.where(cluster_events.c.number < below)
    return int(connection.execute(query).scalar_one())


def newest_names(connection: Connection, limit: int) -> set[str]:
    """The names that callers gave of those who caused the newest events, reports of agents aside."""
    query = select(cluster_events.c.claimed_by).where(text(_NO_REPORT))
    names = connection.execute(query.order_by(cluster_events.c.number.desc()).limit(limit)).scalars()
    return {name for name in names if name}


def switched_by(
    connection: Connection, clusters: Mapping[str, Sequence[str]], until: datetime
) -> dict[tuple[str, str], Provenance]:
    """The events up to a time that set the states of clusters, by cluster and state.

    Events that are no longer kept are left out.
    """
    switched: dict[tuple[str, str], Provenance] = {}
    for state, names in clusters.items():
        for event in _last_events(connection, names, STATE_EVENTS[state], END_EVENTS[state], until):
            switched[event.cluster, state] = event.provenance
    return switched


def begun_apart(connection: Connection, name: str, states: Iterable[str], until: datetime) -> dict[str, Provenance]:
    """The events up to a time that began some states of a cluster and no other one, and that nothing has ended since.

    A drain cordons a cluster too, and is not among those that cordoned it.
    """
    own = {state: STATE_EVENTS[state][:1] for state in states}
    begun = {state: _last_events(connection, [name], types, END_EVENTS[state], until) for state, types in own.items()}
    return {state: events[0].provenance for state, events in begun.items() if events}


def _last_events(
    connection: Connection, names: Sequence[str], begins: Sequence[str], ends: Sequence[str], until: datetime
) -> list[ClusterEvent]:
    """The last of the events of each cluster that begin or end something, of those where it begins it."""
    if not names:
        return []
    values = {"names": list(names), "types": [*begins, *ends], "until": until}
    numbers = [number for number in connection.execute(_LAST_EVENTS, values).scalars() if number is not None]
    rows = connection.execute(_SELECT_EVENTS, {"numbers": numbers})
    return [ClusterEvent(**row._mapping) for row in rows if row.type in begins]


#: The sum keeps databases from walking back over all events of a cluster in search of the largest number.
_LAST_EVENTS = select(
    select(func.max(cluster_events.c.number + 0))
    .where(
        cluster_events.c.cluster == cluster_states.c.name,
        cluster_events.c.type.in_(bindparam("types", expanding=True)),
        cluster_events.c.at <= bindparam("until"),
    )
    .scalar_subquery()
).where(cluster_states.c.name.in_(bindparam("names", expanding=True)))
_SELECT_EVENTS = select(cluster_events).where(cluster_events.c.number.in_(bindparam("numbers", expanding=True)))


class FleetCache:
    """The fleet as it was last read, for as long as its generation stays the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Fleet | None = None

    @property
    def last(self) -> Fleet | None:
        """The fleet that was read last; a decision by it must check that it is still the current one."""
        return self._last

    def at(self, generation: int, build: Callable[[], Fleet], *, keep: bool) -> Fleet:
        """The fleet at a generation, built if another one is cached.

        `keep` it only if it is committed: a transaction that writes may still be rolled back.
        """
        last = self._last
        if last is not None and last.generation == generation:
            return last
        built = build()
        if keep:
            with self._lock:
                if self._last is None or self._last.generation < built.generation:
                    self._last = built
        return built
