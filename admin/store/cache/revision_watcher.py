"""RevisionWatcher: waiting for something that is numbered, however many wait, at the price of one small query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.store.database import Database

_INTERVAL_SECONDS = 0.05


class RevisionWatcher:
    """Wakes whoever waits for the next revision, or the next event, also one that another process made.

    One thread looks at the database while somebody waits, and ends when nobody does. A waiter holds no connection.
    """

    def __init__(self, database: Database, last: Callable[[Connection], int]) -> None:
        self._database = database
        self._last = last  #: reads the number of the last one
        self._changed = threading.Condition()
        self._head = -1
        self._waiters = 0
        self._looker: threading.Thread | None = None
        self.is_closing = False

    def wait_above(self, number: int, seconds: float) -> None:
        """Return when there is one above a number, when the time is over, or when the process is to stop."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._waiters += 1
            if self._looker is None:
                looker = threading.Thread(target=self._look, name="heads", daemon=True)
                looker.start()
                self._looker = looker
            while self._head <= number and not self.is_closing:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            self._waiters -= 1

    def close(self) -> None:
        """Let everyone go, for the process is to stop."""
        with self._changed:
            self.is_closing = True
            self._changed.notify_all()
            looker = self._looker
        if looker is not None:
            looker.join(timeout=5)  # it may hold a connection, which should be given back

    def _look(self) -> None:
        while True:
            head = self._read()
            with self._changed:
                if head > self._head:
                    self._head = head
                    self._changed.notify_all()
                if self._waiters == 0 or self.is_closing:
                    self._looker = None
                    return
            time.sleep(_INTERVAL_SECONDS)

    def _read(self) -> int:
        try:
            with self._database.reading() as connection:
                return self._last(connection)
        except SQLAlchemyError:
            return -1  # whoever waits finds out by asking again
