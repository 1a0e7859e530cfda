"""Waiting executions: decided again when the fleet changes or gives room, ended when their queueing budget is over."""

from __future__ import annotations

import logging
import time

from admin.metrics import count_finished, count_redecided
from admin.services.context import Context
from admin.services.redecisions import decide_waiting, end_overdue, is_room_again
from admin.store import fleet

_log = logging.getLogger("rainbow.loops")

#: How often somebody looks for executions that waited too long, and for room that others left.
_LOOK_SECONDS = 1.0


class WaitingLoop:
    """One round: look whether the fleet has changed since the last one, and act if it has."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen = -1
        self._next_look = 0.0

    def __call__(self) -> None:
        with self._context.database.reading() as connection:
            number = fleet.number(connection)
        is_due = time.monotonic() >= self._next_look
        if is_due:
            self._next_look = time.monotonic() + _LOOK_SECONDS
        if number != self._seen or (is_due and is_room_again(self._context)):
            self._decide()
            self._seen = number
        if is_due:
            for row in end_overdue(self._context):
                count_finished("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED", row, self._context.clock())

    def _decide(self) -> None:
        started = time.monotonic()
        changed = decide_waiting(self._context)
        if changed:
            count_redecided(changed)
            took = round(time.monotonic() - started, 3)
            _log.info("decided again", extra={"executions": len(changed), "seconds": took})
