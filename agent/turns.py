"""Turns: what is slow is done about some executions at a time, so that leases are renewed in between."""

from __future__ import annotations

from agent.clocks import Clock
from agent.intents import Intent, Intents


class Turns:
    """The turns of executions within one step; those that have had theirs come last in the next one."""

    def __init__(self, intents: Intents, clock: Clock) -> None:
        self._intents = intents
        self._clock = clock
        self._end_at = 0.0

    def begin(self, seconds: float) -> None:
        """Give turns from now on for so long."""
        self._end_at = self._clock.steady() + seconds

    def take(self, intent: Intent) -> bool:
        """Whether it is the turn of an execution."""
        if self._clock.steady() > self._end_at:
            return False
        self._intents[intent.key] = self._intents.pop(intent.key)
        return True
