"""Rates: how many requests and creations each user and each project may make in a second."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from admin import metrics
from admin.configuration import Limits
from admin.core.problems import shorten
from admin.errors import TooManyRequests
from admin.store.cache.shared_rates import SharedRates

#: A burst may be as large as what the rate allows within so many seconds.
_BURST_SECONDS = 1.0


class _Use(NamedTuple):
    """What a request takes of one limit."""

    limit: str  #: user_requests, user_creations, project_requests or project_creations
    name: str  #: of the user or project
    rate: int
    amount: int


class RateLimiter:
    """Refuses users and projects that are faster than configured; without limits it does nothing."""

    def __init__(self, limits: Limits, shared: SharedRates, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._shared = shared
        self._monotonic = monotonic
        rates = (limits.user, limits.project)
        self.limits_requests = any(rate.requests_per_second is not None for rate in rates)
        self._limits_creations = any(rate.creations_per_second is not None for rate in rates)

    def count_request(self, user: str, project: str | None) -> None:
        """Count a request of a user that names a project; TooManyRequests where it is one too many."""
        by_user, by_project = self._limits.user.requests_per_second, self._limits.project.requests_per_second
        uses = [] if by_user is None else [_Use("user_requests", user, by_user, 1)]
        if by_project is not None and project is not None:
            uses.append(_Use("project_requests", project, by_project, 1))
        self._take(uses)

    def count_creations(self, user: str, projects: Iterable[str | None]) -> None:
        """Count executions that a user wants to create, each by its project; TooManyRequests counts none of them.

        None is for the project of one that is denied, which counts for the user alone.
        """
        if not self._limits_creations:
            return
        by_user, by_project = self._limits.user.creations_per_second, self._limits.project.creations_per_second
        counts = Counter(projects)
        uses = [] if by_user is None else [_Use("user_creations", user, by_user, counts.total())]
        if by_project is not None:
            uses += [_Use("project_creations", name, by_project, count) for name, count in counts.items() if name]
        self._take(uses)

    def _take(self, uses: list[_Use]) -> None:
        """Count all uses, or none: one is too many after a second's worth of them, many at once then wait longer."""
        now = self._monotonic()
        for use in uses:
            ahead = self._shared.seconds_ahead(_key(use), now)
            excess = ahead + 1 / use.rate - _BURST_SECONDS
            if excess > 1e-6:
                metrics.count_limited(use.limit)
                raise _refusal(use, math.ceil(excess))
        for use in uses:
            self._shared.add(_key(use), use.amount / use.rate, now)


def _key(use: _Use) -> str:
    return f"{use.limit}/{use.name}"


def _refusal(use: _Use, seconds: int) -> TooManyRequests:
    noun, what = use.limit.split("_")
    return TooManyRequests(
        f"The {noun} '{shorten(use.name)}' makes more than {use.rate} {what} a second, which is the most here "
        f"(limits.{noun}.{what}PerSecond). Nothing was done; try again in {seconds} s.",
        retry_after=seconds,
    )
