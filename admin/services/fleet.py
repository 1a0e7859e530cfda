"""The fleet: clusters, pools and labels defined, changed and taken away; clusters switched and reporting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.fields import read
from admin.core.fleet.cluster_reports import REPORT
from admin.core.fleet.clusters import Cluster, ClusterState
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.groups import Group
from admin.core.placement.candidates import free_amounts
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.resources import Amounts
from admin.core.settings.writes import Expectation
from admin.errors import AlreadyExists, ClusterNotFound, LabelNotFound, NotFound, PoolNotFound, VersionConflict
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.fleet import definition_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.store import executions, fleet
from admin.store.fleet import ClusterEvent

_NOT_FOUND: Mapping[FleetKind, type[NotFound]] = {
    FleetKind.CLUSTER: ClusterNotFound,
    FleetKind.POOL: PoolNotFound,
    FleetKind.LABEL: LabelNotFound,
}


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A cluster with what is known of it right now."""

    cluster: Cluster
    pools: list[str]
    labels: list[str]
    waiting: int
    running: int
    leases: int
    free: Amounts | None


def list_groups(context: Context, kind: FleetKind) -> list[Group]:
    """Every pool, or every label, by name."""
    with context.database.reading() as connection:
        return list(_groups(current_fleet(context, connection), kind).values())


def get_group(context: Context, kind: FleetKind, name: str) -> Group:
    """One pool or label."""
    with context.database.reading() as connection:
        known = _groups(current_fleet(context, connection), kind)
    if name not in known:
        raise not_found(kind, name, known)
    return known[name]


def _groups(found: Fleet, kind: FleetKind) -> Mapping[str, Group]:
    return found.pools if kind is FleetKind.POOL else found.labels


def not_found(kind: FleetKind, name: str, known: Mapping[str, Any]) -> NotFound:
    """The error for something that the fleet does not have."""
    near = closest(name, known)
    return _NOT_FOUND[kind](
        f"No {kind.noun} is called '{shorten(name)}'.{did_you_mean(near)} `rainbowctl get {kind.noun}` lists them.",
        details=[{"field": "name", "reason": "is unknown.", "closest": list(near)}],
    )


def list_clusters(context: Context, *, pool: str | None = None, label: str | None = None) -> list[ClusterView]:
    """Every cluster, declared or expected, by name; perhaps only those of a pool or a label."""
    with context.database.reading() as connection:
        found = current_fleet(context, connection)
        wanted = set(found.clusters)
        if pool is not None:
            if pool not in found.pools:
                raise not_found(FleetKind.POOL, pool, found.pools)
            wanted &= {one.cluster for one in found.pools[pool].members}
        if label is not None:
            group = found.label(label)
            if group is None:
                raise not_found(FleetKind.LABEL, label, found.labels)
            wanted &= {one.cluster for one in group.members}
        return _views(connection, found, [one for one in found.clusters.values() if one.name in wanted])


def get_cluster(context: Context, name: str) -> ClusterView:
    """One cluster."""
    with context.database.reading() as connection:
        found = current_fleet(context, connection)
        return _views(connection, found, [_known(found, name)])[0]


def _known(found: Fleet, name: str) -> Cluster:
    if name not in found.clusters:
        raise not_found(FleetKind.CLUSTER, name, found.clusters)
    return found.clusters[name]


def _views(connection: Connection, found: Fleet, clusters: list[Cluster]) -> list[ClusterView]:
    counts = executions.counts_by_cluster(connection)
    leases = executions.leases_by_cluster(connection)
    states = fleet.states(connection)  # an agent that was heard again has not changed the fleet
    clusters = [one.with_state(states[one.name]) if one.name in states else one for one in clusters]
    waiting = executions.demand_waiting(connection, [one.name for one in clusters])
    groups: dict[str, tuple[list[str], list[str]]] = {one.name: ([], []) for one in clusters}
    for index, kind in enumerate((found.pools, found.labels)):
        for name, group in kind.items():
            for member in group.members:
                if member.cluster in groups:
                    groups[member.cluster][index].append(name)
    return [
        ClusterView(
            cluster=one,
            pools=groups[one.name][0],
            labels=groups[one.name][1],
            waiting=counts.get((one.name, "QUEUED"), 0),
            running=counts.get((one.name, "RUNNING"), 0) + counts.get((one.name, "ABORTING"), 0),
            leases=leases.get(one.name, 0),
            free=free_amounts(one, waiting),
        )
        for one in clusters
    ]


