"""Shares: how often each cluster of a pool was chosen, and which one was passed over for it, and why."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from admin.core.fleet.fleet import DEFAULT_STRATEGY, SPILL, Group
from admin.core.placement.choice import WeightedChoice, draw
from admin.core.placement.filters import ALL_FILTERS
from admin.core.placement.routes import REQUEST
from admin.core.provenance import Provenance

#: Why a cluster is passed over, by the filter that drops it.
REASONS = {filter_.name: filter_.passed_over for filter_ in ALL_FILTERS if filter_.passed_over}


class PassedOver(NamedTuple):
    """A cluster that an execution would rather have gone to, and why it did not."""

    cluster: str
    reason: str


#: What the executions that a pool placed can be counted by.
USER, PROJECT, CLUSTER = SHARED_BY = ("user", "project", "cluster")


class GroupShare(NamedTuple):
    """How many of the executions that a pool placed have something in common, such as their creator."""

    value: str | None  #: None for those whose value is unknown, or not told to the caller
    placed: int


class Range(NamedTuple):
    """Numbers of executions, both ends included."""

    low: int
    high: int

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.low <= number <= self.high

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


#: How likely it is that chance gives one of the clusters of a pool more or less than what is expected.
_OUTSIDE = 0.05
#: Up to so many draws are looked at one number after the other.
_MOST_EXACT = 1000


def expected_range(share: float, draws: int, clusters: int = 1) -> Range:
    """How many draws a cluster gets by chance, given its promised share.

    In 95 of 100 cases each of so many clusters gets a number within its range. That is an interval of the binomial
    distribution; of many draws by its normal approximation.
    """
    tail = _OUTSIDE / 2 / clusters  # of less, and of more
    if share > 0.5:
        others = expected_range(1 - share, draws, clusters)
        return Range(draws - others.high, draws - others.low)
    if draws > _MOST_EXACT:
        deviation = NormalDist().inv_cdf(1 - tail) * math.sqrt(draws * share * (1 - share))
        low, high = draws * share - deviation, draws * share + deviation
        return Range(max(0, math.floor(low)), min(draws, math.ceil(high)))
    chance = below = (1 - share) ** draws  # of this number, and of this or a smaller one
    lowest = number = 0
    while below < 1 - tail and number < draws:
        chance *= (draws - number) / (number + 1) * share / (1 - share)
        number += 1
        if below <= tail:
            lowest = number
        below += chance
    return Range(lowest, number)


class Placing:
    """The candidates of a stored decision, prepared once for all executions that share its trail."""

    def __init__(self, trail: Mapping[str, Any]) -> None:
        self._strategy = trail["strategy"]
        self._is_requested = trail.get("strategy_source") == REQUEST
        self._weights = {candidate["cluster"]: candidate["weight"] for candidate in trail["candidates"]}
        self._dropped = {
            candidate["cluster"]: REASONS[failed["filter"]]
            for candidate in trail["candidates"]
            if candidate["weight"] > 0
            for failed in [verdict for verdict in candidate["verdicts"] if not verdict["passed"]][:1]
        }
        self._choice = WeightedChoice((cluster, self._weights[cluster]) for cluster in self._dropped)

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights of the candidates when it was decided."""
        return self._weights

    @property
    def strategy(self) -> str:
        """The strategy by which it was decided."""
        return str(self._strategy)

    def is_beside(self, strategy: str) -> bool:
        """Whether the request asked for another strategy, in place of this one of the pool."""
        return self._is_requested and self._strategy != strategy

    @property
    def cost(self) -> int:
        """How many clusters are compared for each execution."""
        return len(self._dropped)

    def passed_over(self, key: str, chosen: str) -> PassedOver | None:
        """The cluster that would have been chosen if all had been able; None where that one was.

        For strategies that rank by the state of clusters, the rank of a dropped cluster is unknown: the
        first that was dropped counts.
        """
        if not self._dropped:
            return None
        if self._strategy == DEFAULT_STRATEGY:
            other = self._choice.draw(key)
            is_better = self._draw(key, other) > self._draw(key, chosen)
        else:
            other = next(iter(self._dropped))
            order = list(self._weights)
            is_better = self._strategy != SPILL or order.index(other) < order.index(chosen)
        return PassedOver(other, self._dropped[other]) if is_better else None

    def _draw(self, key: str, cluster: str) -> float:
        return draw(key, cluster, self._weights[cluster])


