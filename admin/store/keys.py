"""Keys: many rows found by several columns at once, along an index on every database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, tuple_


def one_of(
    connection: Connection, columns: Sequence[ColumnElement[Any]], keys: Iterable[tuple[Any, ...]]
) -> ColumnElement[bool]:
    """Whether some columns hold one of some keys. SQLite uses no index for a list of them, but does for a query."""
    if connection.dialect.name != "sqlite":
        return tuple_(*columns).in_(list(keys))
    given = func.json_each(json.dumps(list(keys))).table_valued("value")
    parts = (func.json_extract(given.c.value, f"$[{number}]") for number in range(len(columns)))
    return tuple_(*columns).in_(select(*parts))
