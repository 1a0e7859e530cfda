"""Attributes: one kind's payload at one scope."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
    update,
)

from admin.core.changes import Authorship, RowChange
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import SCOPE_KEYS, Level, Scope
from admin.store.database import UtcDateTime, metadata
from admin.store.keys import KeyedQuery, scope_columns, scope_of
from admin.store.sql_types import AnyRow, build

attributes = Table(
    "attributes",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("kind", *SCOPE_KEYS)),
    Column("payload", JSON, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("updated_by", Text, nullable=False),
    Column("claimed_by", Text),
    Index("ix_attributes_scope", *SCOPE_KEYS),
)
_SCOPE_COLUMNS = scope_columns(attributes)
_KEY = (attributes.c.kind, *_SCOPE_COLUMNS)
_APPLYING = KeyedQuery(
    select(attributes).where(attributes.c.kind.in_(bindparam("kinds", expanding=True))), _SCOPE_COLUMNS
)
_EXACTLY = KeyedQuery(select(attributes), _KEY)

#: Keys in one statement; databases limit how many values a statement may carry.
_CHUNK = 1000


@dataclass(frozen=True, kw_only=True)
class StoredAttribute(Row):
    """A row with what is known of its last change."""

    updated_at: datetime
    updated_by: str
    claimed_by: str | None


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which rows a list contains; None for any."""

    kinds: tuple[str, ...]
    domain: str | None = None
    project: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None
    level: Level | None = None

    def has(self, row: Row) -> bool:
        """Whether a row that did not come from the table belongs to the list."""
        keys = (getattr(self, key) in (None, getattr(row.scope, key)) for key in SCOPE_KEYS)
        return row.kind in self.kinds and all(keys) and self.level in (None, row.scope.level)


def _stored(row: AnyRow) -> StoredAttribute:
    return build(StoredAttribute, row, scope=scope_of(row))


def _at(kind: str, scope: Scope) -> ColumnElement[bool]:
    """The condition for exactly one row: every column is compared, so that no row below the scope matches."""
    return and_(*map(operator.eq, _KEY, (kind, *scope.sort_key)))


def applying(connection: Connection, kinds: Iterable[str], scope: Scope) -> list[StoredAttribute]:
    """The rows of some kinds at a scope and at every broader one."""
    places = [place.sort_key for place in scope.chain()]
    return [_stored(row) for row in _APPLYING.execute(connection, places, kinds=list(kinds))]


def touching(connection: Connection, kind: str, scope: Scope) -> list[StoredAttribute]:
    """The rows of a kind that a change at a scope is checked against: those that apply there, and every domain's."""
    domains = select(attributes).where(attributes.c.kind == kind, attributes.c.project == "")
    rows = [*applying(connection, [kind], scope), *(_stored(row) for row in connection.execute(domains))]
    return list({row.scope: row for row in rows}.values())


def page(
    connection: Connection, filters: Filter, after: tuple[str, ...] | None, limit: int
) -> Iterator[StoredAttribute]:
    """Rows in the order of their keys, from after a key on; kind by kind, as the index has them."""
    for kind in sorted(filters.kinds):
        if after is not None and kind < after[0]:
            continue
        query = select(attributes).where(attributes.c.kind == kind, *_conditions(filters))
        if after is not None and kind == after[0]:
            query = query.where(tuple_(*_SCOPE_COLUMNS) > after[1:])
        for row in connection.execute(query.order_by(*_SCOPE_COLUMNS).limit(limit)):
            limit -= 1
            yield _stored(row)
        if limit == 0:
            return


def page_key(row: Row) -> tuple[str, ...]:
    """The key that `page` goes on after."""
    return row.kind, *row.scope.sort_key


def _conditions(filters: Filter) -> Iterator[ColumnElement[bool]]:
    for column in _SCOPE_COLUMNS:
        value = getattr(filters, column.name)
        if value is not None:
            yield column == value
        if filters.level is not None:
            yield (column != "") if column.name in filters.level.keys else (column == "")


def every(connection: Connection, kind: str) -> list[Row]:
    """All rows of a kind."""
    return list(page(connection, Filter(kinds=(kind,)), after=None, limit=10_000_000))


def kinds_in_use(connection: Connection) -> list[str]:
    """The names of the kinds that have rows."""
    return list(connection.execute(select(attributes.c.kind).distinct()).scalars())


def exactly(connection: Connection, keys: list[tuple[str, Scope]]) -> dict[tuple[str, Scope], StoredAttribute]:
    """The rows of some kinds at some exact scopes."""
    rows: dict[tuple[str, Scope], StoredAttribute] = {}
    for start in range(0, len(keys), _CHUNK):
        places = [(kind, *scope.sort_key) for kind, scope in keys[start : start + _CHUNK]]
        for row in _EXACTLY.execute(connection, places):
            stored = _stored(row)
            rows[stored.kind, stored.scope] = stored
    return rows


def scopes(connection: Connection) -> list[Scope]:
    """Every scope that has rows."""
    query = select(*_SCOPE_COLUMNS).distinct()
    return list(map(scope_of, connection.execute(query)))


def keys_below(connection: Connection, project: str) -> list[tuple[str, Scope]]:
    """The kind and scope of everything that is stored below a project."""
    rows = connection.execute(select(*_KEY).where(attributes.c.project == project))
    return [(row.kind, scope_of(row)) for row in rows]


def write(
    connection: Connection, changes: Iterable[RowChange], version: int, authorship: Authorship, now: datetime
) -> None:
    """Store changed rows, and delete exactly those that are to go. The head of the revisions must be locked."""
    new: list[dict[str, object]] = []
    for change in changes:
        if change.after is None:
            connection.execute(delete(attributes).where(_at(change.kind, change.scope)))
            continue
        values = {
            "payload": change.after,
            "version": version,
            "updated_at": now,
            "updated_by": authorship.author,
            "claimed_by": authorship.claimed_by,
        }
        if change.before is not None:
            connection.execute(update(attributes).where(_at(change.kind, change.scope)).values(values))
        else:
            new.append({"kind": change.kind, **change.scope._asdict(), **values})
    if new:
        connection.execute(insert(attributes), new)
