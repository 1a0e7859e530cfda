"""Namespace previews: which namespaces on which clusters a change would make otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.cluster_resources.differences import NamespaceChange, namespace_changes
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.services.context import Context
from admin.services.definitions import current_fleet, definitions_after, fleet_after
from admin.services.renderings import changes_renderings, render_namespaces, render_namespaces_after, told_problems


def preview_namespaces(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[NamespaceChange]:
    """What changes would do to namespaces, as far as the caller may know of the fleet and of their scopes."""
    real = [change for change in changes if change.is_real]
    changes_clusters = any(kind is FleetKind.CLUSTER for kind, _ in definitions_after(real))
    if not context.access.sees_fleet() or not (changes_clusters or changes_renderings(real)):
        return []
    clusters = _making(current_fleet(context, connection))
    clusters_after = _making(fleet_after(context, connection, real)) if changes_clusters else clusters
    if not clusters and not clusters_after:
        return []
    before = render_namespaces(context, connection)
    after = render_namespaces_after(context, connection, real) if changes_renderings(real) else before
    return [
        replace(change, problem=told_problems(context, after[change.scope], after)[0]) if change.problem else change
        for change in namespace_changes(before, after, clusters, clusters_after)
        if context.access.allows("attributes.read", change.scope)
    ]


def _making(fleet: Fleet) -> frozenset[str]:
    """The clusters whose agents make namespaces."""
    return frozenset(name for name, cluster in fleet.clusters.items() if cluster.has_cluster_resources)
