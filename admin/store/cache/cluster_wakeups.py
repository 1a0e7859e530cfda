"""ClusterWakeups of clusters: waking the agents that wait, and only those that something has happened for."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.store import fleet
from admin.store.cache.append_cursor import AppendCursor
from admin.store.database import Database
from admin.store.executions import execution_events
from admin.store.fleet import cluster_events

_INTERVAL_SECONDS = 0.05
#: How often somebody looks whether an agent that waits has said something newer, or its cluster was defined anew.
_LISTEN_SECONDS = 2.0
#: Threads of a process that no waiting agent may take, so that everybody else is answered.
_SPARE_THREADS = 32

#: Waits for an event, at most for some seconds; whether the event came.
Wait = Callable[[threading.Event, float], bool]


class Waiting:
    """One agent that waits."""

    def __init__(self, wait: Wait, *, is_crowded: bool) -> None:
        self.is_crowded = is_crowded  #: whether too many wait already, so that this one should not
        self._event = threading.Event()
        self._wait = wait
        self._heard_at: datetime | None = None

    def sleep(self, seconds: float, heard_at: datetime | None) -> bool:
        """Wait for news, or until the agent was heard at another time than this; False where time is over."""
        self._heard_at = heard_at
        is_woken = self._wait(self._event, seconds)
        self._heard_at = None
        self._event.clear()
        return is_woken

    def wake(self) -> None:
        self._event.set()

    def wake_unless(self, heard_at: datetime | None) -> None:
        """Wake it, unless its agent was last heard when it thinks it was."""
        if self._heard_at not in (None, heard_at):
            self._event.set()


class ClusterWakeups:
    """Lets many agents wait at the price of a few small queries, and no connection each."""

    def __init__(self, database: Database, threads: int, wait: Wait = threading.Event.wait) -> None:
        self._database = database
        self._wait = wait
        self._most = threads - max(1, min(_SPARE_THREADS, threads // 4))
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Waiting]] = defaultdict(set)
        self._count = 0
        self._looker: threading.Thread | None = None
        self.is_closing = False

    @contextmanager
    def subscribe(self, cluster: str) -> Iterator[Waiting]:
        """Wait, within the context, for what happens for a cluster from now on."""
        with self._lock:
            waiting = Waiting(self._wait, is_crowded=self._count >= self._most)
            self._waiting[cluster].add(waiting)
            self._count += 1
            if self.is_closing:
                waiting.wake()
            elif self._looker is None:
                self._looker = threading.Thread(target=self._look, name="news", daemon=True)
                self._looker.start()
        try:
            yield waiting
        finally:
            with self._lock:
                self._count -= 1
                self._waiting[cluster].discard(waiting)
                if not self._waiting[cluster]:
                    del self._waiting[cluster]

    def close(self) -> None:
        """Let everyone go, for the process is to stop."""
        with self._lock:
            self.is_closing = True
            self._wake(None)
            looker = self._looker
        if looker is not None:
            looker.join(timeout=5)

    def _wake(self, names: set[str] | None) -> None:
        """Wake the agents of some clusters, or all."""
        for name in list(self._waiting) if names is None else names & self._waiting.keys():
            for one in self._waiting[name]:
                one.wake()

    def _look(self) -> None:
        """Look until nobody waits any more."""
        look = _Look()
        while True:
            try:
                with self._database.reading() as connection:
                    look.again(connection)
            except SQLAlchemyError:
                look = _Look()  # when the database is back, all who wait ask again
            with self._lock:
                self._wake(None if look.is_for_all else look.clusters)
                for name in look.heard.keys() & self._waiting.keys():
                    for one in self._waiting[name]:
                        one.wake_unless(look.heard[name])
                if self.is_closing or not self._waiting:
                    self._looker = None
                    return
            time.sleep(_INTERVAL_SECONDS)


class _Look:
    """What has happened since the last look."""

    def __init__(self) -> None:
        self.is_for_all = False  #: whether nobody knows for whom something has happened
        self.clusters: set[str] = set()  #: for which something has happened
        self.heard: dict[str, datetime | None] = {}  #: when agents were last heard, now and then
        self._tails = [
            AppendCursor(execution_events.c.id, execution_events.c.cluster),
            AppendCursor(cluster_events.c.number, cluster_events.c.cluster),
        ]
        self._is_first = True
        self._defined = -1
        self._listen_at = 0.0

    def again(self, connection: Connection) -> None:
        """Look once more; what happened before the first look is known to nobody."""
        self.is_for_all, self._is_first = self._is_first, False
        self.clusters = set().union(*(tail.read(connection) for tail in self._tails))
        self.heard = {}
        if time.monotonic() >= self._listen_at:
            self._listen_at = time.monotonic() + _LISTEN_SECONDS
            self._listen(connection)

    def _listen(self, connection: Connection) -> None:
        """What no event tells of."""
        self.heard = fleet.heard(connection)
        defined = fleet.clusters_defined_above(connection, self._defined)
        self._defined = max([self._defined, *defined.values()])
        self.clusters |= defined.keys()
        for tail in self._tails:
            self.is_for_all |= tail.is_cut(connection)
