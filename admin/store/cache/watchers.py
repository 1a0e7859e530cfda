"""Watchers: many requests wait for the next revision or event at the price of one small query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.store.database import Database

_INTERVAL_SECONDS = 0.05


class SequenceWatcher:
    """Wakes the threads that wait for the next number of a sequence, also one that another process committed.

    One thread polls the database while there are waiters. A waiter holds no connection.
    """

    def __init__(self, database: Database, read_last: Callable[[Connection], int]) -> None:
        self._database = database
        self._read_last = read_last
        self._changed = threading.Condition()
        self._last = -1
        self._waiters = 0
        self._poller: threading.Thread | None = None
        self.is_closing = False

    @property
    def waiters(self) -> int:
        """How many threads wait now."""
        return self._waiters

    def wait_above(self, number: int, seconds: float) -> None:
        """Return when there is a higher number, when the time is over, or when the process is to stop."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._waiters += 1
            if self._poller is None:
                poller = threading.Thread(target=self._poll, name="watcher", daemon=True)
                poller.start()
                self._poller = poller
            while self._last <= number and not self.is_closing:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            self._waiters -= 1

    def close(self) -> None:
        """Wake every waiter and end the polling thread."""
        with self._changed:
            self.is_closing = True
            self._changed.notify_all()
            poller = self._poller
        if poller is not None:
            poller.join(timeout=5)  # it may hold a connection, which should be given back

    def _poll(self) -> None:
        while True:
            last = self._read()
            with self._changed:
                if last > self._last:
                    self._last = last
                    self._changed.notify_all()
                if self._waiters == 0 or self.is_closing:
                    self._poller = None
                    return
            time.sleep(_INTERVAL_SECONDS)

    def _read(self) -> int:
        try:
            with self._database.reading() as connection:
                return self._read_last(connection)
        except SQLAlchemyError:
            return -1  # the waiters find out by their own queries
