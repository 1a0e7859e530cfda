"""Shares: how often each cluster of a pool was chosen, and which one was passed over for it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from admin.core.fleet.fleet import DEFAULT_STRATEGY, Group
from admin.core.placement.choice import WeightedChoice, draw
from admin.core.placement.filters import (
    CORDONED,
    DECLINED,
    ENABLED,
    EXPECTED,
    LARGE_ENOUGH,
    PLUGINS,
    REACHABLE,
    ROOM,
)

#: Why a cluster is passed over, by the filter that drops it.
REASONS = {
    ENABLED.name: "disabled",
    CORDONED.name: "cordoned",
    REACHABLE.name: "silent",
    EXPECTED.name: "never seen",
    LARGE_ENOUGH.name: "too small",
    PLUGINS.name: "without the plugin",
    DECLINED.name: "declined",
    ROOM.name: "full",
}
SPILL = "spill"


class PassedOver(NamedTuple):
    """A cluster that an execution would rather have gone to, and why it did not."""

    cluster: str
    reason: str


class Placing:
    """The candidates of a stored decision, prepared once for all executions that share its trail."""

    def __init__(self, trail: Mapping[str, Any]) -> None:
        self._strategy = trail["strategy"]
        self._weights = {candidate["cluster"]: candidate["weight"] for candidate in trail["candidates"]}
        self._dropped = {
            candidate["cluster"]: REASONS[failed["filter"]]
            for candidate in trail["candidates"]
            if candidate["weight"] > 0
            for failed in [verdict for verdict in candidate["verdicts"] if not verdict["passed"]][:1]
        }
        self._choice = WeightedChoice((cluster, self._weights[cluster]) for cluster in self._dropped)

    @property
    def cost(self) -> int:
        """How many clusters are compared for each execution."""
        return len(self._dropped)

    def passed_over(self, key: str, chosen: str) -> PassedOver | None:
        """The cluster that would have been chosen if all had been able; None where that one was.

        Of strategies that go by the state of clusters, nobody knows how one that was dropped would have ranked: the
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
