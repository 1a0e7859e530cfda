"""Attributes: one kind's payload at one scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    tuple_,
)

from admin.core.changes import RowChange
from admin.core.comparisons import COMPARISONS
from admin.core.row_conditions import RowCondition
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import SCOPE_KEYS, Level, Scope
from admin.store import revisions
from admin.store.batches import Insertion, write_together
from admin.store.database import UtcDateTime, metadata
from admin.store.keys import KeyedQuery, is_within, key_columns, scope_columns, scope_of
from admin.store.revisions import NewRevision
from admin.store.row_conditions import fits
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
#: The same without what is known of their last changes: thousands are read at once.
_ROWS = KeyedQuery(select(*_KEY, attributes.c.payload, attributes.c.version), _KEY)
_REMOVE = KeyedQuery(delete(attributes), _KEY)
#: By level, the first rows at and below some scopes, in the order of their keys.
_BELOW = {
    level: KeyedQuery(select(attributes).order_by(*_KEY).limit(bindparam("most")), _KEY[: len(level.keys) + 1])
    for level in (Level.PROJECT, Level.PROJECT_DOMAIN, Level.WORKFLOW)
}

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
    within: frozenset[Scope] | None = None  #: only at and below these scopes

    def has(self, row: Row) -> bool:
        """Whether a row that did not come from the table belongs to the list."""
        keys = (getattr(self, key) in (None, getattr(row.scope, key)) for key in SCOPE_KEYS)
        is_within = self.within is None or not self.within.isdisjoint(row.scope.chain())
        return row.kind in self.kinds and all(keys) and self.level in (None, row.scope.level) and is_within

    @property
    def is_everything(self) -> bool:
        """Whether it contains all scopes."""
        return all(getattr(self, key) is None for key in (*SCOPE_KEYS, "level", "within"))


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """Some rows of a list. There may be fewer than were examined, even none, before the last page."""

    rows: list[StoredAttribute]
    examined: int
    last: tuple[str, ...] | None  #: the key that the next page begins after; None for the last page


def _stored(row: AnyRow) -> StoredAttribute:
    return build(StoredAttribute, row, scope=scope_of(row))


def key_at(kind: str, scope: Scope) -> tuple[str, ...]:
    """The key of exactly one row: every column counts, so that no row below the scope matches."""
    return kind, *scope.sort_key


def _chunks(places: Sequence[tuple[str, ...]]) -> Iterator[Sequence[tuple[str, ...]]]:
    for start in range(0, len(places), _CHUNK):
        yield places[start : start + _CHUNK]


def applying(connection: Connection, kinds: Iterable[str], scope: Scope) -> list[StoredAttribute]:
    """The rows of some kinds at a scope and at every broader one."""
    return applying_to(connection, kinds, [scope])


def applying_to(connection: Connection, kinds: Iterable[str], scopes: Iterable[Scope]) -> list[StoredAttribute]:
    """The rows of some kinds at several scopes and at every broader one."""
    places = {place.sort_key for scope in scopes for place in scope.chain()}
    return [_stored(row) for row in _APPLYING.execute(connection, places, kinds=list(kinds))]


def of_domains(connection: Connection, kind: str) -> list[StoredAttribute]:
    """The rows of a kind at domain level."""
    query = select(attributes).where(attributes.c.kind == kind, attributes.c.project == "")
    return [_stored(row) for row in connection.execute(query)]


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


def examine(connection: Connection, filters: Filter, after: tuple[str, ...] | None, most: int) -> RowPage:
    """The rows of a list among so many that follow a key.

    Only conditions that the key begins with are left to the database, so that rare rows do not make it read on; and
    those on what may be seen, so that no number or key tells of other rows.
    """
    keys = dict(_leading_keys(filters))
    leading = Filter(
        kinds=filters.kinds,
        project=keys.get("project"),
        domain=keys.get("domain"),
        workflow=keys.get("workflow"),
        launch_plan=keys.get("launch_plan"),
        within=filters.within,
    )
    examined = list(page(connection, leading, after, most + 1))
    last = page_key(examined[most - 1]) if len(examined) > most else None
    rows = examined[:most]
    return RowPage(rows=[row for row in rows if filters.has(row)], examined=len(rows), last=last)


#: The columns that tell of the last change of a row, by the names of fields.
_OF_CHANGE = {
    "revision": attributes.c.version,
    "at": attributes.c.updated_at,
    "author": attributes.c.updated_by,
    "claimed_by": attributes.c.claimed_by,
}


def examine_changes(
    connection: Connection,
    filters: Filter,
    conditions: Iterable[RowCondition],
    after: tuple[str, ...] | None,
    *,
    most: int,
) -> RowPage:
    """The rows of a list, among so many that follow a key, of which conditions on their last change hold.

    Conditions on other fields, and on the order of names, are left out.
    """
    known = [condition for condition in conditions if condition.field in _OF_CHANGE and not _is_collated(condition)]
    rows: list[StoredAttribute] = []
    left = most
    for kind in sorted(filters.kinds):
        if after is not None and kind < after[0]:
            continue
        ahead = select(attributes).where(attributes.c.kind == kind, *_conditions(filters))
        if after is not None and kind == after[0]:
            ahead = ahead.where(tuple_(*_SCOPE_COLUMNS) > after[1:])
        ahead = ahead.order_by(*_SCOPE_COLUMNS).limit(left)
        examined = ahead.subquery("examined")
        fit = [fits(condition, examined.c[_OF_CHANGE[condition.field].name]) for condition in known]
        found = select(examined).where(*fit).order_by(*(examined.c[name] for name in SCOPE_KEYS))
        rows += [_stored(row) for row in connection.execute(found)]
        number = connection.execute(select(func.count()).select_from(examined)).scalar_one()
        if number == left:
            last = connection.execute(ahead.with_only_columns(*_KEY).limit(1).offset(left - 1)).one()
            return RowPage(rows=rows, examined=most, last=tuple(last))
        left -= number
    return RowPage(rows=rows, examined=most - left, last=None)


def _is_collated(condition: RowCondition) -> bool:
    """Whether a condition is on the order of names, which is each database's own."""
    return condition.function in COMPARISONS and isinstance(_OF_CHANGE[condition.field].type, Text)


