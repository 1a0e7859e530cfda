"""Filters: which candidates are able, each with a reason where it is not.

To add a filter, write it beside the others, add it to `FILTERS` and describe it in docs/placement.md: decisions, trails
and reason codes follow from the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.agents import DECLINED, PLUGINS
from admin.core.placement.filters.amounts import LARGE_ENOUGH, ROOM
from admin.core.placement.filters.base import Filter, Verdict, Verdicts
from admin.core.placement.filters.state import CORDONED, ENABLED, REACHABLE, WEIGHT
from admin.core.placement.workloads import Workload

#: The filters of every candidate, in their order.
FILTERS = (WEIGHT, ENABLED, CORDONED, REACHABLE, LARGE_ENOUGH, PLUGINS, DECLINED)
#: The same where the strategy passes over full clusters.
FILTERS_WITH_ROOM = (*FILTERS, ROOM)
BY_NAME = {filter_.name: filter_ for filter_ in FILTERS_WITH_ROOM}

__all__ = ["BY_NAME", "FILTERS", "FILTERS_WITH_ROOM", "Chain", "Filter", "Verdict", "Verdicts"]


class Chain:
    """Filters that run one after the other; each gives its verdict on every candidate, whatever the others say."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self.passed = tuple(Verdict(filter_.name, True) for filter_ in filters)  #: verdicts of an able candidate

    def verdicts(self, candidates: Sequence[Candidate], workload: Workload) -> list[Verdicts]:
        """The verdicts on each candidate, which stand in the order of their positions from 0.

        They are `passed` itself where every filter passes.
        """
        drops = [filter_.drop(candidates, workload) for filter_ in self._filters]
        verdicts = [self.passed] * len(candidates)
        for position in set[int]().union(*drops):
            verdicts[position] = tuple(
                Verdict(passed.filter, False, reasons[position]) if position in reasons else passed
                for passed, reasons in zip(self.passed, drops, strict=True)
            )
        return verdicts
