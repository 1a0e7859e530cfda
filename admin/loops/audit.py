"""Audit events: what a process has noted is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

from admin.services.audit import store_waiting
from admin.services.context import Context

_INTERVAL_SECONDS = 1.0


class AuditLoop:
    """One round: store what waits."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._next_round = 0.0

    def __call__(self) -> None:
        if self._clock() >= self._next_round:
            self._next_round = self._clock() + _INTERVAL_SECONDS
            store_waiting(self._context)

    def close(self) -> None:
        """Store what still waits when the process ends."""
        store_waiting(self._context, is_last=True)
