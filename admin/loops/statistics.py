"""Statistics: tables that grow from nothing are analyzed before PostgreSQL plans badly for long."""

from __future__ import annotations

import time

from admin.services.context import Context
from admin.store import statistics

_INTERVAL_SECONDS = 1.0


class StatisticsLoop:
    """One round: analyze the tables that have grown and were never analyzed.

    Without statistics PostgreSQL finds one execution among all of its project and domain, for every report of an agent.
    """

    def __init__(self, context: Context, *, interval: float = _INTERVAL_SECONDS) -> None:
        self._context = context
        self._interval = interval
        self._next_look = 0.0
        self._analyzed: set[str] = set()  #: once is enough: from then on autovacuum does, as far as it may

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._interval
        with self._context.database.autocommit() as connection:
            for table in statistics.tables_without_statistics(connection):
                if table not in self._analyzed:
                    statistics.analyze(connection, table)
                    self._analyzed.add(table)
