"""Keys of several columns: those of scopes, and queries by keys that use an index on every database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    Index,
    Table,
    and_,
    any_,
    bindparam,
    cast,
    false,
    func,
    or_,
    select,
    text,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from admin.core.provenance import read_name
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store.dialects import is_sqlite
from admin.store.sql_types import AnyColumn, AnyResult, AnyRow, AnySelect, TableColumn

_KEYS = "keys"
#: Up to so many keys are parameters of their own on PostgreSQL.
_SHORT = 100


def scope_columns(table: FromClause) -> tuple[ColumnElement[str], ...]:
    """The columns that hold a scope, in the order of `Scope.sort_key`."""
    return tuple(table.c[key] for key in SCOPE_KEYS)


def scope_of(row: AnyRow) -> Scope:
    """The scope of a row with these columns."""
    return Scope(domain=row.domain, project=row.project, workflow=row.workflow, launch_plan=row.launch_plan)


def key_columns(table: FromClause) -> dict[str, AnyColumn]:
    """The columns that hold a scope, by its keys."""
    return {key: table.c[key] for key in SCOPE_KEYS}


def is_within(columns: Mapping[str, AnyColumn], scopes: Iterable[Scope]) -> ColumnElement[bool]:
    """Whether a row is at or below one of some scopes, by its columns for the keys of scopes.

    Scopes with a key that there is no column for are narrower than any row.
    """
    names_by_keys: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for scope in scopes:
        names = scope.keys()
        if names.keys() <= columns.keys():
            names_by_keys.setdefault(tuple(names), []).append(tuple(names.values()))
    parts: list[ColumnElement[bool]] = []
    for keys, places in names_by_keys.items():
        if not keys:
            return true()
        if len(keys) == 1:
            parts.append(columns[keys[0]].in_([name for (name,) in places]))
        else:
            parts.append(tuple_(*(columns[key] for key in keys)).in_(places))
    return or_(false(), *parts)


def index_requests(table: Table, number: TableColumn) -> Index:
    """The index that finds the newest rows which a request made, however many others there are."""
    has_request = text("request_id IS NOT NULL")
    columns = table.c.request_id, number
    return Index(f"ix_{table.name}_request_id", *columns, postgresql_where=has_request, sqlite_where=has_request)


def is_by(actor: str, author: TableColumn, claimed_by: TableColumn) -> ColumnElement[bool]:
    """Whether something is by an author, verified or claimed, or by both as they are shown together."""
    return or_(*ways_by(actor, author, claimed_by))


def ways_by(actor: str, author: TableColumn, claimed_by: TableColumn) -> list[ColumnElement[bool]]:
    """Each way in which something may be by an author."""
    ways = [author == actor, claimed_by == actor]
    names = read_name(actor)
    return ways if names is None else [*ways, and_(author == names[0], claimed_by == names[1])]


def within(
    number: TableColumn, time: TableColumn, after: datetime | None, before: datetime | None
) -> Iterator[ColumnElement[bool]]:
    """Rows of a window of time, of a table that is read by number and has an index of times and numbers.

    The index of times tells the first and last numbers that the window may have: by a sum, so that this index is read
    and not the key. A clock that was set back makes that more than the window has, so the times are compared as well.
    """
    if after is not None:
        yield and_(time >= after, number >= first_since(number, time, after))
    if before is not None:
        timed = number.table.alias("timed").c
        last = select(func.max(timed[number.name] + 0)).where(timed[time.name] < before)
        yield and_(time < before, number <= last.scalar_subquery())


def first_since(number: TableColumn, time: TableColumn, after: datetime) -> AnyColumn:
    """The first number of a table from a time on, by its index of times and numbers."""
    timed = number.table.alias("timed").c
    return select(func.min(timed[number.name] + 0)).where(timed[time.name] >= after).scalar_subquery()


class KeyedQuery:
    """Selects or deletes the rows that have one of some keys; built once, for that takes longer than executing it."""

    def __init__(self, query: AnySelect | Delete, columns: Sequence[AnyColumn]) -> None:
        key = tuple_(*columns)
        self._query = query.where(key.in_(bindparam(_KEYS, expanding=True)))
        # SQLite uses no index for a list of row values, but does for a subquery.
        listed = func.json_each(bindparam(_KEYS)).table_valued("value")
        parts = (func.json_extract(listed.c.value, f"$[{number}]") for number in range(len(columns)))
        self._sqlite_query = query.where(key.in_(select(*parts)))
        # PostgreSQL takes longer to read a list of thousands of parameters than to find their rows.
        elements = func.jsonb_array_elements(cast(bindparam(_KEYS), JSONB)).table_valued("value")
        texts = (cast(elements.c.value.op("->>")(number), column.type) for number, column in enumerate(columns))
        self._long_query = query.where(key.in_(select(*texts)))

    def execute(self, connection: Connection, keys: Iterable[tuple[object, ...]], **parameters: object) -> AnyResult:
        """The rows with these keys; `parameters` are the other ones of the query."""
        if is_sqlite(connection):
            return connection.execute(self._sqlite_query, {**parameters, _KEYS: json.dumps(list(keys))})
        listed = list(keys)
        if len(listed) > _SHORT:
            return connection.execute(self._long_query, {**parameters, _KEYS: json.dumps(listed)})
        return connection.execute(self._query, {**parameters, _KEYS: listed})


class NumberedQuery:
    """Selects the rows that have one of some numbers, all of which are one parameter; built once."""

    def __init__(self, query: AnySelect, column: AnyColumn) -> None:
        numbers = bindparam(_KEYS, type_=ARRAY(BigInteger))
        self._query = query.where(column == any_(numbers))
        listed = func.json_each(bindparam(_KEYS)).table_valued("value")
        self._sqlite_query = query.where(column.in_(select(listed.c.value)))

    def execute(self, connection: Connection, numbers: Iterable[int]) -> AnyResult:
        """The rows with these numbers."""
        listed = list(numbers)
        if is_sqlite(connection):
            return connection.execute(self._sqlite_query, {_KEYS: json.dumps(listed)})
        return connection.execute(self._query, {_KEYS: listed})
