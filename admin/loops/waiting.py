"""Waiting executions: decided again when the fleet changes or has room, ended when their queueing budget is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from admin.services.clocks import may_judge
from admin.services.context import Context
from admin.services.queueing_budgets import end_overdue
from admin.services.redecision_rounds import Redecided
from admin.services.redecisions import decide_waiting, is_room_again
from admin.store import fleet, grants

_log = logging.getLogger("rainbow.loops")

#: How often to look for executions that waited too long, and for room that others left.
_INTERVAL_SECONDS = 1.0


class WaitingLoop:
    """One round: decide again if the fleet, or what creators may use, has changed since the last round."""

    def __init__(
        self,
        context: Context,
        *,
        interval: float = _INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        decide: Callable[[Context], list[Redecided]] = decide_waiting,
    ) -> None:
        self._context = context
        self._interval = interval
        self._clock = clock
        self._decide_waiting = decide
        self._fleet_generation = self._rights_number = -1
        self._next_look = 0.0

    def __call__(self) -> None:
        with self._context.database.autocommit() as connection:
            generation, rights = fleet.generation(connection), grants.number(connection)
        is_due = self._clock() >= self._next_look
        if is_due:
            self._next_look = self._clock() + self._interval
        is_changed = (generation, rights) != (self._fleet_generation, self._rights_number)
        if is_changed or (is_due and is_room_again(self._context)):
            self._decide()
            self._fleet_generation, self._rights_number = generation, rights
        if is_due and may_judge(self._context):
            end_overdue(self._context)

    def _decide(self) -> None:
        started = self._clock()
        changed = self._decide_waiting(self._context)
        if changed:
            seconds = round(self._clock() - started, 3)
            _log.info("decided waiting executions again", extra={"executions": len(changed), "seconds": seconds})
