"""Silent clusters: first unreachable, then lost; their executions are evicted at a limited rate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from admin.services.clocks import may_judge_silence
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health, listen, number_evicted
from admin.services.execution_tokens import take_back_from_silent
from admin.services.reconciliations import is_waiting
from admin.services.redecisions import decide_undecided

_log = logging.getLogger("rainbow.loops")

#: How often to look for silent and drained clusters; undecided executions are looked for in every round.
_INTERVAL_SECONDS = 0.25


class EvictionLoop:
    """One round: mark silent clusters, evict from lost ones, and decide what has no cluster."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._last_look = clock()
        self._allowance = 0.0  #: evictions that the rate allows by now

    def __call__(self) -> None:
        now = self._clock()
        if now >= self._last_look + _INTERVAL_SECONDS:
            self._look_at_clusters(now - self._last_look)
            self._last_look = now
        decide_undecided(self._context)

    def _look_at_clusters(self, elapsed: float) -> None:
        if not may_judge_silence(self._context):
            listen(self._context)
            return
        for name, health in judge_health(self._context):
            _log.warning("cluster is " + health, extra={"cluster": name})
        if is_waiting(self._context):
            return  # a restored database does not know yet what its clusters have
        take_back_from_silent(self._context)
        rate = self._context.settings.agents.evictions_per_second
        self._allowance = min(rate, self._allowance + elapsed * rate)
        self._allowance -= number_evicted(evict_from_lost(self._context, int(self._allowance)))
        end_drained(self._context)
