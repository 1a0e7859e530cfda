"""Checks of reports: what an agent reports of its cluster that cannot be as it says.

Nothing is refused for it, since the rest of the report is worth having; what cannot be free does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.fleet.clusters import Cluster
from admin.core.graph.machines import Machine
from admin.core.graph.rooms import amounts_of
from admin.core.graph.units import MEASURED, plural, show_amount
from admin.core.problems import list_first
from admin.core.resources import Amounts, format_amount, parse_capacity

_IN_BYTES = ("memory", "ephemeral_storage")
#: Nodes that a sentence names; the others are counted.
_MOST_NAMED = 3


def doubts_of(cluster: Cluster) -> list[str]:
    """What is wrong with the last report of a cluster, each as a sentence."""
    return [*_amounts(cluster), *_nodes(cluster.machine, cluster.state.report.get("nodes", {}))]


def _amounts(cluster: Cluster) -> Iterator[str]:
    """What is free beyond the capacity, and capacity beyond what the description has."""
    described: Amounts = {} if cluster.machine is None else cluster.machine.totals
    # Descriptions have whole MiB of each node, and what agents report is their sum, rounded once.
    rounding = dict.fromkeys(_IN_BYTES, described.get("nodes", 0) << 20)
    capacity = {**described, **(cluster.capacity or {})}
    for resource, free in parse_capacity(cluster.state.report.get("free", {})).items():
        has = capacity.get(resource, free)
        if free > has + rounding.get(resource, 0):
            size = format_amount(resource, has)
            yield f"{format_amount(resource, free)} {resource} free, of {size} in all: {size} count."
    for resource, amount in parse_capacity(cluster.state.report.get("capacity", {})).items():
        has = described.get(resource, amount)
        if amount > has + rounding.get(resource, 0):
            size = format_amount(resource, has)
            yield f"{format_amount(resource, amount)} {resource} in all, and the description has {size}: {size} count."


def _nodes(machine: Machine | None, nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Nodes that the description does not have, or of which more is free than they have."""
    if machine is None:
        return
    graph = machine.graph
    unknown = dict.fromkeys(name for name in nodes if name not in graph.positions)
    if unknown:
        named = list_first([f"'{name}'" for name in unknown], _MOST_NAMED)
        yield f"{named}: the description has no such node, so that nothing of it counts."
    excessive = []
    for name, node in nodes.items():
        if name in unknown or node.get("closed"):
            continue
        shape = graph.shape_at(graph.positions[name])
        has = shape.below if shape.runs else {shape.type: shape.amount}
        for type_, free in amounts_of(node).items():
            is_told = type_ not in MEASURED or type_ in machine.summary.totals
            if is_told and free > has.get(type_, 0):
                shown, size = show_amount(type_, free), show_amount(type_, has.get(type_, 0))
                excessive.append(f"'{name}' with {shown} {type_ if shown == '1' else plural(type_)} free, of {size}")
    if excessive:
        yield f"{list_first(excessive, _MOST_NAMED)}: what a node does not have does not count."
