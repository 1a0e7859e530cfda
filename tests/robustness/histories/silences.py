"""Silences: when the admin did not hear a cluster, and when the agent of a cluster was not answered.

They are found by what the proxies saw, not by the faults: a process that gets no processor is silent as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from tests.robustness.histories.records import Exchange

#: Of the admin: for how long it gives leases, and after which silence a cluster is unreachable, and lost.
LEASE_SECONDS, UNREACHABLE_SECONDS, LOST_SECONDS = 6, 8, 9
#: A guarded job is ended after half of its lease. An agent renews it four times as often; when it sent the request that
#: renewed a lease, the proxy knows only roughly.
GUARD_SECONDS = LEASE_SECONDS / 3
_ALWAYS = [(-math.inf, math.inf)]


class Silences:
    """The times in which nothing was sent and answered by one side of each cluster's proxy."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        sides: defaultdict[tuple[str, str], list[Exchange]] = defaultdict(list)
        for exchange in exchanges:
            sides[exchange.cluster, exchange.side].append(exchange)
        self._silences = {side: _between(listed) for side, listed in sides.items()}

    def is_unanswered(self, cluster: str, since: float, until: float) -> bool:
        """Whether the agent was without an answer so long that guarded jobs may have been ended, at some time."""
        return any(
            min(end, until) - begin >= GUARD_SECONDS and end >= since
            for begin, end in self._silences.get((cluster, "agent"), _ALWAYS)
        )

    def times_unheard(self, cluster: str, seconds: float, until: float) -> int:
        """How often the admin may have heard nothing for so long, one time after the other."""
        times, place = 0, -math.inf
        for begin, end in self._silences.get((cluster, "admin"), [])[1:]:  # it is not expected before it was heard once
            place = max(place, begin)
            while min(end, until) - place >= seconds:
                times, place = times + 1, place + seconds
        return times


def _between(exchanges: list[Exchange]) -> list[tuple[float, float]]:
    """The longest times, by their beginnings, in which no exchange both begins and ends."""
    silences, end = [], math.inf
    for exchange in sorted(exchanges, key=lambda exchange: -exchange.begun):
        silences.append((exchange.begun, end))
        end = min(end, exchange.ended)
    return [(-math.inf, end), *reversed(silences)]
