"""Cluster wakeups: agents that wait are woken by what happens to their own clusters alone."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.store import fleet, token_grants
from admin.store.bid_tables import bids
from admin.store.cache.append_cursor import AppendCursor
from admin.store.database import Database
from admin.store.execution_tables import execution_events
from admin.store.fleet_tables import cluster_events

_INTERVAL_SECONDS = 0.05
#: How often to look for newer syncs of agents that wait, and for changed definitions of clusters.
_CHECK_SECONDS = 2.0

#: Waits for an event, at most so many seconds; returns whether it came.
Wait = Callable[[threading.Event, float], bool]


class Waiter:
    """One agent that waits."""

    def __init__(self, wait: Wait) -> None:
        self._event = threading.Event()
        self._wait = wait
        self._last_sync_at: datetime | None = None
        self.watched: Mapping[str, int] = {}  #: token pools, and how often their tokens had come free

    @property
    def is_waiting(self) -> bool:
        """Whether it waits right now, and was not woken."""
        return self._last_sync_at is not None and not self._event.is_set()

    def wait(self, seconds: float, last_sync_at: datetime | None) -> bool:
        """Wait for a wakeup, or for another sync of the agent than the one at this time; False after a timeout."""
        self._last_sync_at = last_sync_at
        is_woken = self._wait(self._event, seconds)
        self._last_sync_at = None
        self._event.clear()
        return is_woken

    def wake(self) -> None:
        self._event.set()

    def wake_if_freed(self, releases: Mapping[str, int]) -> None:
        """Wake it if tokens have come free that its executions wait for."""
        if any(releases.get(pool) != number for pool, number in self.watched.items()):
            self._event.set()

    def wake_if_overtaken(self, last_sync_at: datetime | None) -> None:
        """Wake it if the last sync of its agent is not the one that waits."""
        if self._last_sync_at not in (None, last_sync_at):
            self._event.set()


class ClusterWakeups:
    """Lets many agents wait at the cost of a few small queries, without a connection each."""

    def __init__(self, database: Database, wait: Wait = threading.Event.wait) -> None:
        self._database = database
        self._wait = wait
        self._lock = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = defaultdict(set)
        self._polls = 0
        self._poller: threading.Thread | None = None
        self.is_closing = False

    @property
    def waiting(self) -> int:
        """How many agents wait right now."""
        with self._lock:
            return sum(waiter.is_waiting for waiters in self._waiters.values() for waiter in waiters)

    @property
    def polls(self) -> int:
        """How often the database was polled for events."""
        return self._polls

    @contextmanager
    def subscribe(self, cluster: str) -> Iterator[Waiter]:
        """A waiter that is woken, within the context, by what happens to a cluster from now on."""
        with self._lock:
            waiter = Waiter(self._wait)
            self._waiters[cluster].add(waiter)
            if self.is_closing:
                waiter.wake()
            elif self._poller is None:
                self._poller = threading.Thread(target=self._poll, name="wakeups", daemon=True)
                self._poller.start()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters[cluster].discard(waiter)
                if not self._waiters[cluster]:
                    del self._waiters[cluster]

    def close(self) -> None:
        """Wake every waiter and end the polling thread."""
        with self._lock:
            self.is_closing = True
            self._wake(None)
            poller = self._poller
        if poller is not None:
            poller.join(timeout=5)

    def _wake(self, clusters: set[str] | None) -> None:
        """Wake the agents of some clusters, or all."""
        for cluster in list(self._waiters) if clusters is None else clusters & self._waiters.keys():
            for waiter in self._waiters[cluster]:
                waiter.wake()

    def _poll(self) -> None:
        """Poll while there are waiters."""
        changes = _ClusterChanges()
        while True:
            with self._lock:
                watches = any(waiter.watched for waiters in self._waiters.values() for waiter in waiters)
            try:
                with self._database.reading() as connection:
                    changes.read(connection)
                    releases = token_grants.releases(connection) if watches else None
            except SQLAlchemyError:
                changes = _ClusterChanges()  # which wakes all waiters when the database is back
                releases = None
            with self._lock:
                if releases is not None:
                    for waiters in self._waiters.values():
                        for waiter in waiters:
                            waiter.wake_if_freed(releases)
                self._wake(None if changes.is_for_all else changes.clusters)
                for cluster in changes.last_syncs.keys() & self._waiters.keys():
                    for waiter in self._waiters[cluster]:
                        waiter.wake_if_overtaken(changes.last_syncs[cluster])
                self._polls += 1
                if self.is_closing or not self._waiters:
                    self._poller = None
                    return
            time.sleep(_INTERVAL_SECONDS)


class _ClusterChanges:
    """What has happened to clusters since the last read."""

    def __init__(self) -> None:
        self.is_for_all = False  #: whether it is unknown to which clusters something happened
        self.clusters: set[str] = set()  #: that something happened to
        self.last_syncs: dict[str, datetime | None] = {}  #: of agents; read every `_CHECK_SECONDS`
        self._cursors = [
            AppendCursor(execution_events.c.id, execution_events.c.cluster),
            AppendCursor(cluster_events.c.number, cluster_events.c.cluster),
            AppendCursor(bids.c.id, bids.c.cluster),
        ]
        self._is_first = True
        self._last_definition = -1
        self._check_at = 0.0

    def read(self, connection: Connection) -> None:
        """Read what has happened; before the first read it may be anything."""
        self.is_for_all, self._is_first = self._is_first, False
        self.clusters = set().union(*(cursor.read(connection) for cursor in self._cursors))
        self.last_syncs = {}
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + _CHECK_SECONDS
            self._check(connection)

    def _check(self, connection: Connection) -> None:
        """Read what leaves no event."""
        self.last_syncs = {name: heard.last_sync_at for name, heard in fleet.heard(connection).items()}
        defined = fleet.clusters_defined_above(connection, self._last_definition)
        self._last_definition = max([self._last_definition, *defined.values()])
        self.clusters |= defined.keys()
        for cursor in self._cursors:
            self.is_for_all |= cursor.is_cut(connection)