def promised_shares(group: Group) -> dict[str, float]:
    """The share of executions that each member gets while all are able; empty where the strategy promises none."""
    if group.strategy != DEFAULT_STRATEGY:
        return {}
    total = sum(member.weight for member in group.members)
    return {member.cluster: member.weight / total for member in group.members}


class Weighting(NamedTuple):
    """The weights of the clusters by which so many executions were placed."""

    strategy: str
    weights: Mapping[str, float]
    executions: int


def weightings_of(decisions: Iterable[tuple[Placing, int]]) -> list[Weighting]:
    """The different weights of decisions, each with the number of executions that were placed by it."""
    weightings: list[Weighting] = []
    for placing, number in decisions:
        for position, known in enumerate(weightings):
            if known.strategy == placing.strategy and known.weights == placing.weights:
                weightings[position] = known._replace(executions=known.executions + number)
                break
        else:
            weightings.append(Weighting(placing.strategy, placing.weights, number))
    return weightings


def shares_promised_by(weightings: Iterable[Weighting]) -> dict[str, float]:
    """The share of executions that each cluster was promised; empty where the strategy of some promised none."""
    promised: dict[str, float] = {}
    executions = 0
    for strategy, weights, number in weightings:
        if strategy != DEFAULT_STRATEGY:
            return {}
        total = sum(weights.values())
        for cluster, weight in weights.items():
            promised[cluster] = promised.get(cluster, 0) + number * weight / total
        executions += number
    return {cluster: min(1.0, share / executions) for cluster, share in promised.items()}


def explain_share(
    *,
    placed: int,
    drawn: int | None,
    expected: Range | None,
    lost: Mapping[PassedOver, int],
    gained: Mapping[PassedOver, int],
    switched_by: Mapping[PassedOver, Sequence[Provenance]],
    drained: Collection[PassedOver] = (),
) -> str:
    """Why a cluster got so many executions: by chance, or because it or others were passed over.

    `drawn` are those that would have come with all clusters able, and `lost` those of them that went past it; both are
    known only of strategies that promise a share. `switched_by` are the events by which clusters were switched off,
    and `drained` those that were cordoned by drains alone.
    """
    parts = []
    if drawn is not None and expected is not None:
        if drawn in expected:
            parts.append(f"drew {drawn}, as chance allows ({expected})")
        else:
            parts.append(f"drew {drawn}, where {expected} were expected: more than chance explains")
    parts += [
        f"{count} of them went elsewhere since it was {_off(other, drained)}{_by(other, switched_by)}"
        for other, count in lost.items()
    ]
    by_cluster = sorted(gained.items(), key=lambda pair: (-pair[1], pair[0]))
    parts += [
        f"{count} came since {other.cluster} was {_off(other, drained)}{_by(other, switched_by)}"
        for other, count in by_cluster[:_MOST_NAMED]
    ]
    if len(by_cluster) > _MOST_NAMED:
        parts.append(f"{sum(count for _, count in by_cluster[_MOST_NAMED:])} came for others")
    return "; ".join(parts) or (f"{placed} by the strategy alone" if placed else "the pool placed nothing there")


def _off(other: PassedOver, drained: Collection[PassedOver]) -> str:
    return "drained" if other in drained else other.reason


def _by(other: PassedOver, switched_by: Mapping[PassedOver, Sequence[Provenance]]) -> str:
    """` (event 12, ana, at …)`, the events by which a cluster was switched off, the newest first."""
    events = switched_by.get(other) or ()
    words = [event.describe(None) for event in events[:_MOST_NAMED]]
    more = [f"{len(events) - _MOST_NAMED} more before"] if len(events) > _MOST_NAMED else []
    return f" ({'; '.join([*words, *more])})" if words else ""


#: Clusters that the reasons of one share name, and events of each; the others are counted together.
_MOST_NAMED = 3
