"""Warnings about stored rows, of a limited number of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.settings.resolution import Row
from admin.core.settings.warnings import Warning
from admin.store import attributes
from admin.store.attributes import Filter

#: Rows that a page looks at, and that are read at once.
EXAMINED = 5000
_CHUNK = 500

#: The key that is before those of all rows.
START = ("",) * 5

#: Finds the warnings about each of some rows, which are sorted by kind.
Find = Callable[[Sequence[Row]], Iterable[tuple[Row, Sequence[Warning]]]]


@dataclass(frozen=True, kw_only=True)
class ExaminedRows:
    """The warnings about some rows."""

    warnings: list[Warning]
    examined: int
    last: tuple[str, ...] | None  #: the key after which the next page begins; None for the last page


def examine_rows(
    connection: Connection,
    conditions: Filter,
    after: tuple[str, ...] | None,
    find: Find,
    *,
    limit: int | None,
    examined: int | None = EXAMINED,
    first: Sequence[Warning] = (),
) -> ExaminedRows:
    """Warnings about rows from after a key on, until there are so many or so many rows were looked at; None for all.

    `first` are those that the page begins with. A row's own stay together.
    """
    warnings = list(first)
    count, is_full = 0, False
    last: tuple[str, ...] | None = START if after is None else after
    while not is_full:
        page = attributes.examine(connection, conditions, last, _CHUNK)
        for number, (row, warnings_of_row) in enumerate(find(page.rows)):
            is_full = limit is not None and bool(warnings) and len(warnings) + len(warnings_of_row) > limit
            if is_full:
                count += number  # the next page examines the others
                break
            warnings += warnings_of_row
            last = attributes.page_key(row)
        else:
            last = page.last
            count += page.examined
        is_full = is_full or last is None or (examined is not None and count >= examined)
    return ExaminedRows(warnings=warnings, examined=count, last=last)
