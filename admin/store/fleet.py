"""The fleet: what is defined, the state of each cluster, and the generation, which counts the changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from admin.core.changes import LastChange, RowChange
from admin.core.fleet.clusters import ClusterState, Health
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.fleet import Fleet
from admin.store.batches import update_all
from admin.store.cluster_events import ClusterEvent, add_event, add_events
from admin.store.database import insert_new
from admin.store.dialects.postgresql import AHEAD, advisory_lock
from admin.store.fleet_tables import cluster_states, fleet_definitions, fleet_head
from admin.store.keys import KeyedQuery
from admin.store.sql_types import AnyRow, build


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


_TAKE_LOCK = {AHEAD: f"SELECT {advisory_lock(FLEET_LOCK)}"}
_SHARE = _SELECT_GENERATION.with_for_update(read=True).execution_options(
    **{AHEAD: f"SELECT {advisory_lock(FLEET_LOCK, shared=True)}"}
)
_LOCK = _SELECT_GENERATION.with_for_update().execution_options(**_TAKE_LOCK)
_BUMP = update(fleet_head).values(number=fleet_head.c.number + 1)
_LOCK_AND_BUMP = _BUMP.execution_options(**_TAKE_LOCK)


def share(connection: Connection) -> int:
    """The fleet's generation under a shared lock: the fleet cannot change until this transaction ends."""
    return int(connection.execute(_SHARE).scalar_one())


def lock(connection: Connection) -> int:
    """The fleet's generation under an exclusive lock, for a transaction that changes the fleet."""
    return int(connection.execute(_LOCK).scalar_one())


def bump_generation(connection: Connection) -> None:
    """Count a change of the fleet, which invalidates everything cached for its generation."""
    connection.execute(_BUMP)


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
    last_change = None if row.updated_at is None else LastChange(row.updated_at, row.updated_by, row.claimed_by)
    return build(Definition, row, kind=FleetKind(row.kind), source=Source.MANAGED, last_change=last_change)


_SELECT_DEFINITIONS = KeyedQuery(select(fleet_definitions), [fleet_definitions.c.kind, fleet_definitions.c.name])


_is_definition = (
    fleet_definitions.c.kind == bindparam("of_kind"),
    fleet_definitions.c.name == bindparam("of_name"),
)
_INSERT_DEFINITION = insert(fleet_definitions)
_UPDATE_DEFINITION = (
    update(fleet_definitions)
    .where(*_is_definition)
    .values({name: bindparam(name) for name in ("payload", "version", *LastChange._fields)})
)
_DELETE_DEFINITION = delete(fleet_definitions).where(*_is_definition)


def write(connection: Connection, changes: list[RowChange], version: int, last_change: LastChange) -> None:
    """Store changed definitions, with when and by whom, and delete removed ones."""
    if changes:
        connection.execute(_LOCK_AND_BUMP)
    for change in changes:
        key = {"of_kind": change.kind, "of_name": change.name}
        values = {"payload": change.after, "version": version, **last_change._asdict()}
        if change.after is None:
            connection.execute(_DELETE_DEFINITION, key)
        elif change.before is None:
            connection.execute(_INSERT_DEFINITION, {"kind": change.kind, "name": change.name, **values})
        else:
            connection.execute(_UPDATE_DEFINITION, {**key, **values})


def states(connection: Connection, names: Iterable[str] | None = None) -> dict[str, ClusterState]:
    """The states of some clusters, or of all, that have one."""
    rows = connection.execute(_ALL_STATES) if names is None else connection.execute(_STATES, {"names": list(names)})
    return {row.name: ClusterState(**row._mapping) for row in rows}


_ALL_STATES = select(cluster_states)
_STATES = _ALL_STATES.where(cluster_states.c.name.in_(bindparam("names", expanding=True)))


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
    _add_states(connection, clusters)
    hold_states(connection, clusters)


def hold_back(connection: Connection, name: str) -> None:
    """Have a new cluster wait for an operator to admit it."""
    _add_states(connection, [name])
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


#: What switches change of a cluster's state.
_SWITCHED = ("name", "enabled", "cordoned", "cordon_reason", "draining", "drain_deadline", "admitted")


def save_switched(connection: Connection, switched: Iterable[ClusterState], events: Iterable[ClusterEvent]) -> None:
    """Store what operators have done to clusters."""
    rows = [{name: getattr(state, name) for name in _SWITCHED} for state in switched]
    if rows:
        _add_states(connection, (str(row["name"]) for row in rows))
        update_all(connection, cluster_states, rows, key="name")
        add_events(connection, events)
        bump_generation(connection)


def _add_states(connection: Connection, names: Iterable[str]) -> None:
    """Give clusters a row that have none."""
    insert_new(connection, cluster_states, [{"name": name, "cordoned": False, "report": {}} for name in names])


#: What every sync changes of a cluster's state.
_TOUCHED = ("name", "last_sync_at", "agent", "agent_instance", "agent_host", "agent_since", "can_bid", "syncs")


def touch(connection: Connection, synced: Iterable[ClusterState]) -> None:
    """Store the last syncs of clusters, which does not change the fleet."""
    rows = [{name: getattr(state, name) for name in _TOUCHED} for state in synced]
    update_all(connection, cluster_states, rows, key="name")


def keep_told(connection: Connection, states: Iterable[ClusterState]) -> None:
    """Store what the agents of clusters were told to end and to answer, which does not change the fleet."""
    rows = [{name: getattr(state, name) for name in ("name", "ending", "asked")} for state in states]
    update_all(connection, cluster_states, rows, "name")


def forget(connection: Connection, names: Iterable[str]) -> None:
    """Reset the states of clusters; when and how often they synced stays, for an agent that remembers may come back."""
    _reset(connection, names)


def lose(connection: Connection, names: Iterable[str]) -> None:
    """Mark clusters as lost, and reset the rest of their states."""
    clusters = sorted(names)
    _add_states(connection, clusters)
    _reset(connection, clusters, "admitted", health=Health.LOST.value)


def renew(connection: Connection, names: Iterable[str]) -> None:
    """Expect the agents of clusters that were deleted and are defined again."""
    _reset(connection, names, "admitted")


def _reset(connection: Connection, names: Iterable[str], *kept: str, **more: object) -> None:
    """Give clusters the state of a new one, but for the columns that are kept and those that are given.

    That an agent was heard, how often and when, is true of every later cluster of that name.
    """
    new = vars(ClusterState(name=""))
    values = {name: value for name, value in new.items() if name not in ("name", "syncs", "last_sync_at", *kept)}
    values |= more
    connection.execute(update(cluster_states).where(cluster_states.c.name.in_(list(names))).values(**values))


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
