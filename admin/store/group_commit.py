"""Group commit: what several threads write at the same time goes into one transaction."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeout

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

#: Items in one batch: many enough to share the cost of a commit, few enough for a short commit.
_MAX_ITEMS = 1024
#: After a shared commit more writers are likely to follow, and waiting this long for them costs less than a commit.
_LINGER_SECONDS = 0.001
_NO_LOCK: AbstractContextManager[object] = nullcontext()
#: Failures of the database itself, which one item is rarely to blame for.
_TROUBLE = (InterfaceError, InternalError, OperationalError, SQLAlchemyTimeout)
#: A deadlock and a failed serialization, which are over when they are reported, so that trying again is not in vain.
_TRANSIENT_CODES = ("40P01", "40001")
#: How long items are tried on their own while the database is in trouble; the others of a batch then fail as it did.
_TROUBLE_SECONDS = 1.0


class _Submission(Generic[Item, Outcome]):
    """The items of one thread, and their outcomes."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.outcomes: list[Outcome] = []
        self.failure: Exception | None = None
        self.is_done = False
        #: Released when it is done, or this thread is to write the next batch; an Event would cost five times as much.
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupCommit(Generic[Item, Outcome]):
    """Gathers items while a batch is written, and writes them as the next one.

    A lone writer commits at once; writers arriving during a commit queue, and the first of them commits for all.
    Each is answered after the commit of its own batch.
    """

    def __init__(
        self,
        write: Callable[[list[Item]], list[Outcome]],
        max_items: int = _MAX_ITEMS,
        lock: AbstractContextManager[object] = _NO_LOCK,
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._write_lock = lock  #: taken for each batch; writers that arrive while it is waited for join the batch
        self._lock = threading.Lock()
        self._queue: deque[_Submission[Item, Outcome]] = deque()
        self._is_writing = False
        self._was_shared = False
        self._open: list[_Submission[Item, Outcome]] | None = None  #: the batch that is being written, if it may grow

    @property
    def queued(self) -> int:
        """How many submissions wait to be written."""
        return len(self._queue)

    def submit(self, items: list[Item]) -> list[Outcome]:
        """Write items, together with those of other threads; returns the outcome of each."""
        submission: _Submission[Item, Outcome] = _Submission(items)
        with self._lock:
            self._queue.append(submission)
            is_writer = not self._is_writing
            self._is_writing = True
        if not is_writer:
            submission.woken.acquire()
        if not submission.is_done:
            self._write_next()
        if submission.failure is not None:
            raise submission.failure
        return submission.outcomes

    def join(self) -> list[Item]:
        """Further items for the batch that is being written, for a writer that has waited for something meanwhile."""
        batch, self._open = self._open, None
        if batch is None:
            return []
        joined = self._next_batch(sum(len(submission.items) for submission in batch))
        batch += joined
        return [item for submission in joined for item in submission.items]

    def _write_next(self) -> None:
        if self._was_shared:
            time.sleep(_LINGER_SECONDS)
        batch: list[_Submission[Item, Outcome]] = []
        try:
            with self._write_lock:
                batch = self._open = self._next_batch()
                self._write_batch(batch)
        except Exception as failure:
            if batch:
                raise
            batch = self._fail_all(failure)  # the lock could not be had
        finally:
            self._open = None
            with self._lock:
                following = self._queue[0] if self._queue else None
                self._is_writing = following is not None
            for submission in batch:
                submission.is_done = True
                submission.woken.release()
            if following is not None:
                following.woken.release()

    def _fail_all(self, failure: Exception) -> list[_Submission[Item, Outcome]]:
        with self._lock:
            batch = list(self._queue)
            self._queue.clear()
        for submission in batch:
            submission.failure = failure
        return batch

    def _next_batch(self, size: int = 0) -> list[_Submission[Item, Outcome]]:
        """What goes into a batch that has so many items: at least one submission, if it has none."""
        batch: list[_Submission[Item, Outcome]] = []
        with self._lock:
            while self._queue and (not size or size + len(self._queue[0].items) <= self._max_items):
                batch.append(self._queue.popleft())
                size += len(batch[-1].items)
            self._was_shared = len(batch) > 1 or bool(self._queue)
        return batch

    def _write_batch(self, batch: list[_Submission[Item, Outcome]]) -> None:
        begun_at = time.monotonic()
        try:
            outcomes = iter(self._write([item for submission in batch for item in submission.items]))
            for submission in batch:
                submission.outcomes = [next(outcomes) for _ in submission.items]
        except Exception as failure:
            self._open = None
            if len(batch) == 1:
                batch[0].failure = failure
                return
            for submission in batch:  # one bad item must not fail the submissions of other threads
                if _is_trouble(failure) and time.monotonic() > begun_at + _TROUBLE_SECONDS:
                    submission.failure = failure
                else:
                    self._write_batch([submission])


def _is_trouble(failure: Exception) -> bool:
    cause = failure.orig if isinstance(failure, DBAPIError) else None
    return isinstance(failure, _TROUBLE) and getattr(cause, "sqlstate", None) not in _TRANSIENT_CODES
