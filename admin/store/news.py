"""News of clusters: waking the agents that wait, and only those that something has happened for."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

from sqlalchemy import Column, Connection, select
from sqlalchemy.exc import SQLAlchemyError

from admin.store.database import Database
from admin.store.executions import execution_events
from admin.store.fleet import cluster_events

_INTERVAL_SECONDS = 0.05
#: Numbers are given before they are committed, so that one may come after a higher one; for this long it is looked for.
_OVERLAP_SECONDS = 2.0


class News:
    """Lets many agents wait at the price of two small queries, and no connection each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[str, set[threading.Event]] = defaultdict(set)
        self._looker: threading.Thread | None = None
        self.is_closing = False

    def expect(self, cluster: str) -> threading.Event:
        """An event that is set when something happens for a cluster from now on; give it back with `forget`."""
        event = threading.Event()
        with self._lock:
            self._waiting[cluster].add(event)
            if self.is_closing:
                event.set()
            elif self._looker is None:
                self._looker = threading.Thread(target=self._look, name="news", daemon=True)
                self._looker.start()
        return event

    def forget(self, cluster: str, event: threading.Event) -> None:
        """Wait no longer."""
        with self._lock:
            self._waiting[cluster].discard(event)
            if not self._waiting[cluster]:
                del self._waiting[cluster]

    def close(self) -> None:
        """Let everyone go, for the process is to stop."""
        with self._lock:
            self.is_closing = True
            for events in self._waiting.values():
                for event in events:
                    event.set()
            looker = self._looker
        if looker is not None:
            looker.join(timeout=5)

    def _look(self) -> None:
        tails = [_Tail(execution_events.c.id, execution_events.c.cluster)]
        tails.append(_Tail(cluster_events.c.number, cluster_events.c.cluster))
        is_first = True  # what happened before the first look is known to nobody: all ask again
        while True:
            names: set[str] = set()
            try:
                with self._database.reading() as connection:
                    for tail in tails:
                        names |= tail.read(connection)
            except SQLAlchemyError:
                names = set()  # whoever waits asks again before long
            with self._lock:
                for name in list(self._waiting) if is_first else names:
                    for event in self._waiting.get(name, ()):
                        event.set()
                is_first = False
                if self.is_closing or not self._waiting:
                    self._looker = None
                    return
            time.sleep(_INTERVAL_SECONDS)


class _Tail:
    """The end of a table that grows."""

    def __init__(self, number: Column[Any], cluster: Column[Any]) -> None:
        self._number, self._cluster = number, cluster
        self._low: int | None = None
        self._seen: dict[int, float] = {}

    def read(self, connection: Connection) -> set[str]:
        """The clusters of rows that were not there before."""
        if self._low is None:
            last = connection.execute(select(self._number).order_by(self._number.desc()).limit(1)).scalar()
            self._low = max(0, (last or 0) - 1000)
            rows = connection.execute(select(self._number).where(self._number > self._low))
            self._seen = {number: time.monotonic() for (number,) in rows}
            return set()
        now = time.monotonic()
        found = connection.execute(select(self._number, self._cluster).where(self._number > self._low))
        new = {number: cluster for number, cluster in found if number not in self._seen}
        self._seen |= dict.fromkeys(new, now)
        settled = [number for number, seen in self._seen.items() if seen < now - _OVERLAP_SECONDS]
        if settled:
            self._low = max(self._low, *settled)
            self._seen = {number: seen for number, seen in self._seen.items() if number > self._low}
        return {cluster for cluster in new.values() if cluster is not None}
