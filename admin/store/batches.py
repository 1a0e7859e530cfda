"""Batches: many rows written in one statement, at little more than the price of one.

PostgreSQL takes all of them as one JSON document; SQLite, which is in this process, row by row in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Dialect, Table

from admin.core.json_text import json_text
from admin.store.database import UtcDateTime

Rows = Sequence[Mapping[str, Any]]


def insert_all(connection: Connection, table: Table, rows: Rows, *, if_new: bool = False) -> None:
    """Store new rows, all with the same columns; with `if_new` those whose keys are taken are left out."""
    if rows:
        _insertion(table, tuple(rows[0]), connection.dialect, if_new=if_new).execute(connection, rows)


def update_all(connection: Connection, table: Table, rows: Rows, key: str = "id") -> None:
    """Change rows, each to values of its own under the same names; the `key` says which."""
    if rows:
        names = tuple(name for name in rows[0] if name != key)
        _update(table, key, names, connection.dialect).execute(connection, rows)


class Binding:
    """Brings values of some columns into the form in which a database's driver takes them."""

    def __init__(self, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        types = [column.type.dialect_impl(dialect) for column in columns]
        found = [(number, type.bind_processor(dialect)) for number, type in enumerate(types)]
        self._processors = [
            (number, lru_cache(maxsize=16)(process) if isinstance(types[number], UtcDateTime) else process)
            for number, process in found  # most times in a batch are the same
            if process is not None
        ]

    def __call__(self, values: list[Any]) -> list[Any]:
        """The same list, with the values brought into form."""
        for number, process in self._processors:
            values[number] = process(values[number])
        return values


class _Statement:
    """SQL that takes a whole batch."""

    def __init__(self, sql: str, table: Table, names: tuple[str, ...], dialect: Dialect) -> None:
        self._sql = sql
        self._names = names
        self._bind = Binding([table.c[name] for name in names], dialect)

    def execute(self, connection: Connection, rows: Rows) -> None:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(self._sql, {"rows": json_text(rows).decode()})
        else:
            names, bind = self._names, self._bind
            connection.exec_driver_sql(self._sql, [tuple(bind([row[name] for name in names])) for row in rows])


@lru_cache(maxsize=256)
def _insertion(table: Table, names: tuple[str, ...], dialect: Dialect, *, if_new: bool) -> _Statement:
    columns = ", ".join(map(_quote(dialect), names))
    source = f"VALUES ({', '.join('?' * len(names))})"
    if dialect.name == "postgresql":
        source = f"SELECT {columns} FROM {_given(table, names, dialect)}"
    conflict = " ON CONFLICT DO NOTHING" if if_new else ""
    return _Statement(f"INSERT INTO {table.name} ({columns}) {source}{conflict}", table, names, dialect)


@lru_cache(maxsize=256)
def _update(table: Table, key: str, names: tuple[str, ...], dialect: Dialect) -> _Statement:
    quoted = list(map(_quote(dialect), names))
    if dialect.name == "postgresql":
        new = ", ".join(f"{name} = given.{name}" for name in quoted)
        given = _given(table, (key, *names), dialect)
        sql = f"UPDATE {table.name} SET {new} FROM {given} WHERE {table.name}.{key} = given.{key}"
    else:
        sql = f"UPDATE {table.name} SET {', '.join(f'{name} = ?' for name in quoted)} WHERE {key} = ?"
    return _Statement(sql, table, (*names, key), dialect)


def _given(table: Table, names: tuple[str, ...], dialect: Dialect) -> str:
    """The rows of a batch as PostgreSQL reads them."""
    quote = _quote(dialect)
    columns = [f"{quote(name)} {table.c[name].type.compile(dialect)}" for name in names]
    return f"json_to_recordset(%(rows)s::json) AS given ({', '.join(columns)})"


def _quote(dialect: Dialect) -> Callable[[str], str]:
    return dialect.identifier_preparer.quote
