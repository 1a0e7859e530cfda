"""Engine problems: what keeps the engine from working is logged once, and that it works again."""

from __future__ import annotations

import logging

from agent.clocks import Clock

log = logging.getLogger("rainbow.agent")

#: How long an engine must be without a problem until it counts as over, and how many are logged until then.
_OVER_SECONDS = 30.0
_MOST_LOGGED = 20


class EngineProblems:
    """Logs each problem once until there was none for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: What was logged, and when there was a problem last.
        self._logged: set[str] = set()
        self._problem_at = 0.0

    def note(self, problem: str) -> None:
        """Note what is wrong now; empty if nothing is."""
        now = self._clock.steady()
        if problem:
            self._problem_at = now
            if problem not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(problem)
                log.warning("%s", problem)
        elif self._logged and now >= self._problem_at + _OVER_SECONDS:
            self._logged.clear()
            log.info("the engine works again")
