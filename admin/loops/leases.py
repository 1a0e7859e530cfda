"""Silent clusters: first unreachable, then lost, and their work given away, not all of it at once."""

from __future__ import annotations

import logging
import time

from admin.metrics import count_finished, count_redecided
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.redecisions import decide_undecided

_log = logging.getLogger("rainbow.loops")

#: How often somebody looks for silent and drained clusters; what waits for a decision is looked for in every round.
_LOOK_SECONDS = 0.25


class LeaseLoop:
    """One round: who is silent, what is to be given away, what is to be decided."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last_look = time.monotonic()
        self._allowance = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._last_look + _LOOK_SECONDS:
            self._look_at_clusters(now - self._last_look)
            self._last_look = now
        changed = decide_undecided(self._context)
        if changed:
            count_redecided(changed)

    def _look_at_clusters(self, seconds: float) -> None:
        """What has become of clusters in so many seconds."""
        for name, health in judge_health(self._context):
            _log.warning("cluster is " + health, extra={"cluster": name})
        rate = self._context.settings.agents.evictions_per_second
        self._allowance = min(rate, self._allowance + seconds * rate)
        for row, ended in evict_from_lost(self._context, int(self._allowance)):
            self._allowance -= 1
            if ended is not None:
                count_finished(ended.phase.value, ended.reason, row, self._context.clock())
        end_drained(self._context)