def _leading_keys(filters: Filter) -> Iterator[tuple[str, str]]:
    """The keys that every row of a list begins with; those that its level does not have are empty."""
    for key in SCOPE_KEYS:
        is_absent = filters.level is not None and key not in filters.level.keys
        value = getattr(filters, key)
        if value is None and not is_absent:
            return
        yield key, value or ""


def containing(
    connection: Connection,
    kind: str,
    texts: Sequence[str],
    after: Scope | None,
    *,
    most: int,
    limit: int,
    within: frozenset[Scope] | None = None,
) -> RowPage:
    """Rows of a kind, among so many that follow a scope, whose payloads contain one of some texts, if there are any.

    Perhaps only those at and below some scopes.
    """
    query = select(attributes).where(attributes.c.kind == kind)
    if within is not None:
        query = query.where(is_within(key_columns(attributes), within))
    if after is not None:
        query = query.where(tuple_(*_SCOPE_COLUMNS) > after.sort_key)
    ahead = query.order_by(*_SCOPE_COLUMNS).limit(most)
    examined = ahead.subquery("examined")
    text = cast(examined.c.payload, Text)
    conditions = [or_(*(text.contains(part, autoescape=True) for part in texts))] if texts else []
    # Both databases return the rows of a subquery in its order, and read no more of them than needed.
    rows = [_stored(row) for row in connection.execute(select(examined).where(*conditions).limit(limit))]
    if len(rows) == limit:
        return RowPage(rows=rows, examined=limit, last=page_key(rows[-1]))
    last = connection.execute(ahead.with_only_columns(*_KEY).offset(most - 1)).first()
    return RowPage(rows=rows, examined=most, last=None if last is None else tuple(last))


def naming(connection: Connection, kind: str, field: str, name: str, limit: int) -> list[StoredAttribute]:
    """The first rows of a kind that have a name in a field."""
    query = select(attributes).where(*_is_naming(kind, field, name)).order_by(*_SCOPE_COLUMNS).limit(limit)
    return [_stored(row) for row in connection.execute(query)]


def with_key(connection: Connection, kind: str, field: str, key: str, limit: int) -> list[StoredAttribute]:
    """The first rows of a kind that have a key in a field, which is a map of numbers."""
    query = select(attributes).where(*_has_key(kind, field, key)).order_by(*_SCOPE_COLUMNS).limit(limit)
    return [_stored(row) for row in connection.execute(query)]


def count_with_key(connection: Connection, kind: str, field: str, key: str) -> int:
    """How many rows of a kind have a key in a field, which is a map of numbers."""
    return int(connection.execute(select(func.count()).where(*_has_key(kind, field, key))).scalar_one())


