"""Recent changes: which rows the last changes were of, so that a reader can tell whether what it read has changed."""

from __future__ import annotations

from collections import deque
from itertools import islice

from admin.core.changes import RowKey

#: Changes that are remembered.
MOST_RECENT = 1000


class RecentChanges:
    """The rows of the last changes of any noun, counted by marks.

    Marks count changes, not revisions: a database that has lost revisions gives others their numbers.
    """

    def __init__(self) -> None:
        self.mark = 0  #: how many changes there were; those that are forgotten count as one that nobody knows
        self._keys: deque[RowKey] = deque(maxlen=MOST_RECENT)

    def add(self, key: RowKey) -> None:
        self._keys.append(key)
        self.mark += 1

    def since(self, mark: int) -> list[RowKey] | None:
        """The rows of the changes since a mark, newest first; None where there are too many to know."""
        count = self.mark - mark
        return None if count > len(self._keys) else list(islice(reversed(self._keys), count))

    def forget(self) -> None:
        """Clear all of them, so that everything may have changed."""
        self._keys.clear()
        self.mark += 1
