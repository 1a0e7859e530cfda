"""Row changes: each row before and after, as the revisions that changed it recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, func, select, tuple_

from admin.core.changes import LastChange, MadeChange, RowChange, RowKey
from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.fleet.definitions import FleetKind
from admin.core.grants import GRANT
from admin.core.provenance import Provenance
from admin.core.settings.scopes import Scope
from admin.core.use_grants import USE_GRANT
from admin.core.user_groups import GROUP
from admin.core.users import USER
from admin.store.keys import KeyedQuery, first_since, scope_of
from admin.store.revision_tables import IS_NAMED, ROW_KEY, ROW_SCOPE, revision_changes, revision_head, revisions
from admin.store.revisions import MADE_AT, SeenRows, head, is_seen, provenance_of
from admin.store.sql_types import AnyColumn, AnyRow, build

_changes = revision_changes.c
#: Changes of a pool or label that are looked at for when a cluster joined or left it.
MOST_OF_GROUP = 30


def last_changes(connection: Connection, kind: str, name: str, limit: int) -> list[RowChange]:
    """The last changes of a named definition, newest first."""
    query = select(revision_changes).where(_changes.kind == kind, _changes.name == name, IS_NAMED)
    rows = connection.execute(query.order_by(_changes.revision.desc()).limit(limit))
    return [_change(row) for row in rows]


def definition_changes_above(connection: Connection, kind: str, number: int, name: str | None) -> list[RowChange]:
    """The changes of the definitions of a kind after a revision, oldest first; or only those of a name."""
    query = select(revision_changes).where(_changes.kind == kind, IS_NAMED, _changes.revision > number)
    if name is not None:
        query = query.where(_changes.name == name)
    return [_change(row) for row in connection.execute(query.order_by(_changes.revision, _changes.ordinal))]


def definition_changes_since(
    connection: Connection, kind: str, name: str, time: datetime, limit: int
) -> list[tuple[RowChange, Provenance]]:
    """The newest changes of a named definition since a time, oldest first, each with its revision."""
    first = first_since(revisions.c.number, revisions.c.created_at, time)
    query = select(revision_changes).where(_changes.kind == kind, _changes.name == name, IS_NAMED)
    newest = query.where(_changes.revision >= first).order_by(_changes.revision.desc()).limit(limit)
    changes = [_change(row) for row in connection.execute(newest)]
    made_by = provenance_of(connection, (change.revision for change in changes))
    return [(change, made_by[change.revision]) for change in reversed(changes) if made_by[change.revision].at >= time]


def first_change(connection: Connection, kind: str, name: str, number: int) -> int | None:
    """The first revision after one that changed a named definition."""
    named = (_changes.kind == kind, _changes.name == name, IS_NAMED, _changes.revision > number)
    first: int | None = connection.execute(select(func.min(_changes.revision)).where(*named)).scalar_one()
    return first


def deleted_by(connection: Connection, kind: str, names: Iterable[str]) -> dict[str, Provenance]:
    """The revisions by which named definitions were deleted; of those that are not kept, or were no last change, none.

    It is for a few names, each of which is looked up by itself.
    """
    changes = [change for name in names for change in last_changes(connection, kind, name, 1)]
    deleted = {change.name: change.revision for change in changes if change.after is None}
    provenance = provenance_of(connection, deleted.values())
    return {name: provenance[number] for name, number in deleted.items() if number in provenance}


def changes_of_row(connection: Connection, kind: str, scope: Scope, up_to: int, limit: int) -> list[RowChange]:
    """The last changes of the row of a kind at a scope, up to a revision, newest first."""
    values = {"kind": kind, **scope._asdict(), "up_to": up_to, "most": limit}
    return [_change(row) for row in connection.execute(_CHANGES_OF_ROW, values)]


def changes_by_row(
    connection: Connection, versions: Iterable[tuple[str, Scope, int]]
) -> dict[tuple[str, Scope, int], RowChange]:
    """The changes that gave rows of a kind at a scope some versions, by all three, as far as they are kept."""
    keys = [(*scope.sort_key, kind, version) for kind, scope, version in versions]
    changes = [_change(row) for row in _CHANGES_BY_ROW.execute(connection, keys)] if keys else []
    return {(change.kind, change.scope, change.revision): change for change in changes}


class ChangedSince(NamedTuple):
    """The revisions that changed a row after another one."""

    newest: list[int]
    number: int  #: how many there are, as far as they are kept; of very many, as many as are counted


#: Later changes of one row that are counted: a row may have hundreds of thousands.
MOST_COUNTED = 1000


def changed_since(connection: Connection, key: RowKey, number: int, limit: int) -> ChangedSince:
    """The newest revisions that changed a row after one, newest first, and how many there are."""
    of_row = select(_changes.revision).where(_changes.kind == key.kind, _changes.name == key.name)
    if key.name:
        of_row = of_row.where(IS_NAMED)
    else:
        of_row = of_row.where(*(column == place for column, place in zip(ROW_SCOPE, key.scope.sort_key, strict=True)))
    since = of_row.where(_changes.revision > number)
    newest = list(connection.execute(since.order_by(_changes.revision.desc()).limit(limit)).scalars())
    if len(newest) < limit:
        return ChangedSince(newest, len(newest))
    counted = since.limit(MOST_COUNTED).subquery()
    return ChangedSince(newest, connection.execute(select(func.count()).select_from(counted)).scalar_one())


def deleted_at(connection: Connection, kind: str, scope: Scope, up_to: int | None = None) -> Provenance | None:
    """The revision by which the row of a kind at a scope was deleted; None where that was not its last change.

    With `up_to`, its last change up to that revision.
    """
    values = {"kind": kind, **scope._asdict(), **({} if up_to is None else {"up_to": up_to})}
    change = connection.execute(_LAST_AT_SCOPE if up_to is None else _LAST_UP_TO, values).first()
    if change is None or change.after is not None:
        return None
    return provenance_of(connection, [change.revision]).get(change.revision)


_AT_SCOPE = (
    _changes.kind == bindparam("kind"),
    _changes.name == "",
    *(column == bindparam(column.name) for column in ROW_SCOPE),
)
_LAST_AT_SCOPE = select(_changes.revision, _changes.after).where(*_AT_SCOPE).order_by(_changes.revision.desc()).limit(1)
_LAST_UP_TO = _LAST_AT_SCOPE.where(_changes.revision <= bindparam("up_to"))
_CHANGES_OF_ROW = (
    select(revision_changes)
    .where(*_AT_SCOPE, _changes.revision <= bindparam("up_to"))
    .order_by(_changes.revision.desc())
    .limit(bindparam("most"))
)
_CHANGES_BY_ROW = KeyedQuery(
    select(revision_changes).where(_changes.name == ""), (*ROW_SCOPE, _changes.kind, _changes.revision)
)


#: Kinds of rows by which creators may use clusters.
_OF_RIGHTS = (USER, GROUP, GRANT, CLUSTER_GROUP, USE_GRANT)


def last_of_fleet(connection: Connection, searched: int) -> Provenance | None:
    """The last revision that changed the fleet, or who may use it, if it is among the last ones."""
    above = head(connection) - searched
    # By sums, so that the index of named changes is read and not every change of the last revisions.
    is_of_fleet = _changes.kind.in_([*(kind.value for kind in FleetKind), *_OF_RIGHTS])
    query = select(func.max(_changes.revision + 0)).where(_changes.revision + 0 > above, is_of_fleet, IS_NAMED)
    number = connection.execute(query).scalar_one()
    return None if number is None else provenance_of(connection, [number]).get(number)


def changes_of(connection: Connection, number: int) -> list[RowChange]:
    """The changes of a revision, in their order."""
    query = select(revision_changes).where(_changes.revision == number).order_by(_changes.ordinal)
    return [_change(row) for row in connection.execute(query)]


def changes_of_many(
    connection: Connection, numbers: Sequence[int], most: int, seen: SeenRows | None = None
) -> dict[int, list[RowChange]]:
    """The first changes of several revisions, in their order, by number; of those that may be seen the first."""
    if seen is not None:
        queries = {number: select(revision_changes).where(_changes.revision == number) for number in numbers}
        limited = (query.where(is_seen(seen)).order_by(_changes.ordinal).limit(most) for query in queries.values())
        return {
            number: [_change(row) for row in connection.execute(query)]
            for number, query in zip(queries, limited, strict=True)
        }
    changes: dict[int, list[RowChange]] = {number: [] for number in numbers}
    if changes:
        query = select(revision_changes).where(_changes.revision.in_(numbers), _changes.ordinal < most)
        for row in connection.execute(query.order_by(_changes.revision, _changes.ordinal)):
            changes[row.revision].append(_change(row))
    return changes


def changes_above(
    connection: Connection,
    number: int,
    *,
    kinds: list[str] | None = None,
    scopes: list[Scope] | None = None,
    rows_of: Sequence[int] | None = None,
    up_to: int | None = None,
    limit: int | None = None,
) -> Iterator[RowChange]:
    """Every change after a revision, oldest first; of all rows, or of kinds, scopes, or the rows of revisions."""
    query = select(revision_changes).where(_changes.revision > number)
    if up_to is not None:
        query = query.where(_changes.revision <= up_to)
    if kinds is not None:
        query = query.where(_changes.kind.in_(kinds))
    if rows_of is not None:
        query = query.where(tuple_(*ROW_KEY).in_(select(*ROW_KEY).where(_changes.revision.in_(rows_of))))
    query = query.order_by(_changes.revision, _changes.ordinal).limit(limit)
    if scopes is None:
        rows = connection.execute(query)
    else:
        rows = KeyedQuery(query, ROW_SCOPE).execute(connection, [scope.sort_key for scope in scopes])
    for row in rows:
        yield _change(row)


def _of_revision(column: AnyColumn) -> AnyColumn:
    """A column of the revision that a change belongs to."""
    return select(column).where(revisions.c.number == _changes.revision).scalar_subquery().label(column.name)


def _number(name: str) -> AnyColumn:
    """A parameter whose value a database does not plan by."""
    return select(bindparam(name, type_=BigInteger)).scalar_subquery()


#: One row for each change after a revision, up to the last; one without a change where there is none. What is told of
#: its revision are subqueries and not a join, and the numbers are no parameters of the range itself: so PostgreSQL need
#: not plan the statement again for each pair of numbers, and never reads the whole of a table.
MADE_ABOVE = (
    select(
        _changes.revision,
        _changes.kind,
        _changes.name,
        *(_changes[name] for name in Scope._fields),
        _changes.after,
        *(_of_revision(revisions.c[name]) for name in ("created_at", "author", "claimed_by")),
        MADE_AT.scalar_subquery().label("number_made_at"),
    )
    .select_from(revision_head)
    .outerjoin(revision_changes, _changes.revision.between(_number("number") + 1, _number("head")))
    .order_by(_changes.revision, _changes.ordinal)
)


@dataclass(frozen=True, kw_only=True)
class MadeAbove:
    """What was made after a revision."""

    made_at: datetime | None  #: when that revision was made; None where it does not exist, or was pruned
    changes: Sequence[MadeChange]  #: every change after it, oldest first
    made: Mapping[int, LastChange]  #: when and by whom each of their revisions was made


def made_above(connection: Connection, number: int, head: int) -> MadeAbove:
    """What was made after a revision, up to the last one."""
    return read_made_above(connection.execute(MADE_ABOVE, {"number": number, "head": head}))


def read_made_above(rows: Iterable[AnyRow]) -> MadeAbove:
    """The same, from the rows of `MADE_ABOVE`."""
    made_at = None
    changes: list[MadeChange] = []
    made: dict[int, LastChange] = {}
    for row in rows:
        revision, kind, name, domain, project, workflow, launch_plan, after, *last_change = row[:11]
        made_at = row[11]
        if revision is not None:
            scope = Scope(domain, project, workflow, launch_plan)
            changes.append(MadeChange(revision, RowKey(kind, name, scope), after))
            made[revision] = LastChange(*last_change)
    return MadeAbove(made_at=made_at, changes=changes, made=made)


def has_project(connection: Connection, project: str) -> bool:
    """Whether some revision changed a project, which may be deleted by now."""
    query = select(_changes.revision).where(_changes.project == project).limit(1)
    return connection.execute(query).first() is not None


def _change(row: AnyRow) -> RowChange:
    return build(RowChange, row, scope=scope_of(row))
