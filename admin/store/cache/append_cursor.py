"""Append cursors: follow a table that grows, and report each new row once."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection, bindparam, func, select

from admin.store.sql_types import TableColumn

#: Numbers are assigned before they are committed, so a row may appear after a higher one; for so long it is looked for.
_LATE_SECONDS = 10.0
_MAX_MISSING = 10_000


class AppendCursor:
    """Reads of each new row, once, which cluster it is about."""

    def __init__(
        self,
        number: TableColumn,
        cluster: TableColumn,
        *,
        late_seconds: float = _LATE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._late_seconds = late_seconds
        self._clock = clock
        self._highest = select(func.coalesce(func.max(number), 0))
        # With an upper bound the range is estimated as short even before the table has statistics.
        self._new = select(number, cluster).where(number > bindparam("last"), number <= self._highest.scalar_subquery())
        late = select(number, cluster).where(number.in_(bindparam("missing", expanding=True)))
        self._new_and_late = self._new.union_all(late)
        self._last: int | None = None
        self._missing: dict[int, float] = {}  #: numbers that were skipped, and when that was noticed

    @property
    def missing(self) -> int:
        """How many skipped numbers it looks for."""
        return len(self._missing)

    def read(self, connection: Connection) -> set[str]:
        """The clusters of the rows that appeared since the last call; none at the first call."""
        now = self._clock()
        if self._last is None:
            self._last = max(0, self._end(connection) - _MAX_MISSING)
            self._note([row[0] for row in connection.execute(self._new, {"last": self._last})], now)
            return set()
        if self._missing:
            parameters = {"last": self._last, "missing": list(self._missing)}
            rows = connection.execute(self._new_and_late, parameters).all()
            oldest = now - self._late_seconds
            self._missing = {number: noticed for number, noticed in self._missing.items() if noticed > oldest}
        else:
            rows = connection.execute(self._new, {"last": self._last}).all()
        self._note([row[0] for row in rows], now)
        return {row[1] for row in rows if row[1] is not None}

    def is_cut(self, connection: Connection) -> bool:
        """Whether the last rows were deleted, so that their numbers may be assigned again; it goes on from there."""
        end = self._end(connection)
        if self._last is None or end >= self._last:
            return False
        self._last, self._missing = end, {}
        return True

    def _end(self, connection: Connection) -> int:
        return int(connection.execute(self._highest).scalar_one())

    def _note(self, numbers: list[int], now: float) -> None:
        """Note the numbers that were read, and those that were skipped between them."""
        assert self._last is not None
        before, self._last = self._last, max([self._last, *numbers])
        new = range(max(before, self._last - _MAX_MISSING) + 1, self._last + 1)
        if len(new) > len(numbers) or self._missing:
            self._missing |= dict.fromkeys(new, now)
            for number in numbers:
                self._missing.pop(number, None)
