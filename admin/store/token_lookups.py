"""Lookups of tokens that are in nobody's memory, while somebody sends wrong ones."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from admin.store.cache.following import CACHE_SECONDS
from admin.store.database import Database
from admin.store.dialects.postgresql import answering_soon
from admin.store.tokens import TokenTable

#: Between the starts of two lookups.
LOOKUP_SECONDS = 0.05
#: Tokens that wait for a lookup at once, and those that are remembered as wrong.
MOST_WAITING, MOST_WRONG = 64, 4096


class _Round:
    """Tokens that are looked up together."""

    def __init__(self) -> None:
        self.prefixes: dict[TokenTable, set[str]] = {}
        self.hashes: set[str] = set()  #: of those that are good
        self.failure: SQLAlchemyError | None = None
        self.is_over = threading.Event()


class TokenLookups:
    """Looks up tokens together, those that come while the last lookup is too recent.

    A right token is then told from a wrong one however new it is, and those who send wrong tokens cost the database a
    bounded number of queries a second. Whoever asks waits that long at most.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.places = threading.Semaphore(MOST_WAITING)  #: of those who wait
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: _Round | None = None
        self._next_at = -math.inf
        self._wrong: dict[str, float] = {}  #: hashes of tokens that were wrong, each with when it is looked up again

    def has(self, database: Database, table: TokenTable, prefix: str, hashed: str, now: datetime) -> bool:
        """Whether a token is good; one that was wrong is not looked up again within a second."""
        if self._wrong.get(hashed, -math.inf) > self._monotonic():
            return False
        with self._lock:
            is_first = self._open is None
            if self._open is None:
                self._open = _Round()
            joined = self._open
            joined.prefixes.setdefault(table, set()).add(prefix)
        if is_first:
            self._look(database, joined, now)
        joined.is_over.wait()
        if joined.failure is not None:
            raise joined.failure
        if hashed in joined.hashes:
            return True
        if len(self._wrong) >= MOST_WRONG:
            self._wrong = {}
        self._wrong[hashed] = self._monotonic() + CACHE_SECONDS
        return False

    def _look(self, database: Database, joined: _Round, now: datetime) -> None:
        """Look up the tokens of a round, once the last one is long enough ago."""
        try:
            pause = self._next_at - self._monotonic()
            if pause > 0:
                self._sleep(pause)
            with self._lock:
                self._open, self._next_at = None, self._monotonic() + LOOKUP_SECONDS
            with database.reading() as connection, answering_soon(connection):
                for table, prefixes in joined.prefixes.items():
                    joined.hashes |= table.live_hashes(connection, prefixes, now)
        except SQLAlchemyError as error:
            joined.failure = error
        finally:
            joined.is_over.set()
            with self._lock:
                self._open = None if self._open is joined else self._open
