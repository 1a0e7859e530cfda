"""Cancellations of jobs: of those that must end, and of those that a draining cluster hands back."""

from __future__ import annotations

from agent.clocks import Clock
from agent.engines.base import NothingDone
from agent.engines.safe import SafeEngine
from agent.intents import Ending, Intent
from agent.state_directory import StateDirectory

#: How often a job that does not end is cancelled again.
_CANCEL_SECONDS = 5.0


class Cancellations:
    """Which jobs were cancelled, and when last."""

    def __init__(self, engine: SafeEngine, state: StateDirectory, clock: Clock) -> None:
        self._engine = engine
        self._state = state
        self._clock = clock
        self._cancelled_at: dict[str, float] = {}

    def is_due(self, intent: Intent) -> bool:
        """Whether a job was not cancelled yet, or so long ago that it is to be cancelled again."""
        return self._clock.steady() >= self._cancelled_at.get(intent.key, 0.0) + _CANCEL_SECONDS

    def cancel_if_ending(self, intent: Intent) -> None:
        """Cancel a job that must end."""
        if intent.ending not in (None, Ending.WITHDRAW) and self.is_due(intent):
            self._cancelled_at[intent.key] = self._clock.steady()
            self._engine.cancel(intent.handle)

    def withdraw(self, intent: Intent, message: str) -> bool:
        """Take a job out of the engine's queue; False if it has started meanwhile, and goes on.

        After NothingDone it goes on too, and may be withdrawn later; after any other failure it may be withdrawn.
        """
        self._cancelled_at[intent.key] = self._clock.steady()
        # Stored first: after a crash the job's end must be known for what it is.
        intent.ending, intent.ending_message = Ending.WITHDRAW, message
        self._state.save(intent, is_durable=True)
        try:
            is_withdrawn = self._engine.withdraw(intent.handle)
        except NothingDone:
            self._go_on(intent)
            raise
        if not is_withdrawn:
            self._go_on(intent)
        return is_withdrawn

    def _go_on(self, intent: Intent) -> None:
        """Let a job go on that was to be withdrawn."""
        intent.ending, intent.ending_message = None, ""
        self._state.save(intent, is_durable=False)

    def forget(self, intent: Intent) -> None:
        """Drop what is remembered of an execution that is over."""
        self._cancelled_at.pop(intent.key, None)
