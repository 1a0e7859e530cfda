"""Tails: the end of a table that grows, read row by row as it does."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Column, Connection, bindparam, func, select

#: Numbers are given before they are committed, so that one may come after a higher one; for this long it is looked for.
_LATE_SECONDS = 10.0
_MOST_MISSING = 10_000


class AppendCursor:
    """Says of each new row, once, which cluster it is about."""

    def __init__(self, number: Column[Any], cluster: Column[Any]) -> None:
        self._highest = select(func.coalesce(func.max(number), 0))
        # A range with two ends is thought to be short even by a database that knows nothing of the table yet.
        self._new = select(number, cluster).where(number > bindparam("last"), number <= self._highest.scalar_subquery())
        late = select(number, cluster).where(number.in_(bindparam("missing", expanding=True)))
        self._new_and_late = self._new.union_all(late)
        self._last: int | None = None
        self._missing: dict[int, float] = {}  #: numbers that were left out, and when that was seen

    def read(self, connection: Connection) -> set[str]:
        """The clusters of the rows that were not there at the last call; at the first one nothing is new."""
        now = time.monotonic()
        if self._last is None:
            self._last = max(0, self._end(connection) - _MOST_MISSING)
            self._note([row[0] for row in connection.execute(self._new, {"last": self._last})], now)
            return set()
        if self._missing:
            wanted = {"last": self._last, "missing": list(self._missing)}
            rows = connection.execute(self._new_and_late, wanted).all()
            self._missing = {number: seen for number, seen in self._missing.items() if seen > now - _LATE_SECONDS}
        else:
            rows = connection.execute(self._new, {"last": self._last}).all()
        self._note([row[0] for row in rows], now)
        return {row[1] for row in rows if row[1] is not None}

    def is_cut(self, connection: Connection) -> bool:
        """Whether the last rows were taken away, so that their numbers may be given again; it goes on from there."""
        end = self._end(connection)
        if self._last is None or end >= self._last:
            return False
        self._last, self._missing = end, {}
        return True

    def _end(self, connection: Connection) -> int:
        return int(connection.execute(self._highest).scalar_one())

    def _note(self, numbers: list[int], now: float) -> None:
        """Remember what was read, and what was left out on the way."""
        assert self._last is not None
        before, self._last = self._last, max([self._last, *numbers])
        new = range(max(before, self._last - _MOST_MISSING) + 1, self._last + 1)
        if len(new) > len(numbers) or self._missing:
            self._missing |= dict.fromkeys(new, now)
            for number in numbers:
                self._missing.pop(number, None)
