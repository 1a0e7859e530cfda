"""Asking: rounds of bids are decided when they are due, and what clusters promised is compared with what came about."""

from __future__ import annotations

import time
from collections.abc import Callable

from admin.services.bid_decisions import decide_due_rounds
from admin.services.bid_records import compare_promises
from admin.services.context import Context

#: How often promises are compared.
_INTERVAL_SECONDS = 1.0


class AskingLoop:
    """One round: decide what is due."""

    def __init__(
        self, context: Context, *, interval: float = _INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._interval = interval
        self._clock = clock
        self._next_look = 0.0

    def __call__(self) -> None:
        decide_due_rounds(self._context)
        if self._clock() >= self._next_look:
            self._next_look = self._clock() + self._interval
            compare_promises(self._context)
