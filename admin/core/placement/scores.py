"""Scores: how a pool's strategy ranks the clusters that are able; the smaller number is the better.

To add a strategy, add an entry to `_ALL`, describe it in docs/placement.md and run `make facts`, and pools may name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from admin.core.fleet.asking import ASK, NOTHING_SAID, Asking, read_asking
from admin.core.fleet.clusters import eta_of
from admin.core.fleet.fleet import CONSTRAINT, DEFAULT_STRATEGY, SPILL, Fleet, Group
from admin.core.placement.candidates import Candidate, RequestedStrategy, Workload
from admin.core.placement.constraints.rules import Rules, prepared_rules
from admin.core.quantities import parse_duration
from admin.core.resources import describe_utilization, shortages, utilization
from admin.core.times import show_duration

#: The score of a candidate; None where it is unknown, which ranks after everything known.
Score = Callable[[Candidate, Workload], float | None]


class Standing(NamedTuple):
    """How a candidate stood in a decision."""

    cluster: str
    score: float | None
    words: str = ""  #: how its score came about, where that was stored


#: Why the second one, which was chosen, is better than the first.
Comparison = Callable[[Standing, Standing], str]


def _compare_scores(own: Standing, best: Standing) -> str:
    return (
        f"scored {show_score(own.score)} against {show_score(best.score)} of '{best.cluster}', and the lowest is best"
    )


def show_score(score: float | None) -> str:
    """A score, or what was drawn, as messages show it."""
    return "nothing" if score is None else f"{score:.6g}"


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
    compare: Comparison = _compare_scores
    describe: Callable[[Candidate], str] | None = None  #: how a score came about, which is stored beside it


def _utilization(candidate: Candidate, _: Workload) -> float | None:
    cluster, free = candidate.cluster, candidate.free
    if free is cluster.unused:  # nothing waits there
        return cluster.utilization
    if cluster.capacity is None or free is None or not cluster.tells_use:
        return None
    return utilization(cluster.capacity, free)


def _describe_use(candidate: Candidate) -> str:
    capacity, free = candidate.cluster.capacity, candidate.free
    return "" if capacity is None or free is None else describe_utilization(capacity, free)


def reported_start(candidate: Candidate, workload: Workload) -> float | None:
    """In how many seconds a cluster would start something by what it reports; None where that is unknown."""
    report, free = candidate.cluster.state.report, candidate.free
    eta = eta_of(report, free)
    if eta is not None:
        return float(parse_duration(eta, zero=True))
    if free is None or not candidate.cluster.tells_use:
        return None
    if shortages(free, workload.takes_of(candidate.cluster)) or candidate.lacks_for(workload):
        return None
    return 0.0


def describe_start(seconds: float | None) -> str:
    """When something would start."""
    if seconds is None:
        return "at a time that nobody knows"
    return f"in {show_duration(seconds)}" if seconds >= 1 else "at once"


def _compare_use(own: Standing, best: Standing) -> str:
    use, least = (standing.words or _percent(standing.score) for standing in (own, best))
    if not use or not least:
        known = f", and {least} at '{best.cluster}'" if least else ""
        return f"how much of it is in use is not known{known}"
    return f"{use} in use, against {least} at '{best.cluster}'"


def _percent(use: float | None) -> str:
    return "" if use is None else f"{100 * use:.4g}% of what is scarcest there"


def _compare_costs(own: Standing, best: Standing) -> str:
    if own.score is None or best.score is None:
        known = "" if best.score is None else f", and that of '{best.cluster}' is {best.score:.6g}"
        return f"its cost is not known{known}"
    return f"costs {own.score:.6g}, against {best.score:.6g} at '{best.cluster}'"


def _compare_starts(own: Standing, best: Standing) -> str:
    return f"would start it {describe_start(own.score)}, against {describe_start(best.score)} at '{best.cluster}'"


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
        compare=lambda own, best: f"listed after '{best.cluster}', which has room",
    ),
    Strategy(
        name="least-loaded",
        score=_utilization,
        looks_at_load=True,
        needs_room=True,
        compare=_compare_use,
        describe=_describe_use,
    ),
    Strategy(
        name="cheapest",
        score=lambda candidate, workload: candidate.cluster.cost,
        compare=_compare_costs,
    ),
    Strategy(
        name="soonest",
        score=reported_start,
        looks_at_load=True,
        compare=_compare_starts,
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
#: Where words stand beside stored scores, which are by cluster: no cluster is called so.
WORDS = ""
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def strategy_of(group: Group, requested: RequestedStrategy | None = None) -> Strategy:
    """The strategy that a request asks for, else that of its pool; a label's is weighted."""
    name, rules = (group.strategy, group.rules) if requested is None else requested[:2]
    return STRATEGIES[name] if rules is None else _with_rules(name, rules)


def asking_of(group: Group, requested: RequestedStrategy | None = None) -> Asking:
    """How bids are chosen among: as the pool says, with what a request says that asks for the strategy itself.

    What a request has placed by another strategy is never asked about.
    """
    if requested is None or (requested.name == ASK and not requested.asking):
        return group.asking
    if requested.name != ASK:
        return NOTHING_SAID
    return read_asking({**group.definition.payload, **dict(requested.asking)})


@lru_cache(maxsize=1024)
def _with_rules(name: str, rules: str) -> Strategy:
    prepared = prepared_rules(rules)
    return replace(STRATEGIES[name], rules=prepared, looks_at_load=prepared.looks_at_load)


def looks_at_load_of(fleet: Fleet, cluster: str) -> bool:
    """Whether a pool's choice depends on how busy a cluster is."""
    return any(strategy_of(fleet.pools[name]).looks_at_load for name in fleet.groups_of(cluster, fleet.pools))
