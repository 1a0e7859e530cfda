"""Usable clusters: what a creator may use of a fleet, by a route and in any other way."""

from __future__ import annotations

from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import group_of
from admin.core.placement.routes import Route
from admin.core.use_grants import NOT_OF_TOKEN, Usable, UsableClusters


def usable_anywhere(usable: Usable, fleet: Fleet) -> frozenset[str]:
    """The clusters that may be used in some way: themselves, or through a pool or label."""
    groups = [
        *(fleet.pools[name] for name in usable.pools & fleet.pools.keys()),
        *(group for name in usable.labels if (group := fleet.label(name)) is not None),
    ]
    return usable.clusters.union(member.cluster for group in groups for member in group.members)


def usable_in_fleet(usable: Usable | None, route: Route, fleet: Fleet) -> UsableClusters | None:
    """The clusters of a fleet that may be used: those of a route by it, the others in some way; None for all."""
    if usable is None:
        return None
    if usable.is_everything:
        return None if usable.within is None else UsableClusters(usable.within, NOT_OF_TOKEN)
    clusters = usable_anywhere(usable, fleet)
    clusters = clusters if usable.within is None else clusters & usable.within
    group, by_route = group_of(route, fleet), usable.by(route)
    if group is not None and by_route is not None:
        clusters -= {member.cluster for member in group.members} - by_route.clusters
    return UsableClusters(clusters, usable.reason)
