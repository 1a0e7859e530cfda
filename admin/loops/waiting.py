"""Waiting executions: decided again when the fleet changes, ended when their queueing budget is over."""

from __future__ import annotations

import logging
import time

from admin.metrics import count_finished, count_redecided
from admin.services.context import Context
from admin.services.redecisions import decide_waiting, end_overdue
from admin.store import fleet

_log = logging.getLogger("rainbow.loops")

#: How often somebody looks for executions that waited too long.
_OVERDUE_SECONDS = 1.0


class WaitingLoop:
    """One round: look whether the fleet has changed since the last one, and act if it has."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen = -1
        self._next_overdue = 0.0

    def __call__(self) -> None:
        with self._context.database.reading() as connection:
            number = fleet.number(connection)
        if number != self._seen:
            started = time.monotonic()
            changed = decide_waiting(self._context)
            self._seen = number
            if changed:
                count_redecided(changed)
                took = round(time.monotonic() - started, 3)
                _log.info("decided again", extra={"executions": len(changed), "seconds": took})
        if time.monotonic() >= self._next_overdue:
            self._next_overdue = time.monotonic() + _OVERDUE_SECONDS
            for row in end_overdue(self._context):
                count_finished("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED", row, self._context.clock())
