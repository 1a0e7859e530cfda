"""Strategies: how good each able cluster is; the smaller number is the better."""

from __future__ import annotations

from collections.abc import Mapping

from admin.core.fleet import Cluster, Strategy
from admin.core.placement.filters import Wanted, room
from admin.core.quantities import parse_duration
from admin.core.resources import Amounts, lacking, load


def score(
    strategy: Strategy, position: int, cluster: Cluster, wanted: Wanted, waiting: Mapping[str, Amounts]
) -> float | None:
    """How good a cluster is; None where that is unknown, which comes after everything known."""
    match strategy:
        case Strategy.WEIGHTED:
            return 0.0
        case Strategy.SPILL:
            return float(position)
        case Strategy.LEAST_LOADED:
            free = room(cluster, waiting)
            return None if cluster.capacity is None or free is None else round(load(cluster.capacity, free), 9)
        case Strategy.CHEAPEST:
            return cluster.cost
        case Strategy.SOONEST:
            return _seconds_to_start(cluster, wanted, waiting)


def _seconds_to_start(cluster: Cluster, wanted: Wanted, waiting: Mapping[str, Amounts]) -> float | None:
    if "eta" in cluster.state.report:
        return float(parse_duration(cluster.state.report["eta"], zero=True))
    free = room(cluster, waiting)
    return 0.0 if free is not None and not lacking(free, wanted.demand) else None
