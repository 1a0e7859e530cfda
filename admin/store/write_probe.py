"""The write probe: whether the database can be written, found out by a small write every few seconds at most."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from admin.store import loop_leases
from admin.store.database import Database

#: How long an answer is good for: a good one, and a bad one.
_GOOD_SECONDS = 5.0
_BAD_SECONDS = 1.0
#: A row of its own; a write that is rolled back would not detect a full disk.
_NAME = "write-probe"


class WriteProbe:
    """Remembers its last answer for a few seconds."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()  #: one probe at a time, whose answer serves all who wait for it
        self._failure: SQLAlchemyError | None = None
        self._good_until = 0.0

    def check(self, now: datetime) -> None:
        """SQLAlchemyError where the database cannot be written."""
        with self._lock:
            if self._monotonic() >= self._good_until:
                self._failure = self._write(now)
                self._good_until = self._monotonic() + (_BAD_SECONDS if self._failure else _GOOD_SECONDS)
            if self._failure is not None:
                raise self._failure

    def _write(self, now: datetime) -> SQLAlchemyError | None:
        try:
            with self._database.writing() as connection:
                loop_leases.take(connection, _NAME, _NAME, now, 0)
        except SQLAlchemyError as failure:
            return failure
        return None
