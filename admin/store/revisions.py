"""Revisions: every change, numbered in commit order, never edited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Text, and_, bindparam, cast, exists, func, or_, select, union

from admin.core.changes import PROJECT, Authorship, LastChange, MadeChange, RowChange, RowKey
from admin.core.fleet.memberships import regrouped_clusters
from admin.core.grants import GRANT, scope_in
from admin.core.provenance import Provenance, acting_proof
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store.batches import Insertion
from admin.store.keys import NumberedQuery, is_by, is_within, key_columns, ways_by, within
from admin.store.revision_tables import (
    IS_NAMED,
    IS_ROLLBACK,
    ROW_KEY,
    member_changes,
    pruned_authors,
    revision_changes,
    revision_head,
    revisions,
)
from admin.store.sql_types import AnyColumn, AnyRow, AnySelect, TableColumn, build

_HEAD_ID = 1
_changes = revision_changes.c


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
class SeenRows:
    """Which rows of revisions a caller may see."""

    attributes: frozenset[Scope] | None  #: at and below these scopes; None for all
    projects: frozenset[str] | None  #: None for all
    kinds: frozenset[str]  #: of rows that have a name, but for grants
    grants: frozenset[Scope] | None  #: on these scopes and below; None for all

    def has(self, key: RowKey) -> bool:
        """Whether a row is among them."""
        if key.is_attribute:
            return self.attributes is None or not self.attributes.isdisjoint(key.scope.chain())
        if key.kind == PROJECT:
            return self.projects is None or key.scope.project in self.projects
        if key.kind == GRANT:
            return self.grants is None or not self.grants.isdisjoint(scope_in(key.name).chain())
        return key.kind in self.kinds


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
    request_id: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    above: int | None = None  #: only numbers above this one, oldest first
    seen: SeenRows | None = None  #: only those that changed such rows

    @property
    def is_of_kind_alone(self) -> bool:
        """Whether it asks for a kind, without a name or project, and for nothing but what the changed rows say."""
        by = (self.author, self.claimed_by, self.actor, self.request_id)
        others = (self.name, self.project, *by, self.after, self.before)
        return self.kind is not None and all(value is None for value in others)

    @property
    def is_of_actor_alone(self) -> bool:
        """Whether it asks who made revisions, and for nothing of the changed rows."""
        keys = (self.kind, self.name, self.domain, self.project, self.workflow, self.launch_plan, self.seen)
        return self.actor is not None and all(value is None for value in keys)


def head(connection: Connection) -> int:
    """The number of the last revision, 0 before the first."""
    return int(connection.execute(_SELECT_HEAD).scalar_one())


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


#: When a revision was made.
MADE_AT = select(revisions.c.created_at).where(revisions.c.number == bindparam("number"))
_SELECT_HEAD = select(revision_head.c.number)
_HEAD_AND_TIME = select(revision_head.c.number, MADE_AT.scalar_subquery())
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
    seen = [] if filters.seen is None else [is_seen(filters.seen)]
    count = select(func.count()).where(_changes.revision == revisions.c.number, *seen).scalar_subquery()
    is_rising = filters.above is not None
    starts = [number for number in (filters.above, from_number) if number is not None]

    def first(query: AnySelect, number: TableColumn, *conditions: ColumnElement[bool]) -> AnySelect:
        beyond = [number > start if is_rising else number < start for start in starts]
        return query.where(*conditions, *beyond).order_by(number if is_rising else number.desc()).limit(limit)

    query = first(select(revisions, count.label("change_count")), revisions.c.number, *_conditions(filters))
    # The first ones of a kind, or by somebody, are found along an index that has them in their order.
    if filters.is_of_kind_alone:
        of_kind = first(select(_changes.revision).distinct(), _changes.revision, *_row_conditions(filters))
        query = query.where(revisions.c.number.in_(of_kind))
    elif filters.actor is not None and filters.is_of_actor_alone:
        ways = ways_by(filters.actor, revisions.c.author, revisions.c.claimed_by)
        own = list(_own_conditions(filters))
        by_actor = (first(select(revisions.c.number), revisions.c.number, way, *own).subquery() for way in ways)
        query = query.where(revisions.c.number.in_(union(*(select(numbers) for numbers in by_actor))))
    return [_revision(row) for row in connection.execute(query)]


def _own_conditions(filters: RevisionFilter) -> Iterator[ColumnElement[bool]]:
    """What a revision itself must fit, but for the actor."""
    for column in (revisions.c.author, revisions.c.claimed_by, revisions.c.request_id):
        if getattr(filters, column.name) is not None:
            yield column == getattr(filters, column.name)
    yield from within(revisions.c.number, revisions.c.created_at, filters.after, filters.before)


def _conditions(filters: RevisionFilter) -> Iterator[ColumnElement[bool]]:
    yield from _own_conditions(filters)
    if filters.actor is not None and not filters.is_of_actor_alone:
        yield is_by(filters.actor, revisions.c.author, revisions.c.claimed_by)
    named = _row_conditions(filters)
    if filters.name and filters.kind:
        numbers = select(_changes.revision).where(*named, IS_NAMED)
        if filters.member is None:
            yield revisions.c.number.in_(numbers)
        else:
            regrouped = select(member_changes.c.revision).where(member_changes.c.cluster == filters.member)
            yield revisions.c.number.in_(union(numbers, regrouped))
    elif filters.project:  # which the index of scopes leads with
        yield revisions.c.number.in_(select(_changes.revision).where(*named))
    elif named and not filters.is_of_kind_alone:
        yield exists().where(and_(_changes.revision == revisions.c.number, *named))


def _row_conditions(filters: RevisionFilter) -> list[ColumnElement[bool]]:
    """What a change of a revision must fit."""
    keys = {column: getattr(filters, column.name) for column in ROW_KEY}
    conditions = [column == value for column, value in keys.items() if value is not None]
    return conditions if filters.seen is None else [*conditions, is_seen(filters.seen)]


def is_seen(rows: SeenRows) -> ColumnElement[bool]:
    """Whether a change is of a row that may be seen."""
    is_project = and_(_changes.kind == PROJECT, _changes.name == "")
    of_projects = is_project if rows.projects is None else and_(is_project, _changes.project.in_(rows.projects))
    is_attribute = and_(_changes.kind != PROJECT, _changes.name == "")
    if rows.attributes is not None:
        is_attribute = and_(is_attribute, is_within(key_columns(revision_changes), rows.attributes))
    is_grant = and_(IS_NAMED, _changes.kind == GRANT)
    if rows.grants is not None:
        is_grant = and_(is_grant, is_within(_GRANT_SCOPE, rows.grants))
    return or_(is_attribute, of_projects, is_grant, and_(IS_NAMED, _changes.kind.in_(rows.kinds)))


#: The keys of the scope that the grant of a change is on, which its row has no columns for.
_GRANT_SCOPE: dict[str, AnyColumn] = {
    key: func.coalesce(_changes.after[key].as_string(), _changes.before[key].as_string(), "") for key in SCOPE_KEYS
}


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who made the newest revisions: the authors and the names that callers gave."""
    query = select(revisions.c.author, revisions.c.claimed_by).order_by(revisions.c.number.desc()).limit(limit)
    return {name for names in connection.execute(query) for name in names if name}


