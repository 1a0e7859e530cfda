"""Obstacles: why no cluster would take an execution now, with who is behind each."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from admin.core.fleet.definitions import FleetKind
from admin.core.placement.candidates import Workload, group_of
from admin.core.placement.filters import ROOM, Verdict
from admin.core.placement.obstacles import ENGINE, describe_gone, may_find_room, obstacle_at
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Provenance
from admin.services.context import Context
from admin.services.creator_rights import current_rights
from admin.services.decision_views import loaded_clusters, workload_of
from admin.services.definitions import current_fleet
from admin.services.deletions import deleted_cluster
from admin.services.unable_clusters import Obstacles, explain_unable, with_provenance
from admin.store import execution_queue, fleet, row_changes
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
        deleted_by = deleted_route(connection, route) if context.access.sees_fleet() else None
        message = describe_gone(route, deleted_by, now)
        return Obstacles(message, f"when {route} is defined again")
    workload = _workload(context, connection, execution)
    loaded = loaded_clusters(route, fleet_now, workload.requested) if needs_room else {}
    waiting = execution_queue.taken_by_waiting(connection, loaded, now) if loaded else None
    return explain_unable(context, connection, route, fleet_now, workload, waiting, declines)


def find_obstacle(context: Context, connection: Connection, execution: Execution) -> Verdict | None:
    """Why the cluster at which an execution waits would not take it now."""
    name = execution.cluster or ""
    cluster = current_fleet(context, connection).clusters.get(name)
    if cluster is None:
        deleted = deleted_cluster(connection, name) if context.access.sees_fleet() else None
        by = f", deleted by {deleted.describe(context.clock())}" if deleted else ""
        return Verdict("", False, f"is gone from the fleet{by}")
    # Its last report may be newer than the fleet: one of load alone is no new generation.
    state = fleet.states(connection, [name]).get(name, cluster.state)
    current = cluster.with_state(state)
    obstacle = obstacle_at(current, _workload(context, connection, execution))
    problem = state.report.get("problem")
    if problem and (obstacle is None or obstacle.filter == ROOM.name):
        words = f": {problem}" if context.access.sees_fleet() else ""
        return Verdict(ENGINE, False, f"cannot use its engine{words}")
    return None if obstacle is None else with_provenance(context, connection, current, obstacle)


def may_leave(context: Context, connection: Connection, execution: Execution) -> bool:
    """Whether an execution leaves the expected cluster that it waits at as soon as one that was seen has room."""
    route = Route(kind=RouteKind(execution.route_kind), name=execution.route_name, rungs=())
    fleet_now = current_fleet(context, connection)
    return may_find_room(execution.cluster or "", route, fleet_now, _workload(context, connection, execution))


def _workload(context: Context, connection: Connection, execution: Execution) -> Workload:
    return workload_of(execution, current_rights(context, connection))
