"""Retention: what ended long enough ago is deleted, in batches short enough not to block other writers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

from admin.services.clocks import follow_clock, may_judge
from admin.services.context import Context
from admin.services.retention import prune
from admin.services.sessions import remove_expired_sessions
from admin.store.retention import Counts

_log = logging.getLogger("rainbow.loops")

#: How long one round may take; the leader's other work waits meanwhile.
_SLICE_SECONDS = 0.02
_RETRY_SECONDS = 60.0
#: How often the clock is compared with what is stored of it.
_FOLLOW_SECONDS = 60.0


class RetentionLoop:
    """One round: go on with a run of pruning, or begin one when it is due."""

    def __init__(
        self,
        context: Context,
        *,
        slice_seconds: float = _SLICE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        prune: Callable[..., Iterator[Counts]] = prune,
    ) -> None:
        self._context = context
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._prune = prune
        self._steps: Iterator[Counts] | None = None  #: of the current run
        self._deleted: Counter[str] = Counter()
        self._next_start = 0.0
        self._is_first = True
        self._followed_at: float | None = None  #: when the clock was compared with what is stored of it
        self._is_suspended = False

    @property
    def is_running(self) -> bool:
        """Whether a run of pruning has begun and not ended."""
        return self._steps is not None

    def __call__(self) -> None:
        settings = self._context.settings
        now = self._clock()
        is_due = not settings.retention.is_for_ever and now >= self._next_start
        is_followed = self._followed_at is not None and now < self._followed_at + _FOLLOW_SECONDS
        if self._steps is None and not is_due and is_followed:
            return
        if not may_judge(self._context):
            return
        if self._steps is None:
            clock_now = self._context.clock()
            if not self._follow_clock(clock_now, now):
                return
            remove_expired_sessions(self._context, clock_now)
            if not is_due:
                return
            self._steps = self._prune(self._context, settings.retention, now=clock_now, is_thorough=self._is_first)
            self._next_start = now + settings.retention_interval_seconds
        try:
            self._go_on(self._steps, until=now + self._slice_seconds)
        except Exception:
            self._steps = None
            self._next_start = now + min(_RETRY_SECONDS, settings.retention_interval_seconds)
            raise

    def _follow_clock(self, clock_now: datetime, now: float) -> bool:
        """Whether the clock may be trusted; if not, nothing is pruned for now."""
        seconds = 0.0 if self._followed_at is None else now - self._followed_at
        problem = follow_clock(self._context, clock_now, seconds)
        self._followed_at = now
        if problem is not None:
            self._next_start = max(self._next_start, now + _FOLLOW_SECONDS)
            if not self._is_suspended:
                _log.error("pruning and giving up are suspended", extra={"reason": problem})
        self._is_suspended = problem is not None
        return problem is None

    def _go_on(self, steps: Iterator[Counts], until: float) -> None:
        while self._clock() < until:
            counts = next(steps, None)
            if counts is None:
                self._end()
                return
            self._deleted.update(counts)

    def _end(self) -> None:
        if self._deleted.total():
            _log.info("pruned", extra={name: count for name, count in self._deleted.items() if count})
        self._steps, self._is_first = None, False
        self._deleted.clear()