def get(connection: Connection, number: int) -> Revision | None:
    """One revision."""
    revisions_above = page(connection, RevisionFilter(above=number - 1), None, 1)
    return next((revision for revision in revisions_above if revision.number == number), None)


def provenance_of(connection: Connection, numbers: Iterable[int]) -> dict[int, Provenance]:
    """By whom, when and why some revisions were made.

    Those that are no longer kept are left out, but for those of rows that have no author of their own.
    """
    distinct = set(numbers)
    rows = _SELECT_SOME.execute(connection, distinct) if distinct else ()
    made_by = {row.number: _provenance(row) for row in rows}
    pruned = distinct - made_by.keys()
    if pruned:
        made_by |= {row.revision: _pruned(row) for row in _SELECT_PRUNED.execute(connection, pruned)}
    return made_by


def seen_among(connection: Connection, numbers: Iterable[int], rows: SeenRows) -> set[int]:
    """Those of some revisions that changed rows which may be seen."""
    distinct = set(numbers)
    if not distinct:
        return set()
    query = NumberedQuery(select(_changes.revision).distinct().where(is_seen(rows)), _changes.revision)
    seen = set(query.execute(connection, distinct).scalars())
    pruned = _SELECT_PRUNED.execute(connection, distinct - seen) if distinct - seen else ()
    return seen | {row.revision for row in pruned if rows.has(RowKey(row.kind, row.name, Scope(project=row.project)))}


def rollbacks_of(connection: Connection, number: int, limit: int) -> list[Provenance]:
    """The newest later revisions that rolled back a revision, or rows of it to before, newest first."""
    rows = connection.execute(_ROLLBACKS_OF, {"number_": number, "listed": f",{number},", "most": limit})
    return [_provenance(row) for row in rows]


def _provenance(row: AnyRow) -> Provenance:
    return Provenance(
        revision=row.number,
        author=row.author,
        claimed_by=row.claimed_by,
        at=row.created_at,
        message=row.message,
        undone=row.undone,
        also_undone=row.also_undone,
        restored=row.restored,
        proof=acting_proof(row.author, row.proof),
    )


def _pruned(row: AnyRow) -> Provenance:
    return Provenance(
        revision=row.revision,
        author=row.author,
        claimed_by=row.claimed_by,
        at=row.created_at,
        message=row.message,
        proof=acting_proof(row.author, row.proof),
        kept=False,
    )


_SELECT_SOME = NumberedQuery(select(revisions), revisions.c.number)
_SELECT_PRUNED = NumberedQuery(select(pruned_authors), pruned_authors.c.revision)
_rolled_back = revision_changes.alias("rolled_back")


def _replaced(text: ColumnElement[str], *pairs: tuple[str, str]) -> ColumnElement[str]:
    for old, new in pairs:
        text = func.replace(text, old, new)
    return text


#: The list of the other revisions that a rollback undoes as text with a comma before and after each: `,41,42,`.
_ALSO_UNDONE = _replaced(cast(revisions.c.also_undone, Text), (" ", ""), ("[", ","), ("]", ","))
_ROLLBACKS_OF = (
    select(revisions)
    .where(
        IS_ROLLBACK,
        revisions.c.number > bindparam("number_"),
        or_(
            revisions.c.undone == bindparam("number_"),
            _ALSO_UNDONE.contains(bindparam("listed")),
            and_(
                revisions.c.restored < bindparam("number_"),
                exists().where(
                    _rolled_back.c.revision == bindparam("number_"),
                    _changes.revision == revisions.c.number,
                    *(column == _rolled_back.c[column.name] for column in ROW_KEY),
                ),
            ),
        ),
    )
    .order_by(revisions.c.number.desc())
    .limit(bindparam("most"))
)


def _revision(row: AnyRow) -> Revision:
    return build(Revision, row, authorship=build(Authorship, row))
