"""Retention: what is over for long enough is deleted every so often, in slices so small that nobody waits for them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator

from admin.metrics import count_pruned
from admin.services.context import Context
from admin.services.retention import prune
from admin.store.retention import Counts

_log = logging.getLogger("rainbow.loops")

#: How long one round may take; the other work of the leader waits meanwhile.
_SLICE_SECONDS = 0.02
_RETRY_SECONDS = 60.0


class RetentionLoop:
    """One round: go on with what is being deleted, or begin when it is time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps: Iterator[Counts] | None = None  #: while something is being deleted
        self._deleted: Counter[str] = Counter()
        self._next_start = 0.0
        self._is_first = True

    def __call__(self) -> None:
        settings = self._context.settings
        now = time.monotonic()
        if self._steps is None:
            if settings.retention.is_for_ever or now < self._next_start:
                return
            self._steps = prune(self._context, settings.retention, is_thorough=self._is_first)
            self._next_start = now + settings.retention_interval_seconds
        try:
            self._go_on(self._steps, until=now + _SLICE_SECONDS)
        except Exception:
            self._steps = None
            self._next_start = now + min(_RETRY_SECONDS, settings.retention_interval_seconds)
            raise

    def _go_on(self, steps: Iterator[Counts], until: float) -> None:
        while time.monotonic() < until:
            counts = next(steps, None)
            if counts is None:
                self._end()
                return
            count_pruned(counts)
            self._deleted.update(counts)

    def _end(self) -> None:
        if self._deleted.total():
            _log.info("pruned", extra={name: count for name, count in self._deleted.items() if count})
        self._steps, self._is_first = None, False
        self._deleted.clear()
