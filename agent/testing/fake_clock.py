"""A clock that tests advance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import TypeVar

from agent.clocks import Clock

T = TypeVar("T")

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock(Clock):
    """A clock that stands still until a test advances it; waiting advances it at once."""

    def __init__(self, steady: float = 1000.0, now: datetime = _BEGIN) -> None:
        self._steady = steady
        self._now = now

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._steady += seconds
        self._now += timedelta(seconds=seconds)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._now += timedelta(seconds=seconds)

    def steady(self) -> float:
        return self._steady

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def wait_for(self, queue: SimpleQueue[T], seconds: float) -> T | None:
        """The next item of a queue; if it is empty, advance the clock and return None."""
        if queue.empty():
            self.advance(max(0.0, seconds))
            return None
        return queue.get()