def count_naming(connection: Connection, kind: str, field: str, name: str) -> int:
    """How many rows of a kind have a name in a field."""
    return int(connection.execute(select(func.count()).where(*_is_naming(kind, field, name))).scalar_one())


def names_in(connection: Connection, kind: str, field: str) -> frozenset[str]:
    """The names that rows of a kind have in a field."""
    payload: Any = attributes.c.payload
    query = select(payload[field].as_string()).where(attributes.c.kind == kind).distinct()
    return frozenset(name for name in connection.execute(query).scalars() if name)


def _is_naming(kind: str, field: str, name: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    payload: Any = attributes.c.payload  # the operators of JSON have no types
    return attributes.c.kind == kind, payload[field].as_string() == name


def _has_key(kind: str, field: str, key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    payload: Any = attributes.c.payload
    return attributes.c.kind == kind, payload[field, key].as_integer().is_not(None)


def page_key(row: Row) -> tuple[str, ...]:
    """The key that `page` goes on after."""
    return key_at(row.kind, row.scope)


def _conditions(filters: Filter) -> Iterator[ColumnElement[bool]]:
    if filters.within is not None:
        yield is_within(key_columns(attributes), filters.within)
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
    names: list[str] = []
    while True:  # each is found by one step along the key
        query = select(attributes.c.kind).where(attributes.c.kind > (names or [""])[-1])
        name = connection.execute(query.order_by(attributes.c.kind).limit(1)).scalar()
        if name is None:
            return names
        names.append(name)


def exactly(connection: Connection, keys: Iterable[tuple[str, Scope]]) -> list[StoredAttribute]:
    """The rows of some kinds at some exact scopes."""
    places = [key_at(kind, scope) for kind, scope in keys]
    return [_stored(row) for chunk in _chunks(places) for row in _EXACTLY.execute(connection, chunk)]


def below(connection: Connection, kind: str, scopes: Iterable[Scope], limit: int) -> list[StoredAttribute]:
    """The first rows of a kind at and below some scopes, each of which is in a project."""
    by_level: dict[Level, list[tuple[str, ...]]] = defaultdict(list)
    for scope in scopes:
        by_level[scope.level].append((kind, *scope.sort_key[: len(scope.level.keys)]))
    rows: list[StoredAttribute] = []
    for level, keys in by_level.items():
        for chunk in _chunks(keys):
            if len(rows) == limit:
                return rows
            rows += [_stored(row) for row in _BELOW[level].execute(connection, chunk, most=limit - len(rows))]
    return rows


def at_scopes(connection: Connection, kinds: Iterable[str], scopes: Iterable[Scope]) -> dict[str, dict[Scope, Row]]:
    """The rows of some kinds that apply at some scopes, by kind and scope."""
    chains = {place for scope in scopes for place in scope.chain()}
    rows: dict[str, dict[Scope, Row]] = {kind: {} for kind in kinds}
    for keys in _chunks([key_at(kind, place) for kind in rows for place in chains]):
        for kind, project, domain, workflow, launch_plan, payload, version in _ROWS.execute(connection, keys):
            scope = Scope(domain, project, workflow, launch_plan)
            rows[kind][scope] = Row(kind=kind, scope=scope, payload=payload, version=version)
    return rows


def keys_below(connection: Connection, project: str) -> list[tuple[str, Scope]]:
    """The kind and scope of everything that is stored below a project."""
    rows = connection.execute(select(*_KEY).where(attributes.c.project == project))
    return [(row.kind, scope_of(row)) for row in rows]


def store_revisions(connection: Connection, new: Sequence[NewRevision]) -> None:
    """Store revisions and what they change of attributes. The head must be locked."""
    last = {change.key: (revision, change) for revision in new for change in revision.changes if change.is_attribute}
    stored = [_values(revision, change) for revision, change in last.values() if change.after is not None]
    removed = [key_at(change.kind, change.scope) for _, change in last.values() if change.after is None]
    rows = Insertion(table=attributes, rows=stored, replaces=True)
    write_together(connection, [*revisions.insertions(new), rows])
    for places in _chunks(removed):
        _REMOVE.execute(connection, places)


def _values(revision: NewRevision, change: RowChange) -> dict[str, object]:
    return {
        "kind": change.kind,
        **change.scope._asdict(),
        "payload": change.after,
        "version": revision.number,
        **revision.last_change._asdict(),
    }
