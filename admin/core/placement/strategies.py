"""Strategies: how good each able cluster is; the smaller number is the better."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from admin.core.fleet.fleet import Cluster, Strategy
from admin.core.placement.filters import Wanted
from admin.core.quantities import parse_duration
from admin.core.resources import Amounts, lacking, load

#: How good a cluster is, by its position, itself, what is wanted and what is free there; None where that is unknown,
#: which comes after everything known.
Score = Callable[[int, Cluster, Wanted, Amounts | None], float | None]


def _by_weight(_position: int, _cluster: Cluster, _wanted: Wanted, _free: Amounts | None) -> float:
    return 0.0


def _in_order(position: int, _cluster: Cluster, _wanted: Wanted, _free: Amounts | None) -> float:
    return float(position)


def _emptiest(_position: int, cluster: Cluster, _wanted: Wanted, free: Amounts | None) -> float | None:
    if free is cluster.unused:  # nothing waits there
        return cluster.load
    return None if cluster.capacity is None or free is None else load(cluster.capacity, free)


def _cheapest(_position: int, cluster: Cluster, _wanted: Wanted, _free: Amounts | None) -> float | None:
    return cluster.cost


def _soonest(_position: int, cluster: Cluster, wanted: Wanted, free: Amounts | None) -> float | None:
    if "eta" in cluster.state.report:
        return float(parse_duration(cluster.state.report["eta"], zero=True))
    return 0.0 if free is not None and not lacking(free, wanted.demand) else None


SCORES: Mapping[Strategy, Score] = {
    Strategy.WEIGHTED: _by_weight,
    Strategy.SPILL: _in_order,
    Strategy.LEAST_LOADED: _emptiest,
    Strategy.CHEAPEST: _cheapest,
    Strategy.SOONEST: _soonest,
}
