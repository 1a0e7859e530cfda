"""Statistics: a database that grows from nothing is told to look at its tables before it plans badly for long."""

from __future__ import annotations

import time

from admin.services.context import Context
from admin.store import statistics

_LOOK_SECONDS = 1.0


class StatisticsLoop:
    """One round: have those tables looked at that have grown unseen.

    Without statistics PostgreSQL finds one execution among all of its project and domain, for every report of an agent.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next_look = 0.0
        self._seen: set[str] = set()  #: once is enough: from then on the database looks by itself, as far as it may

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        with self._context.database.autocommit() as connection:
            for table in statistics.unknown_tables(connection):
                if table not in self._seen:
                    statistics.gather(connection, table)
                    self._seen.add(table)
