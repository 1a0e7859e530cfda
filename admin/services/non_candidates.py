"""The clusters of the fleet that were no candidates of a decision, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import group_of
from admin.core.placement.non_candidates import render_non_candidates, switched_off
from admin.core.placement.routes import Route, RouteKind
from admin.services.cluster_provenance import cluster_provenance, defined_by
from admin.services.context import Context


def not_candidates(
    context: Context, connection: Connection, fleet: Fleet, route: Route, trail: Mapping[str, Any]
) -> list[JsonObject]:
    """The clusters of a fleet that a stored decision did not look at, each with the reason and who is behind it."""
    candidates = {candidate["cluster"] for candidate in trail["candidates"]}
    group = group_of(route, fleet) if route.kind in (RouteKind.POOL, RouteKind.LABEL) else None
    defined = defined_by(connection, [group.definition] if group else [])
    states = cluster_provenance(context, connection, switched_off(fleet, candidates))
    definition = next(iter(defined.values()), None)
    return render_non_candidates(route, fleet, candidates, states, definition, context.clock())
