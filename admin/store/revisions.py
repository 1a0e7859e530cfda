"""Revisions: every change, numbered in commit order, never edited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
    tuple_,
    union,
)

from admin.core.changes import Authorship, LastChange, RowChange, RowKey
from admin.core.fleet.memberships import regrouped_clusters
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store.batches import Insertion
from admin.store.database import UtcDateTime, head_table, metadata
from admin.store.keys import KeyedQuery, first_since, scope_columns, scope_of, within
from admin.store.sql_types import AnyColumn, AnyRow, build

#: Every writer locks it first, so that numbers have no gaps and follow the order of commits.
revision_head = head_table("revision_head")
_HEAD_ID = 1

revisions = Table(
    "revisions",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("message", Text),
    Column("request_id", Text),
    Column("undone", BigInteger),
    Column("restored", BigInteger),
    Index("ix_revisions_created_at", "created_at", "number"),
)

revision_changes = Table(
    "revision_changes",
    metadata,
    Column("revision", BigInteger, ForeignKey("revisions.number"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False, server_default=""),  # of what belongs to no scope: pools, labels, clusters
    *(Column(name, Text, nullable=False) for name in Scope._fields),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Column("before_version", BigInteger),
    Index("ix_revision_changes_scope", *SCOPE_KEYS, "kind", "revision"),
)
_changes = revision_changes.c
#: Rows with a name are few; writes of attributes, which are many, do not pay for this index.
_IS_NAMED = text("name <> ''")
Index(
    "ix_revision_changes_name",
    _changes.kind,
    _changes.name,
    _changes.revision,
    postgresql_where=_IS_NAMED,
    sqlite_where=_IS_NAMED,
)
#: The clusters that were or are members of the pools and labels whose members a revision changed.
member_changes = Table(
    "member_changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Text, primary_key=True),
    Index("ix_member_changes_cluster", "cluster", "revision"),
)
_SCOPE = scope_columns(revision_changes)
_KEY = (_changes.kind, _changes.name, *_SCOPE)


@dataclass(frozen=True, kw_only=True)
class NewRevision:
    """A change of one or more rows that is to be stored."""

    number: int
    created_at: datetime
    authorship: Authorship
    changes: Sequence[RowChange]  #: which have its number

    @property
    def made_changes(self) -> list[MadeChange]:
        """Its rows as it leaves them."""
        return [MadeChange(self.number, change.key, change.after) for change in self.changes]

    @property
    def last_change(self) -> LastChange:
        """What its rows tell of it."""
        return LastChange(self.created_at, self.authorship.author, self.authorship.claimed_by)


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One change of one or more rows: by whom, when and why."""

    number: int
    created_at: datetime
    authorship: Authorship
    change_count: int


@dataclass(frozen=True, kw_only=True)
class RevisionFilter:
    """Which revisions a list contains; None for any."""

    kind: str | None = None
    name: str | None = None
    member: str | None = None  #: beside those of a name: pools and labels whose members changed, this one among them
    domain: str | None = None
    project: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None
    author: str | None = None
    claimed_by: str | None = None
    actor: str | None = None  #: the author, verified or claimed
    after: datetime | None = None
    before: datetime | None = None
    above: int | None = None  #: only numbers above this one, oldest first


def head(connection: Connection) -> int:
    """The number of the last revision, 0 before the first."""
    return int(connection.execute(select(revision_head.c.number)).scalar_one())


def made_at(connection: Connection, number: int) -> datetime | None:
    """When a revision was made; None where it does not exist, or was pruned."""
    return connection.execute(MADE_AT, {"number": number}).scalar_one_or_none()


def head_and_time(connection: Connection, number: int) -> tuple[int, datetime | None]:
    """The number of the last revision, and when another one was made; None where that one is not kept."""
    head, made_at = connection.execute(_HEAD_AND_TIME, {"number": number}).one()
    return head, made_at


