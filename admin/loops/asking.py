"""Asking: rounds of bids are decided when they are due, and promises are compared with what came about."""

from __future__ import annotations

import time
from collections.abc import Callable

from admin.services.asking_again import schedule_rebalancing
from admin.services.bid_decisions import decide_due_rounds
from admin.services.bid_records import compare_promises
from admin.services.context import Context
from admin.services.freed_room import LastFree, ask_for_freed_room

#: How often promises are compared, and freed room is looked for.
_INTERVAL_SECONDS = 1.0
#: How many times as seldom it is looked for what waits in pools whose policy is new.
_SCHEDULE_INTERVALS = 10


class AskingLoop:
    """One round: decide what is due."""

    def __init__(
        self, context: Context, *, interval: float = _INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._interval = interval
        self._clock = clock
        self._next_look = self._next_schedule = 0.0
        self._last_seen: dict[str, int] = {}
        self._last_free: LastFree = {}

    def __call__(self) -> None:
        decide_due_rounds(self._context)
        if self._clock() >= self._next_look:
            self._next_look = self._clock() + self._interval
            compare_promises(self._context)
            if ask_for_freed_room(self._context, self._last_free):
                decide_due_rounds(self._context)
        if self._clock() >= self._next_schedule:
            self._next_schedule = self._clock() + self._interval * _SCHEDULE_INTERVALS
            schedule_rebalancing(self._context, self._last_seen)
