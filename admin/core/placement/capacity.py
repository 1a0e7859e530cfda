"""Capacity: what clusters and pools have in all, and what of it is free for new work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.fleet import Group
from admin.core.fleet.summaries import taken_up
from admin.core.placement.candidates import free_amounts
from admin.core.resources import Amounts


def usable_amounts(cluster: Cluster, waiting: Mapping[str, Amounts]) -> Amounts | None:
    """What is free for new work; nothing where the cluster takes none, whatever was reported before."""
    free = free_amounts(cluster, waiting)
    takes_work = cluster.is_able and not cluster.is_expected
    return free if free is None or takes_work else dict.fromkeys(free, 0)


class GroupCapacity(NamedTuple):
    """What the members of a pool or label have together."""

    total: Amounts
    free: Amounts  #: on the members that may get work
    able: int  #: how many members those are
    members: int
    full: tuple[str, ...] = ()  #: the members that may get work and have nothing free of some resource


def _count(sums: dict[str, int], amounts: Amounts) -> None:
    """Add amounts to sums, in place: a group may have thousands of members."""
    for resource, amount in amounts.items():
        sums[resource] = sums.get(resource, 0) + amount


def group_capacity(group: Group, clusters: Mapping[str, Cluster], waiting: Mapping[str, Amounts]) -> GroupCapacity:
    """The sums over the members of a group, as far as they are known."""
    total: dict[str, int] = {}
    free: dict[str, int] = {}
    able = 0
    full = []
    for name, weight in group.members:
        cluster = clusters[name]
        _count(total, cluster.capacity or {})
        if weight > 0 and cluster.is_able and not cluster.is_expected:
            able += 1
            usable = usable_amounts(cluster, waiting)
            _count(free, usable or {})
            if taken_up(cluster.capacity, usable):
                full.append(name)
    return GroupCapacity(total, free, able, len(group.members), tuple(full))