def oldest(connection: Connection) -> int:
    """The number of the oldest revision that is kept; 1 before the first."""
    return int(connection.execute(select(func.coalesce(func.min(revisions.c.number), 1))).scalar_one())


def lock_head(connection: Connection) -> int:
    """The number of the last revision; other writers wait here until this transaction ends."""
    return int(connection.execute(_LOCK_HEAD).scalar_one())


def insertions(new: Sequence[NewRevision]) -> list[Insertion]:
    """What records the next revisions. The head must be locked."""
    made = [
        {"number": revision.number, "created_at": revision.created_at, **vars(revision.authorship)} for revision in new
    ]
    changes = [_values(*pair) for revision in new for pair in enumerate(revision.changes)]
    return [
        Insertion(table=revision_head, rows=[{"id": _HEAD_ID, "number": new[-1].number}], replaces=True),
        Insertion(table=revisions, rows=made),
        Insertion(table=revision_changes, rows=changes),
        Insertion(table=member_changes, rows=[row for revision in new for row in _member_rows(revision)]),
    ]


def _member_rows(revision: NewRevision) -> Iterator[dict[str, object]]:
    named = (change for change in revision.changes if change.name)
    clusters = {cluster for change in named for cluster in regrouped_clusters(change)}
    return ({"revision": revision.number, "cluster": cluster} for cluster in sorted(clusters))


def _of_revision(column: AnyColumn) -> AnyColumn:
    """A column of the revision that a change belongs to."""
    return select(column).where(revisions.c.number == _changes.revision).scalar_subquery().label(column.name)


def _number(name: str) -> AnyColumn:
    """A parameter whose value a database does not plan by."""
    return select(bindparam(name, type_=BigInteger)).scalar_subquery()


#: When a revision was made.
MADE_AT = select(revisions.c.created_at).where(revisions.c.number == bindparam("number"))
_HEAD_AND_TIME = select(revision_head.c.number, MADE_AT.scalar_subquery())
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
_LOCK_HEAD = select(revision_head.c.number).with_for_update()


def _values(ordinal: int, change: RowChange) -> dict[str, object]:
    return {
        "revision": change.revision,
        "ordinal": ordinal,
        "kind": change.kind,
        "name": change.name,
        **change.scope._asdict(),
        "before": change.before,
        "after": change.after,
        "before_version": change.before_version,
    }


def page(connection: Connection, filters: RevisionFilter, from_number: int | None, limit: int) -> list[Revision]:
    """Revisions newest first, or oldest first above a number; from after `from_number` on."""
    count = select(func.count()).where(_changes.revision == revisions.c.number).scalar_subquery()
    query = select(revisions, count.label("change_count")).where(*_conditions(filters)).limit(limit)
    is_rising = filters.above is not None
    if from_number is not None:
        query = query.where(revisions.c.number > from_number if is_rising else revisions.c.number < from_number)
    query = query.order_by(revisions.c.number if is_rising else revisions.c.number.desc())
    return [_revision(row) for row in connection.execute(query)]


