"""Retention: what has ended for long enough is deleted, in slices so short that nobody waits for them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator

from admin.services.context import Context
from admin.services.retention import prune
from admin.store.retention import Counts

_log = logging.getLogger("rainbow.loops")

#: How long one round may take; the leader's other work waits meanwhile.
_SLICE_SECONDS = 0.02
_RETRY_SECONDS = 60.0


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

    @property
    def is_running(self) -> bool:
        """Whether a run of pruning has begun and not ended."""
        return self._steps is not None

    def __call__(self) -> None:
        settings = self._context.settings
        now = self._clock()
        if self._steps is None:
            if settings.retention.is_for_ever or now < self._next_start:
                return
            self._steps = self._prune(self._context, settings.retention, is_thorough=self._is_first)
            self._next_start = now + settings.retention_interval_seconds
        try:
            self._go_on(self._steps, until=now + self._slice_seconds)
        except Exception:
            self._steps = None
            self._next_start = now + min(_RETRY_SECONDS, settings.retention_interval_seconds)
            raise

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
