"""Groups: list pools and labels, with what their members have together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import maxsize

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet, Group
from admin.core.fleet.summaries import describe_group
from admin.core.placement.capacity import GroupCapacity
from admin.core.provenance import Provenance
from admin.services.cluster_provenance import SWITCHED_STATES, cluster_provenance, defined_by
from admin.services.context import Context
from admin.services.definitions import current_fleet, find_unused
from admin.services.fleet import capacities_of, groups_of, not_found, page_of


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """A pool or label, with a fleet that has its members, and the revision that defined it."""

    group: Group
    fleet: Fleet
    capacity: GroupCapacity
    summary: str  #: which members take work, and why others do not
    provenance: Provenance | None  #: None for one of configuration, and where the revision is no longer kept
    switched_off: Mapping[str, Mapping[str, Provenance]]  #: what set the states that keep work from some members


def list_groups(
    context: Context, kind: FleetKind, *, unused: bool = False, after: str = "", most: int = maxsize
) -> list[GroupView]:
    """The first pools, or labels, after a name; perhaps only those that nothing uses."""
    with context.database.reading() as connection:
        current = current_fleet(context, connection)
        groups = groups_of(current, kind)
        if unused:
            names = find_unused(context, connection, kind)
            groups = {name: group for name, group in groups.items() if name in names}
        return _views(context, connection, current, page_of(groups.values(), after, most))


def get_group(context: Context, kind: FleetKind, name: str) -> GroupView:
    """One pool or label."""
    with context.database.reading() as connection:
        current = current_fleet(context, connection)
        if name not in groups_of(current, kind):
            raise not_found(context, connection, kind, name)
        return _views(context, connection, current, [groups_of(current, kind)[name]])[0]


def _views(context: Context, connection: Connection, current: Fleet, groups: Iterable[Group]) -> list[GroupView]:
    shown = list(groups)
    defined = defined_by(connection, (group.definition for group in shown))
    clusters, capacities = capacities_of(context, connection, current, shown)
    switched_off = _switched_off(context, connection, clusters.values())
    return [
        GroupView(
            group=group,
            fleet=current,
            capacity=capacity,
            summary=describe_group(
                group,
                clusters,
                capacity.total,
                capacity.free,
                switched_off,
                context.clock(),
                full=capacity.full,
            ),
            provenance=defined.get(group.definition.version or 0),
            switched_off=switched_off,
        )
        for group, capacity in zip(shown, capacities, strict=True)
    ]


def _switched_off(
    context: Context, connection: Connection, clusters: Iterable[Cluster]
) -> dict[str, dict[str, Provenance]]:
    """What set the states by which operators keep work from clusters, by cluster and state."""
    off = [cluster for cluster in clusters if not cluster.enabled or cluster.state.cordoned]
    return {
        name: {state: made_by for state, made_by in states.items() if state in SWITCHED_STATES}
        for name, states in cluster_provenance(context, connection, off).items()
    }
