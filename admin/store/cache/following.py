"""Following: what was read of the database is kept while a number there, looked at twice a second, stays the same."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy.exc import SQLAlchemyError

#: How old the last look may be that a request is answered by.
CACHE_SECONDS = 1.0
#: After so long one request looks again; the others need not wait for it before the last look is too old.
LOOK_SECONDS = CACHE_SECONDS / 2

Value = TypeVar("Value")


class _Look(NamedTuple, Generic[Value]):
    began: float
    forgotten: int  #: how often everything had been forgotten when it began
    value: Value


class _Failure(NamedTuple):
    began: float
    error: SQLAlchemyError


class Following(Generic[Value]):
    """A value that follows the database; no request gets one that was looked at more than a second ago."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._looking = threading.Lock()
        self._last: _Look[Value] | None = None
        self._failure: _Failure | None = None
        self._forgotten = 0

    @property
    def latest(self) -> Value | None:
        """The value of the last look, however old that is."""
        return None if self._last is None else self._last.value

    @property
    def recent(self) -> Value | None:
        """The same, but None where requests are no longer answered by it."""
        last = self._last
        return None if last is None or self._age(last, self.monotonic()) >= CACHE_SECONDS else last.value

    @property
    def kept(self) -> Value | None:
        """The same, but None once it is to be forgotten."""
        last = self._last
        return None if last is None or last.forgotten != self._forgotten else last.value

    def current(self, look: Callable[[Value | None], Value]) -> Value:
        """The value; `look` brings the last one up to date."""
        asked_at, last = self.monotonic(), self._last
        age = self._age(last, asked_at)
        if last is not None and age < LOOK_SECONDS:
            return last.value
        if not self._looking.acquire(blocking=age >= CACHE_SECONDS):
            assert last is not None
            return last.value  # another request looks
        try:
            return self._look(look, asked_at)
        finally:
            self._looking.release()

    def _look(self, look: Callable[[Value | None], Value], asked_at: float) -> Value:
        last, failure = self._last, self._failure
        if last is not None and self._age(last, asked_at) < LOOK_SECONDS:
            return last.value  # another request has looked meanwhile
        if failure is not None and failure.began >= asked_at:
            raise failure.error  # another one has just failed; to wait as long again would tell no more
        began, forgotten = self.monotonic(), self._forgotten
        try:
            value = look(self.latest)
        except SQLAlchemyError as error:
            self._failure = _Failure(began, error)
            raise
        self._last = _Look(began, forgotten, value)
        return value

    def forget(self) -> None:
        """Look again before the next answer, after something has changed."""
        self._forgotten += 1

    def _age(self, last: _Look[Value] | None, now: float) -> float:
        return math.inf if last is None or last.forgotten != self._forgotten else now - last.began
