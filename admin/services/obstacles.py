"""Obstacles: why no cluster would take an execution now, with who is behind each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster, build_cluster
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.placement.candidates import group_of
from admin.core.placement.decisions import (
    MOST_NAMED,
    describe_decline,
    describe_drop,
    describe_gone,
    describe_triggers,
    describe_unable,
    find_failures,
    may_move,
    obstacle_at,
    switched_state,
)
from admin.core.placement.filters import DECLINED, WAS_DELETED, Verdict
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Provenance
from admin.services.context import Context
from admin.services.decision_views import loaded_clusters, workload_of
from admin.services.definitions import current_fleet
from admin.store import cluster_events, execution_queue, fleet, revisions, row_changes
from admin.store.executions import Execution

#: The definitions that may be what a route names; a label may be the name of a cluster.
_KINDS = {
    RouteKind.POOL: (FleetKind.POOL,),
    RouteKind.LABEL: (FleetKind.LABEL, FleetKind.CLUSTER),
    RouteKind.CLUSTER: (FleetKind.CLUSTER,),
}


def kinds_of(route: Route) -> tuple[FleetKind, ...]:
    """The kinds of definitions that may be what a route names; none where it names nothing."""
    return _KINDS.get(route.kind, ())


def deleted_route(connection: Connection, route: Route) -> Provenance | None:
    """The revision by which what a route names was deleted; None where that is not known."""
    by_kind = (row_changes.deleted_by(connection, kind.value, [route.name]) for kind in kinds_of(route))
    return next((deleted[route.name] for deleted in by_kind if deleted), None)


def deleted_cluster(connection: Connection, name: str) -> Provenance | None:
    """The revision by which a cluster was deleted; None where it was not, or that is not known."""
    return row_changes.deleted_by(connection, FleetKind.CLUSTER.value, [name]).get(name)


class Obstacles(NamedTuple):
    """Why no cluster would take an execution."""

    message: str
    triggers: str  #: when it is decided again


def find_obstacles(
    context: Context,
    connection: Connection,
    execution: Execution,
    declines: Mapping[str, str],
    *,
    needs_room: bool,
) -> Obstacles | None:
    """Why no cluster would take an execution as the fleet is now; None where one would.

    Full ones would, unless it `needs_room` now. `declines` tells why clusters declined it.
    """
    now = context.clock()
    route = Route(kind=RouteKind(execution.route_kind), name=execution.route_name, rungs=())
    fleet_now = current_fleet(context, connection)
    if group_of(route, fleet_now) is None:
        message = describe_gone(route, deleted_route(connection, route), now)
        return Obstacles(message, f"when {route} is defined again")
    loaded = loaded_clusters(route, fleet_now) if needs_room else {}
    waiting = execution_queue.taken_by_waiting(connection, loaded) if loaded else None
    failures = find_failures(route, fleet_now, workload_of(execution), waiting)
    if not failures:
        return None
    named = {name: failures[name][0] for name in list(failures)[:MOST_NAMED]}
    reasons = {name: failed[0].reason for name, failed in failures.items()}
    for name, verdict in named.items():
        reason = _with_provenance(context, connection, fleet_now.clusters[name], verdict).reason
        reasons[name] = describe_decline(reason, declines.get(name)) if verdict.filter == DECLINED.name else reason
    return Obstacles(describe_unable(route, reasons), describe_triggers(failures))


def find_obstacle(context: Context, connection: Connection, execution: Execution) -> Verdict | None:
    """Why the cluster at which an execution waits would not take it now."""
    name = execution.cluster or ""
    cluster = current_fleet(context, connection).clusters.get(name)
    if cluster is None:
        deleted = deleted_cluster(connection, name)
        by = f", deleted by {deleted.describe(context.clock())}" if deleted else ""
        return Verdict("", False, f"is gone from the fleet{by}")
    # Its last report may be newer than the fleet: one of load alone is no new generation.
    state = fleet.states(connection, [name]).get(name, cluster.state)
    current = build_cluster(cluster.definition, state)
    obstacle = obstacle_at(current, workload_of(execution))
    return None if obstacle is None else _with_provenance(context, connection, current, obstacle)


def may_leave(context: Context, connection: Connection, execution: Execution) -> bool:
    """Whether an execution leaves the expected cluster that it waits at as soon as one that was seen has room."""
    route = Route(kind=RouteKind(execution.route_kind), name=execution.route_name, rungs=())
    return may_move(execution.cluster or "", route, current_fleet(context, connection))


def _with_provenance(context: Context, connection: Connection, cluster: Cluster, obstacle: Verdict) -> Verdict:
    """Why a cluster does not pass a filter, with the event or revision by which that is so."""
    now, name, switched = context.clock(), cluster.name, switched_state(obstacle)
    if switched is not None:
        by = cluster_events.switched_by(connection, {switched: [name]}, now).get((name, switched))
        if by is None and switched == "disabled" and cluster.definition.version:
            version = cluster.definition.version
            by = revisions.provenance_of(connection, [version]).get(version)
        return replace(obstacle, reason=describe_drop(obstacle.reason, by, now))
    deleted = deleted_cluster(connection, name) if cluster.definition.source is Source.NAMED else None
    if deleted is None:
        return obstacle
    reason = WAS_DELETED if obstacle.reason == WAS_DELETED else f"{obstacle.reason}, deleted"
    return replace(obstacle, reason=f"{reason} by {deleted.describe(now)}")
