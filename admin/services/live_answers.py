"""Answers to open pages of the console that ask for themselves again, each made once for all that show the same.

A page says when it was told that something has changed; an answer that was begun later has that in it. While one is
made, others that want it wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime

#: How long an answer is kept, and how many are; pages that were told together ask within moments.
_KEPT_SECONDS, _MOST_KEPT = 10.0, 64


@dataclass(eq=False)
class _Kept:
    """The last answer about something."""

    lock: threading.Lock = field(default_factory=threading.Lock)  #: held while it is made
    used_at: float = 0.0
    begun_at: float = 0.0  #: in seconds since the epoch
    body: str | None = None


class LiveAnswers:
    """The answers that one worker has made lately."""

    def __init__(self, now: Callable[[], datetime], clock: Callable[[], float] = time.monotonic) -> None:
        """`now` is the time that all workers have in common."""
        self._now = now
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept] = {}

    def give(self, shown: Hashable, told_at: float | None, make: Callable[[], str]) -> tuple[str, bool]:
        """An answer that was begun after a time, and whether it was there; without a time one that is begun now.

        `shown` is the same for all who are shown the same.
        """
        kept = self._find(shown)
        with kept.lock:
            if told_at is not None and kept.body is not None and kept.begun_at >= told_at:
                return kept.body, True
            begun_at = self._now().timestamp()
            body = make()
            kept.begun_at, kept.body = begun_at, body
            return body, False

    def _find(self, shown: Hashable) -> _Kept:
        now = self._clock()
        with self._lock:
            for old in [key for key, kept in self._kept.items() if now > kept.used_at + _KEPT_SECONDS]:
                del self._kept[old]
            kept = self._kept.pop(shown, None) or _Kept()
            self._kept[shown] = kept
            kept.used_at = now
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return kept
