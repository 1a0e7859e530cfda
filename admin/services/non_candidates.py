"""The clusters of the fleet that were no candidates of a decision, and why."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.fleet.definitions import Definition, FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.memberships import membership_changes
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import group_of
from admin.core.placement.non_candidates import (
    GroupHistory,
    render_non_candidates,
    switched_off,
)
from admin.core.placement.routes import Route
from admin.core.provenance import Provenance
from admin.core.use_grants import UsableClusters
from admin.services.cluster_provenance import cluster_provenance, defined_by
from admin.services.context import Context
from admin.services.obstacles import deleted_route, kinds_of
from admin.store import revisions, row_changes


def not_candidates(
    context: Context,
    connection: Connection,
    fleet: Fleet,
    route: Route,
    trail: JsonObject,
    usable: UsableClusters | None,
) -> list[JsonObject]:
    """The clusters of a fleet that a stored decision did not look at, each with the reason and who is behind it.

    `usable` are the clusters that the creator may use, None for all.
    """
    candidates = {candidate["cluster"] for candidate in trail["candidates"]}
    # The clusters themselves are counted for who may not read the fleet, and nothing else is told of them.
    sees_fleet = context.access.sees_fleet()
    states = cluster_provenance(context, connection, switched_off(fleet, candidates)) if sees_fleet else {}
    history = _history(connection, fleet, route) if sees_fleet else GroupHistory()
    return render_non_candidates(route, fleet, candidates, states, history, context.clock(), usable)


def _history(connection: Connection, fleet: Fleet, route: Route) -> GroupHistory:
    """The revisions that last changed the pool or label of a route."""
    kinds = kinds_of(route)
    if not kinds or kinds[0] is FleetKind.CLUSTER:
        return GroupHistory()
    group = group_of(route, fleet)
    changed = membership_changes(
        row_changes.last_changes(connection, kinds[0].value, route.name, row_changes.MOST_OF_GROUP)
    )
    provenance = revisions.provenance_of(connection, changed.values())
    return GroupHistory(
        defined_by=None if group is None else _defined_by(connection, group.definition),
        deleted_by=None if group else deleted_route(connection, route),
        changed_by={cluster: provenance[number] for cluster, number in changed.items() if number in provenance},
    )


def _defined_by(connection: Connection, definition: Definition) -> Provenance | None:
    return defined_by(connection, [definition]).get(definition.version or 0)
