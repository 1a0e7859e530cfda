"""Joint writes: what several threads write at the same time goes into one transaction."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: So many at once that a commit is shared by all who wait, for it writes a page once however many rows have changed
#: it; and so few that none of them waits long.
_MOST = 1024
#: Where several came at the same time more are on their way, and a commit costs more than to wait for them.
_LINGER_SECONDS = 0.001
_FREELY: AbstractContextManager[object] = nullcontext()


class _Turn(Generic[Item, Outcome]):
    """What one thread wants to write, and what became of it."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.outcomes: list[Outcome] = []
        self.failure: Exception | None = None
        self.is_done = False
        self.woken = threading.Event()  #: it is done, or it is this thread's turn to write for all who wait


class GroupCommit(Generic[Item, Outcome]):
    """Gathers items while a batch is written, and writes them as the next one.

    Who comes alone writes at once. Whoever comes meanwhile waits, and the first of them then writes for them all.
    Each is answered after the commit of its own batch.
    """

    def __init__(
        self,
        write: Callable[[list[Item]], list[Outcome]],
        most: int = _MOST,
        right: AbstractContextManager[object] = _FREELY,
    ) -> None:
        self._write = write
        self._most = most
        self._right = right  #: to write; who comes while it is waited for comes along
        self._lock = threading.Lock()
        self._waiting: deque[_Turn[Item, Outcome]] = deque()
        self._is_writing = False
        self._had_company = False

    def submit(self, items: list[Item]) -> list[Outcome]:
        """Write some items, together with what others want to write; answers what became of each."""
        mine: _Turn[Item, Outcome] = _Turn(items)
        with self._lock:
            self._waiting.append(mine)
            writes = not self._is_writing
            self._is_writing = True
        if not writes:
            mine.woken.wait()
        if not mine.is_done:
            self._write_next()
        if mine.failure is not None:
            raise mine.failure
        return mine.outcomes

    def _write_next(self) -> None:
        if self._had_company:
            time.sleep(_LINGER_SECONDS)
        batch: list[_Turn[Item, Outcome]] = []
        try:
            with self._right:
                batch = self._next_batch()
                self._settle(batch)
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_writing = following is not None
            for turn in batch:
                turn.is_done = True
                turn.woken.set()
            if following is not None:
                following.woken.set()

    def _next_batch(self) -> list[_Turn[Item, Outcome]]:
        with self._lock:
            batch = [self._waiting.popleft()]
            size = len(batch[0].items)
            while self._waiting and size + len(self._waiting[0].items) <= self._most:
                batch.append(self._waiting.popleft())
                size += len(batch[-1].items)
            self._had_company = len(batch) > 1 or bool(self._waiting)
        return batch

    def _settle(self, batch: list[_Turn[Item, Outcome]]) -> None:
        try:
            outcomes = iter(self._write([item for turn in batch for item in turn.items]))
            for turn in batch:
                turn.outcomes = [next(outcomes) for _ in turn.items]
        except Exception as failure:
            if len(batch) == 1:
                batch[0].failure = failure
                return
            for turn in batch:  # what one of them has spoilt is not the others' fault
                self._settle([turn])