def create_definition(
    context: Context, kind: FleetKind, name: str, payload: dict[str, Any], options: ChangeOptions
) -> Changed:
    """A new cluster, pool or label; AlreadyExists where the name is taken."""
    try:
        return put_definition(context, kind, name, payload, Expectation(absent=True), options)
    except VersionConflict as conflict:
        raise AlreadyExists(
            f"A {kind.noun} called '{name}' exists already. Update it instead, or choose another name.",
            details=[{"field": f"{kind.noun}.name", "reason": "is taken."}],
        ) from conflict


def put_definition(
    context: Context,
    kind: FleetKind,
    name: str,
    payload: dict[str, Any],
    expectation: Expectation,
    options: ChangeOptions,
) -> Changed:
    """A cluster, pool or label as given, whether it was there before or not."""
    return make_change(context, [definition_write(context, kind, name, payload, expectation)], options)


def delete_definition(
    context: Context, kind: FleetKind, name: str, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Take a cluster, pool or label away; InUse where others need it and force is not meant."""
    return make_change(context, [definition_write(context, kind, name, None, expectation)], options)


def set_enabled(
    context: Context, name: str, enabled: bool, reason: str | None, claimed_by: str | None
) -> tuple[ClusterView, bool]:
    """Let a cluster take part, or not; answers whether that changed anything."""
    event = ClusterEvent(
        cluster=name,
        at=context.clock(),
        type="ENABLED" if enabled else "DISABLED",
        reason=reason,
        claimed_by=claimed_by,
    )
    return _switch(context, event, lambda one: None if one.enabled is enabled else replace(one.state, enabled=enabled))


def set_cordoned(
    context: Context, name: str, cordoned: bool, reason: str | None, claimed_by: str | None
) -> tuple[ClusterView, bool]:
    """Give a cluster no new work, or work again; answers whether that changed anything."""
    event = ClusterEvent(
        cluster=name,
        at=context.clock(),
        type="CORDONED" if cordoned else "UNCORDONED",
        reason=reason,
        claimed_by=claimed_by,
    )

    def switched(one: Cluster) -> ClusterState | None:
        why = reason if cordoned else None
        if one.cordoned is cordoned and why in (None, one.state.cordon_reason):
            return None
        switched = replace(one.state, cordoned=cordoned, cordon_reason=why)
        return switched if cordoned else replace(switched, draining=False, drain_deadline=None)

    return _switch(context, event, switched)


def set_draining(
    context: Context,
    name: str,
    draining: bool,
    deadline: datetime | None,
    reason: str | None,
    claimed_by: str | None,
) -> tuple[ClusterView, bool]:
    """Move everything off a cluster, by a deadline if there is one; or give it work again."""
    event = ClusterEvent(
        cluster=name,
        at=context.clock(),
        type="DRAINING" if draining else "UNDRAINED",
        reason=reason,
        claimed_by=claimed_by,
    )

    def switched(one: Cluster) -> ClusterState | None:
        if one.state.draining is draining and deadline in (None, one.state.drain_deadline):
            return None
        why = reason if draining else None
        return replace(one.state, draining=draining, drain_deadline=deadline, cordoned=draining, cordon_reason=why)

    return _switch(context, event, switched)


def admit(context: Context, name: str, reason: str | None, claimed_by: str | None) -> tuple[ClusterView, bool]:
    """Let a cluster in that registered under a new name."""
    event = ClusterEvent(cluster=name, at=context.clock(), type="ADMITTED", reason=reason, claimed_by=claimed_by)
    return _switch(context, event, lambda one: None if one.state.admitted else replace(one.state, admitted=True))


def report_state(context: Context, name: str, report: Any) -> ClusterView:
    """What a cluster says of itself; it counts until the next report."""
    said = {key: value for key, value in read(REPORT, report).items() if value is not None}
    now = context.clock()
    event = ClusterEvent(cluster=name, at=now, type="REPORTED")
    view, _ = _switch(context, event, lambda one: replace(one.state, report=said, reported_at=now))
    return view


def _switch(
    context: Context, event: ClusterEvent, change: Callable[[Cluster], ClusterState | None]
) -> tuple[ClusterView, bool]:
    """Change what has happened to a cluster; the change is computed from what is stored, while nobody else writes."""
    with context.database.writing() as connection:
        fleet.lock(connection)
        found = current_fleet(context, connection)
        cluster = _known(found, event.cluster)
        state = change(replace(cluster, state=fleet.state(connection, event.cluster)))
        if state is not None:
            fleet.save(connection, state, event)
    return get_cluster(context, event.cluster), state is not None


def list_events(context: Context, name: str, below: int | None, limit: int) -> tuple[list[ClusterEvent], int | None]:
    """What happened to a cluster, newest first, and the number to go on below, if there are more."""
    with context.database.reading() as connection:
        _known(current_fleet(context, connection), name)
        found = fleet.events(connection, name, below, limit + 1)
    return found[:limit], found[limit - 1].number if len(found) > limit else None
