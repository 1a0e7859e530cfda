"""Fits: which clusters of the whole fleet could run a workload, and why not the others."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload
from admin.core.placement.fits import Fit, find_fits
from admin.core.placement.routes import Route
from admin.services.context import Context
from admin.store import execution_queue, fleet


def find_fleet_fits(
    context: Context, connection: Connection, fleet_now: Fleet, route: Route, workload: Workload
) -> dict[str, Fit]:
    """Whether each cluster of a fleet could run a workload now, by the filters and the rules of its route."""
    # A report of load alone is no new generation of the fleet that is kept in memory.
    stored = fleet.states(connection, list(fleet_now.clusters))
    reported = {
        name: replace(fleet_now.clusters[name].state, report=state.report, reported_at=state.reported_at)
        for name, state in stored.items()
    }
    fleet_now = fleet_now.with_states(reported)
    waiting = execution_queue.taken_by_waiting(connection, fleet_now.clusters, context.clock())
    return find_fits(route, fleet_now, workload, waiting)
