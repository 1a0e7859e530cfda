"""Keys: many rows found by several columns at once, along an index on every database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, CursorResult, Select, bindparam, func, select, tuple_

_KEYS = "keys"


class KeyedQuery:
    """A query of those rows whose columns hold one of some keys; built once, for that takes longer than to ask it."""

    def __init__(self, query: Select[*tuple[Any, ...]], columns: Sequence[ColumnElement[Any]]) -> None:
        held = tuple_(*columns)
        self._query = query.where(held.in_(bindparam(_KEYS, expanding=True)))
        # SQLite uses no index for a list of keys, but does for a query.
        given = func.json_each(bindparam(_KEYS)).table_valued("value")
        parts = (func.json_extract(given.c.value, f"$[{number}]") for number in range(len(columns)))
        self._query_of_sqlite = query.where(held.in_(select(*parts)))

    def execute(
        self, connection: Connection, keys: Iterable[tuple[Any, ...]], **parameters: Any
    ) -> CursorResult[*tuple[Any, ...]]:
        """What is found by some keys, and by what else the query is to know."""
        if connection.dialect.name == "sqlite":
            return connection.execute(self._query_of_sqlite, {**parameters, _KEYS: json.dumps(list(keys))})
        return connection.execute(self._query, {**parameters, _KEYS: list(keys)})
