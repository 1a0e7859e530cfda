"""Filters: which candidates are able, each with a reason where it is not.

To add a filter, write it beside the others and add it to `FILTERS`: decisions, trails and reason codes follow from the
list.
"""

from __future__ import annotations

from collections.abc import Sequence

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.agents import DECLINED, PLUGINS
from admin.core.placement.filters.amounts import LARGE_ENOUGH, ROOM
from admin.core.placement.filters.base import Filter, Verdict
from admin.core.placement.filters.state import CORDONED, ENABLED, REACHABLE, WEIGHT
from admin.core.placement.workloads import Workload

#: The filters of every candidate, in their order.
FILTERS = (WEIGHT, ENABLED, CORDONED, REACHABLE, LARGE_ENOUGH, PLUGINS, DECLINED)
#: The same where the strategy passes over full clusters.
FILTERS_WITH_ROOM = (*FILTERS, ROOM)
BY_NAME = {filter_.name: filter_ for filter_ in FILTERS_WITH_ROOM}

__all__ = ["BY_NAME", "FILTERS", "FILTERS_WITH_ROOM", "Chain", "Filter", "Verdict"]


class Chain:
    """Filters that run one after the other; each gives its verdict, whatever the others say."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._reasons = [filter_.reason for filter_ in filters]
        self.passed = tuple(Verdict(filter_.name, True) for filter_ in filters)  #: verdicts of an able candidate

    def verdicts(self, candidate: Candidate, workload: Workload) -> tuple[Verdict, ...]:
        """The verdict of every filter, in their order; `passed` itself where all of them pass."""
        reasons = [reason(candidate, workload) for reason in self._reasons]
        if not any(reasons):  # nearly every candidate
            return self.passed
        return tuple(
            Verdict(passed.filter, False, reason) if reason else passed
            for passed, reason in zip(self.passed, reasons, strict=True)
        )