def _conditions(filters: RevisionFilter) -> Iterator[ColumnElement[bool]]:
    if filters.above is not None:
        yield revisions.c.number > filters.above
    for column in (revisions.c.author, revisions.c.claimed_by):
        if getattr(filters, column.name) is not None:
            yield column == getattr(filters, column.name)
    if filters.actor is not None:
        yield or_(revisions.c.author == filters.actor, revisions.c.claimed_by == filters.actor)
    yield from within(revisions.c.number, revisions.c.created_at, filters.after, filters.before)
    named = [column == getattr(filters, column.name) for column in _KEY if getattr(filters, column.name) is not None]
    if filters.name and filters.kind:
        numbers = select(_changes.revision).where(*named, _IS_NAMED)
        if filters.member is None:
            yield revisions.c.number.in_(numbers)
        else:
            regrouped = select(member_changes.c.revision).where(member_changes.c.cluster == filters.member)
            yield revisions.c.number.in_(union(numbers, regrouped))
    elif filters.project:  # which the index of scopes leads with
        yield revisions.c.number.in_(select(_changes.revision).where(*named))
    elif named:
        yield exists().where(and_(_changes.revision == revisions.c.number, *named))


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who made the newest revisions: the authors and the names that callers gave."""
    query = select(revisions.c.author, revisions.c.claimed_by).order_by(revisions.c.number.desc()).limit(limit)
    return {name for names in connection.execute(query) for name in names if name}


def get(connection: Connection, number: int) -> Revision | None:
    """One revision."""
    revisions_above = page(connection, RevisionFilter(above=number - 1), None, 1)
    return next((revision for revision in revisions_above if revision.number == number), None)


class KeptRevision(NamedTuple):
    """A revision without its changes."""

    provenance: Provenance
    undone: int | None  #: the revision that it rolled back, if it is a rollback


def kept_revisions(connection: Connection, numbers: Iterable[int]) -> dict[int, KeptRevision]:
    """Those of some revisions that are still kept, by number."""
    distinct = set(numbers)
    rows = connection.execute(_SELECT_SOME, {"numbers": sorted(distinct)}) if distinct else ()
    return {
        row.number: KeptRevision(
            Provenance(
                revision=row.number,
                author=row.author,
                claimed_by=row.claimed_by,
                at=row.created_at,
                message=row.message,
            ),
            row.undone,
        )
        for row in rows
    }


def provenance_of(connection: Connection, numbers: Iterable[int]) -> dict[int, Provenance]:
    """By whom, when and why some revisions were made; those that are no longer kept are left out."""
    return {number: revision.provenance for number, revision in kept_revisions(connection, numbers).items()}


def last_changes(connection: Connection, kind: str, name: str, limit: int) -> list[RowChange]:
    """The last changes of a named definition, newest first."""
    query = select(revision_changes).where(_changes.kind == kind, _changes.name == name, _IS_NAMED)
    rows = connection.execute(query.order_by(_changes.revision.desc()).limit(limit))
    return [_change(row) for row in rows]


def definition_changes_above(connection: Connection, kind: str, number: int, name: str | None) -> list[RowChange]:
    """The changes of the definitions of a kind after a revision, oldest first; or only those of a name."""
    query = select(revision_changes).where(_changes.kind == kind, _IS_NAMED, _changes.revision > number)
    if name is not None:
        query = query.where(_changes.name == name)
    return [_change(row) for row in connection.execute(query.order_by(_changes.revision, _changes.ordinal))]


def definition_changes_since(
    connection: Connection, kind: str, name: str, time: datetime, limit: int
) -> list[tuple[RowChange, Provenance]]:
    """The newest changes of a named definition since a time, oldest first, each with its revision."""
    first = first_since(revisions.c.number, revisions.c.created_at, time)
    query = select(revision_changes).where(_changes.kind == kind, _changes.name == name, _IS_NAMED)
    newest = query.where(_changes.revision >= first).order_by(_changes.revision.desc()).limit(limit)
    changes = [_change(row) for row in connection.execute(newest)]
    made_by = provenance_of(connection, (change.revision for change in changes))
    return [(change, made_by[change.revision]) for change in reversed(changes) if made_by[change.revision].at >= time]


def first_change(connection: Connection, kind: str, name: str, number: int) -> int | None:
    """The first revision after one that changed a named definition."""
    named = (_changes.kind == kind, _changes.name == name, _IS_NAMED, _changes.revision > number)
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


_SELECT_SOME = select(revisions).where(revisions.c.number.in_(bindparam("numbers", expanding=True)))


def changes_of_row(connection: Connection, kind: str, scope: Scope, up_to: int, limit: int) -> list[RowChange]:
    """The last changes of the row of a kind at a scope, up to a revision, newest first."""
    values = {"kind": kind, **scope._asdict(), "up_to": up_to, "most": limit}
    return [_change(row) for row in connection.execute(_CHANGES_OF_ROW, values)]


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
        of_row = of_row.where(_IS_NAMED)
    else:
        of_row = of_row.where(*(column == place for column, place in zip(_SCOPE, key.scope.sort_key, strict=True)))
    since = of_row.where(_changes.revision > number)
    newest = list(connection.execute(since.order_by(_changes.revision.desc()).limit(limit)).scalars())
    if len(newest) < limit:
        return ChangedSince(newest, len(newest))
    counted = since.limit(MOST_COUNTED).subquery()
    return ChangedSince(newest, connection.execute(select(func.count()).select_from(counted)).scalar_one())


def deleted_at(connection: Connection, kind: str, scope: Scope) -> Provenance | None:
    """The revision by which the row of a kind at a scope was deleted; None where that was not its last change."""
    values = {"kind": kind, **scope._asdict()}
    change = connection.execute(_LAST_AT_SCOPE, values).first()
    if change is None or change.after is not None:
        return None
    return provenance_of(connection, [change.revision]).get(change.revision)


_AT_SCOPE = (
    _changes.kind == bindparam("kind"),
    _changes.name == "",
    *(column == bindparam(column.name) for column in _SCOPE),
)
_LAST_AT_SCOPE = select(_changes.revision, _changes.after).where(*_AT_SCOPE).order_by(_changes.revision.desc()).limit(1)
_CHANGES_OF_ROW = (
    select(revision_changes)
    .where(*_AT_SCOPE, _changes.revision <= bindparam("up_to"))
    .order_by(_changes.revision.desc())
    .limit(bindparam("most"))
)


def last_of_fleet(connection: Connection, searched: int) -> Provenance | None:
    """The last revision that changed a cluster, pool or label, if it is among the last ones."""
    above = head(connection) - searched
    # By sums, so that the index of named changes is read and not every change of the last revisions.
    query = select(func.max(_changes.revision + 0)).where(_changes.revision + 0 > above, _IS_NAMED)
    number = connection.execute(query).scalar_one()
    return None if number is None else provenance_of(connection, [number]).get(number)


def changes_of(connection: Connection, number: int) -> list[RowChange]:
    """The changes of a revision, in their order."""
    query = select(revision_changes).where(_changes.revision == number).order_by(_changes.ordinal)
    return [_change(row) for row in connection.execute(query)]


def changes_of_many(connection: Connection, numbers: Sequence[int], most: int) -> dict[int, list[RowChange]]:
    """The first changes of several revisions, in their order, by number."""
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
    rows_of: int | None = None,
    up_to: int | None = None,
) -> Iterator[RowChange]:
    """Every change after a revision, oldest first; of all rows, or of some kinds, scopes, or the rows of a revision."""
    query = select(revision_changes).where(_changes.revision > number)
    if up_to is not None:
        query = query.where(_changes.revision <= up_to)
    if kinds is not None:
        query = query.where(_changes.kind.in_(kinds))
    if rows_of is not None:
        query = query.where(tuple_(*_KEY).in_(select(*_KEY).where(_changes.revision == rows_of)))
    query = query.order_by(_changes.revision, _changes.ordinal)
    if scopes is None:
        rows = connection.execute(query)
    else:
        rows = KeyedQuery(query, _SCOPE).execute(connection, [scope.sort_key for scope in scopes])
    for row in rows:
        yield _change(row)


class MadeChange(NamedTuple):
    """A row as a revision left it."""

    revision: int
    key: RowKey
    after: Payload | None  #: None where the row is gone


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


def _revision(row: AnyRow) -> Revision:
    return build(Revision, row, authorship=build(Authorship, row))


def _change(row: AnyRow) -> RowChange:
    return build(RowChange, row, scope=scope_of(row))
