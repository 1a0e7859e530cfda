"""Batches: many rows written in one statement, at little more than the cost of one.

PostgreSQL gets the rows as one JSON document; SQLite, which runs in this process, row by row in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, Dialect, Table

from admin.core.json_text import json_string
from admin.store.database import UtcDateTime
from admin.store.dialects import is_postgresql
from admin.store.dialects.postgresql import typed_columns
from admin.store.sql_types import TableColumn

#: What PostgreSQL cannot take from a document of rows, though a column of JSON may hold it.
_NUL = "\\u0000"

Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """Rows with the same columns that are to be inserted into a table."""

    table: Table
    rows: Rows
    replaces: bool = False  #: whether rows whose primary keys are taken are updated; no key may come twice
    adds: bool = False  #: whether their numbers are added to those of rows whose primary keys are taken


def write_together(connection: Connection, insertions: Iterable[Insertion]) -> None:
    """Make several insertions, in one statement where the database has such SQL."""
    dialect = connection.dialect
    batches = [
        (
            _insertion(
                insertion.table,
                tuple(insertion.rows[0]),
                dialect,
                replaces=insertion.replaces,
                adds=insertion.adds,
            ),
            insertion.rows,
        )
        for insertion in insertions
        if insertion.rows
    ]
    documents = [statement.document(rows) for statement, rows in batches]
    if len(batches) > 1 and all(documents):
        sql = _join(tuple(statement.by_document for statement, _ in batches))
        connection.exec_driver_sql(sql, {f"rows{number}": document for number, document in enumerate(documents)})
    else:
        for statement, rows in batches:
            statement.execute(connection, rows)


def insert_all(connection: Connection, table: Table, rows: Rows, *, if_new: bool = False) -> None:
    """Insert rows with the same columns; with `if_new` those whose keys are taken are left out."""
    if rows:
        _insertion(table, tuple(rows[0]), connection.dialect, if_new=if_new).execute(connection, rows)


def update_all(connection: Connection, table: Table, rows: Rows, key: str = "id") -> None:
    """Update the same columns of several rows, each to values of its own; the column `key` says which row."""
    if rows:
        names = tuple(name for name in rows[0] if name != key)
        _update(table, key, names, connection.dialect).execute(connection, rows)


class Binding:
    """Converts the values of some columns to what the driver of a database takes."""

    def __init__(self, columns: Iterable[TableColumn], dialect: Dialect) -> None:
        types = [column.type.dialect_impl(dialect) for column in columns]
        processors = [(number, type.bind_processor(dialect)) for number, type in enumerate(types)]
        self._processors = [
            (number, lru_cache(maxsize=16)(process) if isinstance(types[number], UtcDateTime) else process)
            for number, process in processors  # most times in a batch are the same
            if process is not None
        ]

    def __call__(self, values: list[object]) -> list[object]:
        """Converts a list in place, and returns it."""
        for number, process in self._processors:
            values[number] = process(values[number])
        return values


class _Statement:
    """SQL that writes a whole batch: as one document where there is such SQL, else row by row."""

    def __init__(
        self, by_row: str, table: Table, names: tuple[str, ...], dialect: Dialect, *, by_document: str = ""
    ) -> None:
        self.by_document = by_document
        self._by_row = by_row
        self._names = names
        self._bind = Binding([table.c[name] for name in names], dialect)

    def document(self, rows: Rows) -> str:
        """The document of a batch; "" where it has to be written row by row."""
        document = json_string(rows) if self.by_document else ""
        return "" if _NUL in document and self._by_row else document

    def execute(self, connection: Connection, rows: Rows) -> None:
        if document := self.document(rows):
            connection.exec_driver_sql(self.by_document, {"rows": document})
        else:
            names, bind = self._names, self._bind
            connection.exec_driver_sql(self._by_row, [tuple(bind([row[name] for name in names])) for row in rows])


@lru_cache(maxsize=256)
def _insertion(
    table: Table,
    names: tuple[str, ...],
    dialect: Dialect,
    *,
    replaces: bool = False,
    adds: bool = False,
    if_new: bool = False,
) -> _Statement:
    columns = ", ".join(map(_quote(dialect), names))
    conflict = "ON CONFLICT DO NOTHING" if if_new else ""
    if replaces or adds:
        conflict = _replacing(table, names, dialect, adds=adds)
    insertion = f"INSERT INTO {table.name} ({columns})"
    placeholder, by_document = "?", ""
    if is_postgresql(dialect):
        placeholder = "%s"
        by_document = f"{insertion} SELECT {columns} FROM {_recordset(table, names, dialect)} {conflict}"
    by_row = f"{insertion} VALUES ({', '.join([placeholder] * len(names))}) {conflict}"
    return _Statement(by_row, table, names, dialect, by_document=by_document)


def _replacing(table: Table, names: tuple[str, ...], dialect: Dialect, *, adds: bool) -> str:
    quote, keys = _quote(dialect), table.primary_key.columns
    new = ", ".join(
        f"{quote(name)} = {f'{table.name}.{quote(name)} + ' if adds else ''}excluded.{quote(name)}"
        for name in names
        if name not in keys
    )
    return f"ON CONFLICT ({', '.join(quote(key.name) for key in keys)}) DO UPDATE SET {new}"


@lru_cache(maxsize=256)
def _join(statements: tuple[str, ...]) -> str:
    """Statements of PostgreSQL as one, each with its own parameter for its rows."""
    *first, last = (
        statement.replace("%(rows)s", f"%(rows{number})s", 1) for number, statement in enumerate(statements)
    )
    parts = ", ".join(f"part{number} AS ({statement})" for number, statement in enumerate(first))
    return f"WITH {parts} {last}"


@lru_cache(maxsize=256)
def _update(table: Table, key: str, names: tuple[str, ...], dialect: Dialect) -> _Statement:
    quoted = list(map(_quote(dialect), names))
    if is_postgresql(dialect):
        new = ", ".join(f"{name} = batch.{name}" for name in quoted)
        source = _recordset(table, (key, *names), dialect)
        by_document = f"UPDATE {table.name} SET {new} FROM {source} WHERE {table.name}.{key} = batch.{key}"
        return _Statement("", table, (*names, key), dialect, by_document=by_document)
    by_row = f"UPDATE {table.name} SET {', '.join(f'{name} = ?' for name in quoted)} WHERE {key} = ?"
    return _Statement(by_row, table, (*names, key), dialect)


def _recordset(table: Table, names: tuple[str, ...], dialect: Dialect) -> str:
    """The rows of a batch as a table of PostgreSQL."""
    columns = typed_columns((table.c[name] for name in names), dialect)
    return f"json_to_recordset(%(rows)s::json) AS batch ({columns})"


def _quote(dialect: Dialect) -> Callable[[str], str]:
    return dialect.identifier_preparer.quote
