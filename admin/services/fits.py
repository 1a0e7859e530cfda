"""Fits: which clusters of the fleet could run a workload, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload
from admin.core.placement.fits import Fit, find_fits, with_members
from admin.core.placement.routes import Route
from admin.services.context import Context
from admin.store import execution_queue, fleet


def find_fleet_fits(
    context: Context,
    connection: Connection,
    fleet_now: Fleet,
    route: Route,
    workload: Workload,
    names: Iterable[str] | None = None,
) -> dict[str, Fit]:
    """Whether each cluster of a fleet could run a workload now, by the filters and the rules of its route.

    With `names`, only these and the candidates of the route.
    """
    group = with_members(route, fleet_now, fleet_now.clusters if names is None else names)
    asked = {member.cluster for member in group.members}
    # A report of load alone is no new generation of the fleet that is kept in memory.
    stored = fleet.states(connection, asked)
    reported = {
        name: replace(fleet_now.clusters[name].state, report=state.report, reported_at=state.reported_at)
        for name, state in stored.items()
    }
    fleet_now = fleet_now.with_states(reported)
    clusters = {name: fleet_now.clusters[name] for name in asked}
    waiting = execution_queue.taken_by_waiting(connection, clusters, context.clock())
    return find_fits(group, fleet_now, workload, waiting)
