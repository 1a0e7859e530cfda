"""Limits on waiting: how many requests may wait at once, so that threads are left for those that do not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from admin.errors import TooManyWait

#: Threads of a process that waiting requests must leave for others.
_SPARE_THREADS = 32


class Wait(StrEnum):
    """What a request may wait for."""

    SYNC = "work for a cluster"
    EXECUTION = "an event of an execution"
    LOG = "more of a log"
    REVISION = "a revision"


class WaitLimiter:
    """Counts the requests that wait.

    Agents may take every slot, for which a worker is sized; each other kind of wait an eighth of the threads.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads - max(1, min(_SPARE_THREADS, threads // 4))
        self._most_of_kind = max(1, threads // 8)
        self._lock = threading.Lock()
        self._waiting: Counter[Wait] = Counter()

    def waiting(self, kind: Wait) -> int:
        """How many requests of a kind wait now."""
        return self._waiting[kind]

    @contextmanager
    def slot(self, kind: Wait) -> Iterator[WaitSlot]:
        """A slot for a request that may have to wait; it is freed at the end of the context."""
        slot = WaitSlot(self, kind)
        try:
            yield slot
        finally:
            if slot.is_taken:
                with self._lock:
                    self._waiting[kind] -= 1

    def take(self, kind: Wait) -> bool:
        """Count one more that waits, unless there are too many."""
        with self._lock:
            most = self._most if kind is Wait.SYNC else self._most_of_kind
            is_free = self._waiting.total() < self._most and self._waiting[kind] < most
            self._waiting[kind] += is_free
            return is_free


class WaitSlot:
    """The slot of one request, taken when it begins to wait."""

    def __init__(self, limiter: WaitLimiter, kind: Wait) -> None:
        self._limiter = limiter
        self._kind = kind
        self.is_taken = False

    def take(self) -> bool:
        """Take the slot, if it is not taken yet; False where too many wait."""
        self.is_taken = self.is_taken or self._limiter.take(self._kind)
        return self.is_taken

    def require(self) -> None:
        """Take the slot; TooManyWait where too many wait."""
        if not self.take():
            raise TooManyWait(f"Too many requests wait for {self._kind.value} already. Ask without waiting, or later.")
