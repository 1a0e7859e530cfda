"""Provenance of the fleet: which revisions defined it, and which events set the states of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import Definition
from admin.core.provenance import Provenance, pruned_provenance
from admin.services.context import Context
from admin.services.deletions import deleted_clusters
from admin.store import cluster_events, revisions

#: The states by which operators keep work from a cluster.
SWITCHED_STATES = ("disabled", "cordoned", "draining")


def defined_by(connection: Connection, definitions: Iterable[Definition]) -> Mapping[int, Provenance]:
    """The revisions of definitions, by number; of one that is no longer kept, what the row of its definition has."""
    managed = {definition.version: definition for definition in definitions if definition.version}
    kept = revisions.provenance_of(connection, managed)
    pruned = ((number, definition.last_change) for number, definition in managed.items() if number not in kept)
    return kept | {number: pruned_provenance(number, change) for number, change in pruned if change is not None}


def cluster_provenance(
    context: Context, connection: Connection, clusters: Iterable[Cluster]
) -> Mapping[str, Mapping[str, Provenance]]:
    """The revisions that defined clusters, and the events or revisions that set their states."""
    listed, now = list(clusters), context.clock()
    defined = defined_by(connection, (cluster.definition for cluster in listed))
    in_state = {
        "disabled": [cluster.name for cluster in listed if cluster.state.enabled is False],
        "cordoned": [cluster.name for cluster in listed if cluster.state.cordoned],
        "draining": [cluster.name for cluster in listed if cluster.state.draining],
    }
    provenance: dict[str, dict[str, Provenance]] = {cluster.name: {} for cluster in listed}
    for cluster in listed:
        definition = defined.get(cluster.definition.version or 0)
        if definition is not None:
            provenance[cluster.name]["definition"] = definition
            if not cluster.enabled and cluster.state.enabled is None:
                provenance[cluster.name]["disabled"] = definition
    for name, deleted_by in deleted_clusters(connection, listed).items():
        provenance[name]["deleted"] = deleted_by
    for (name, state), event in cluster_events.switched_by(connection, in_state, now).items():
        provenance[name][state] = event
    # A drain cordons too, and would hide a cordon before it, which lasts as long.
    cordoned = {"cordoned": in_state["draining"]}
    for (name, state), event in cluster_events.begun_apart(connection, cordoned, now).items():
        provenance[name][state] = event
    return provenance
