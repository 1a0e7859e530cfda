"""Scores: how a pool's strategy ranks the clusters that are able; the smaller number is the better.

To add a strategy, add an entry to `_ALL`, describe it in docs/placement.md and run `make facts`, and pools may name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from admin.core.fleet.asking import ASK
from admin.core.fleet.clusters import eta_of
from admin.core.fleet.fleet import CONSTRAINT, DEFAULT_STRATEGY, SPILL, Fleet, Group
from admin.core.placement.candidates import Candidate, RequestedStrategy, Workload
from admin.core.placement.constraints.rules import Rules, prepared_rules
from admin.core.quantities import parse_duration
from admin.core.resources import shortages, utilization

#: The score of a candidate; None where it is unknown, which ranks after everything known.
Score = Callable[[Candidate, Workload], float | None]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How a pool chooses among the clusters that are able."""

    name: str  #: as pools name it
    score: Score
    looks_at_load: bool = False  #: whether the score depends on what clusters run at the moment
    asks: bool = False  #: whether the clusters are asked first, and the score is that of their bids
    needs_room: bool = False  #: whether full clusters are passed over; elsewhere work waits at the cluster itself
    #: The same score by position alone, where nothing else counts: it is worked out when shown, not stored.
    score_by_position: Callable[[int], float] | None = None
    rules: Rules | None = None  #: which drop and rank clusters in place of the score


def _utilization(candidate: Candidate, _: Workload) -> float | None:
    cluster, free = candidate.cluster, candidate.free
    if free is cluster.unused:  # nothing waits there
        return cluster.utilization
    return None if cluster.capacity is None or free is None else utilization(cluster.capacity, free)


def reported_start(candidate: Candidate, workload: Workload) -> float | None:
    """In how many seconds a cluster would start something by what it reports; None where that is unknown."""
    report, free = candidate.cluster.state.report, candidate.free
    eta = eta_of(report, free)
    if eta is not None:
        return float(parse_duration(eta, zero=True))
    if free is None or shortages(free, workload.takes_of(candidate.cluster)) or candidate.lacks_for(workload):
        return None
    return 0.0


_ALL = (
    Strategy(
        name=DEFAULT_STRATEGY,
        score=lambda candidate, workload: 0.0,
        score_by_position=lambda position: 0.0,
    ),
    Strategy(
        name=SPILL,
        score=lambda candidate, workload: float(candidate.position),
        score_by_position=float,
        looks_at_load=True,
        needs_room=True,
    ),
    Strategy(
        name="least-loaded",
        score=_utilization,
        looks_at_load=True,
        needs_room=True,
    ),
    Strategy(
        name="cheapest",
        score=lambda candidate, workload: candidate.cluster.cost,
    ),
    Strategy(
        name="soonest",
        score=reported_start,
        looks_at_load=True,
    ),
    Strategy(
        name=CONSTRAINT,
        score=lambda candidate, workload: 0.0,
    ),
    Strategy(
        name=ASK,
        score=reported_start,
        looks_at_load=True,
        asks=True,
    ),
)
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def strategy_of(group: Group, requested: RequestedStrategy | None = None) -> Strategy:
    """The strategy that a request asks for, else that of its pool; a label's is weighted."""
    name, rules = (group.strategy, group.rules) if requested is None else requested
    return STRATEGIES[name] if rules is None else _with_rules(name, rules)


@lru_cache(maxsize=1024)
def _with_rules(name: str, rules: str) -> Strategy:
    prepared = prepared_rules(rules)
    return replace(STRATEGIES[name], rules=prepared, looks_at_load=prepared.looks_at_load)


def looks_at_load_of(fleet: Fleet, cluster: str) -> bool:
    """Whether a pool's choice depends on how busy a cluster is."""
    return any(strategy_of(fleet.pools[name]).looks_at_load for name in fleet.groups_of(cluster, fleet.pools))
