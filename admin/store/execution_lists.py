"""Lists of executions: pages that cost the same however many executions there are.

A page follows one index in the order of creation, from where the last page ended, and examines a limited number of
executions. Matches that are too rare for one page come with the pages after it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    asc,
    desc,
    func,
    literal_column,
    select,
    tuple_,
    union_all,
)

from admin.core.comparisons import COMPARISONS
from admin.core.executions.causes import phases_of
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.run_times import RunTerms, waited_for_start
from admin.core.executions.selectors import Condition, equals
from admin.core.quantities import parse_duration
from admin.store import derived_fields
from admin.store.derived_fields import Check
from admin.store.dialects import is_postgresql
from admin.store.execution_fields import (
    fits,
    on_lost_of,
    queue_of,
    seconds_taken,
    seconds_taken_by,
    seconds_waited,
    stored_columns,
    time_limit_of,
    value_of,
)
from admin.store.execution_tables import executions
from admin.store.executions import Execution, ListedExecution
from admin.store.sql_types import AnyColumn, AnyRow, AnySelect

#: Combinations of values whose indexes a page merges at most.
_MOST_BRANCHES = 10

_columns = executions.c

#: What indexes lead with, before the time of creation. The first one that the conditions name in full is followed.
_SCOPE = ("project", "domain")
_LEADS = (
    ("workflow",),
    ("launch_plan",),
    ("limit_scope",),
    _SCOPE,
    ("cluster",),
    ("pool",),
    ("label",),
    ("phase",),
    ("state",),
)
#: Columns whose index leaves out empty values; and the column that has an index for each of its values.
_PARTIAL = ("workflow", "launch_plan", "limit_scope")
_STATES = ("ACTIVE", "ARCHIVED")
_UNFINISHED = {phase.value for phase in UNFINISHED}

_Query = AnySelect | CompoundSelect[Any]
_Columns = Sequence[AnyColumn]
Place = tuple[str | float | datetime, int]  #: an execution's value in the field that sorts, and its row's id

Item = TypeVar("Item", Execution, ListedExecution)


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Some executions of a list. There may be fewer than asked for, even none, before the last page."""

    executions: list[Item]
    last: Place | None  #: what the next page begins after; None for the last page


@dataclass(frozen=True, kw_only=True)
class ListLimits:
    """How many executions a page may look at."""

    examined: int = 20_000
    examined_first: int = 10  #: for each execution that is asked for; mostly that suffices
    sorted: int = 50_000
    sorted_first: int = 1000  #: in the order of their ends, before those are looked for along the index of all ends
    counted: int = 50_000
    previewed: int = 10_000  #: of those that wait, and of those that agents have, by a dry run of a change
    decided: int = 1000  #: of these, how many a dry run decides again; an answer names no more
    drawn: int = 50_000  #: clusters that the executions which a dry run decides draw from together
    simulated: int = 5000  #: executions that one request places by settings and fleets that are only assumed


LIST_LIMITS = ListLimits()


class TooManyToSort(Exception):
    """No index has the executions in the order that was asked for, and they are too many to sort."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of a list."""

    field: str
    descending: bool
    asked_at: datetime | None = None  #: by what goes on until now: until when, on every page of a list

    @property
    def name(self) -> str:
        return f"{self.field} {'DESCENDING' if self.descending else 'ASCENDING'}"

    def sorted(self, query: _Query) -> _Query:
        direction = desc if self.descending else asc
        return query.order_by(direction(self.field), direction("id"))

    def beyond(self, place: Place, table: FromClause) -> ColumnElement[bool]:
        """What comes after a place."""
        key = tuple_(self.comparable(table), table.c.id)
        return key < place if self.descending else key > place

    def comparable(self, table: FromClause) -> AnyColumn:
        """The field that sorts, with a value where there is none."""
        if self.field == "duration" and self.asked_at is not None:
            return seconds_taken(table, self.asked_at)
        if self.field == "waited" and self.asked_at is not None:
            return func.coalesce(seconds_waited(table, self.asked_at), 0.0)
        value = value_of(table, self.field)
        return func.coalesce(value, self._without) if self.field in ("not_before", *_WITHOUT) else value

    def place_of(self, row: AnyRow) -> Place:
        if self.field == "duration" and self.asked_at is not None:
            return seconds_taken_by(row, self.asked_at), row.id
        if self.field == "waited" and self.asked_at is not None:
            waited = waited_for_start(row, self.asked_at)
            return 0.0 if waited is None else waited.total_seconds(), row.id
        value = getattr(row, stored_columns(self.field)[0])
        if self.field == "not_before" and row.phase != Phase.QUEUED.value:
            value = None
        return self._without if value is None else value, row.id

    @property
    def _without(self) -> str | float | datetime:
        """As what executions are sorted that have nothing in the field."""
        if self.field == "not_before":
            return _LONG_AGO if self.descending else _NEVER
        return _WITHOUT.get(self.field, "")


#: A time before and one after all others: whatever the order, what has no next attempt comes last.
_LONG_AGO, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
#: As what executions are sorted that have nothing in a field.
_WITHOUT: Mapping[str, str | float | datetime] = {
    **dict.fromkeys(("cluster", "pool", "label"), ""),
    "duration": 0.0,
    "started_at": _LONG_AGO,
}


ENDED = "finished_at"
NEWEST_FIRST = Order(field="created_at", descending=True)
LAST_ENDED_FIRST = Order(field=ENDED, descending=True)
_HAS_ENDED = Condition(field=ENDED, function="lt", values=(_NEVER,))
OLDEST_FIRST = Order(field="created_at", descending=False)


def page(
    connection: Connection,
    conditions: Iterable[Condition],
    item_type: type[Item],
    *,
    order: Order = NEWEST_FIRST,
    after: Place | None = None,
    limit: int,
    limits: ListLimits = LIST_LIMITS,
) -> Page[Item]:
    """Executions in an order, from after a place on, each as an `item_type`; in that of their ends those that ended."""
    if order.field == ENDED:
        conditions = [*conditions, _HAS_ENDED]
    stored, derived = derived_fields.split(conditions)
    path = find_path(connection, stored, order.field)
    if not path.branches:
        return Page(executions=[], last=None)
    check = Check(derived)

    def read(followed: Path) -> Page[Item]:
        return _read(Walk(connection, followed, order, limits), check, item_type, after, limit)

    if order.field != ENDED:
        return read(path)
    is_broad = path.lead == ("state",)  # where nothing narrows them down, they are not worth counting
    if not is_broad and not _is_many(connection, path, min(limits.sorted_first, limits.sorted)):
        return read(path)
    # Of many, those that ended last are mostly met soon along the index of all ends.
    ended = read(_ended_path(stored))
    is_whole = len(ended.executions) == limit or ended.last is None
    if is_whole or is_broad or _is_many(connection, path, limits.sorted):
        return ended
    return read(path)


def _read(walk: Walk, check: Check, item_type: type[Item], after: Place | None, limit: int) -> Page[Item]:
    """The page that a walk leads to."""
    path: Path = walk.path
    field: str = walk.order.field
    is_sorted = not path.goes_by(field)
    # What is sorted, or must be checked in memory or by what lists do not show, is read without the rest, which is
    # read of those that are on the page.
    names: Sequence[str] = item_type._fields
    is_read_later = is_sorted or bool(check) or not set(path.fields).issubset(names)
    if is_read_later:
        names = ("id", *stored_columns(field), *path.fields, *check.columns())
    columns = [_columns[name] for name in dict.fromkeys(names)]
    rows, last = (walk.sorted_page if is_sorted else walk.page)(columns, check, after, limit)
    items = _items(walk.connection, rows, item_type) if is_read_later else [item_type._make(row) for row in rows]
    return Page(executions=items, last=last)


def _items(connection: Connection, rows: Sequence[AnyRow], item_type: type[Item]) -> list[Item]:
    """Executions by their row ids, which rows begin with, in the order of the rows."""
    ids = [row[0] for row in rows]
    query = select(*(_columns[name] for name in item_type._fields)).where(_columns.id.in_(ids))
    items = {item.id: item for item in map(item_type._make, connection.execute(query))} if ids else {}
    return [items[id] for id in ids if id in items]


def run_terms(connection: Connection, ids: Sequence[int]) -> dict[int, RunTerms]:
    """The terms of some executions, by their row ids."""
    terms = (on_lost_of(executions), time_limit_of(executions), queue_of(executions))
    query = select(_columns.id, *terms).where(_columns.id.in_(ids))
    rows = connection.execute(query) if ids else ()
    return {
        id: RunTerms(on_lost, float(parse_duration(limit)) if limit else None, queue)
        for id, on_lost, limit, queue in rows
    }


@dataclass(frozen=True, kw_only=True)
class Path:
    """An index to follow, one branch for each combination of values of the columns that it leads with."""

    lead: tuple[str, ...]
    branches: tuple[tuple[object, ...], ...]
    span: tuple[Condition, ...]  #: conditions on the time of creation, by which every index goes on
    rest: tuple[Condition, ...]  #: conditions that each execution must be checked for

    def goes_by(self, field: str) -> bool:
        """Whether executions come in the order of a field without being sorted."""
        if field == ENDED:
            return not self.lead
        return field == "created_at" or (field == "name" and self.lead == _SCOPE)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that executions are checked by."""
        return tuple(name for condition in self.rest for name in stored_columns(condition.field))

    def remaining(self, table: FromClause) -> list[ColumnElement[bool]]:
        """What the executions of a table must be checked for."""
        return [fits(condition, table) for condition in self.rest]

    def branch_queries(self, columns: _Columns, *more: ColumnElement[bool]) -> list[AnySelect]:
        """A query for each branch."""
        common = [*(fits(condition) for condition in self.span), *more]
        common += [_columns[name] != literal_column("''") for name in self.lead if name in _PARTIAL]
        common += [] if self.lead else [_columns[ENDED].is_not(None)]
        if self.lead == ("state",):
            branches = [(_columns.state == literal_column(f"'{value}'"),) for (value,) in self.branches]
        else:
            lead = [_columns[name] for name in self.lead]
            branches = [tuple(map(operator.eq, lead, values)) for values in self.branches]
        return [select(*columns).where(*branch, *common) for branch in branches]


def _union(queries: list[AnySelect]) -> _Query:
    return queries[0] if len(queries) == 1 else union_all(*queries)


def find_path(connection: Connection, conditions: list[Condition], sort_by: str) -> Path:
    """The index that fits the conditions best."""
    exact = {
        condition.field: condition
        for condition in conditions
        if condition.function in ("eq", "value_in") and "" not in condition.values
    }
    named = {**exact, "state": _states(exact.get("state"))}
    if "cause" in exact and "phase" not in exact:
        named["phase"] = equals("phase", *phases_of(exact["cause"].values))
    if "backoff" in exact and exact["backoff"].values == ("true",) and "phase" not in exact:
        named["phase"] = equals("phase", Phase.QUEUED.value)
    if "project" in exact and "domain" not in exact and len(exact["project"].values) == 1:
        named["domain"] = equals("domain", *_domains(connection, exact["project"].values[0]))
    lead = next(lead for lead in _leads(named, sort_by) if _is_narrow(named, lead))
    followed = [exact.get(name) for name in lead]
    span = [
        condition for condition in conditions if condition.field == "created_at" and condition.function in COMPARISONS
    ]
    if sort_by == "name" and lead == _SCOPE:
        span = []  # this index goes on by name
    return Path(
        lead=lead,
        branches=tuple(product(*(dict.fromkeys(named[name].values) for name in lead))),
        span=tuple(span),
        rest=tuple(condition for condition in conditions if condition not in span and condition not in followed),
    )


def _ended_path(conditions: Sequence[Condition]) -> Path:
    """The index of those that have ended, in the order of their ends."""
    span = [condition for condition in conditions if condition.field == ENDED and condition.function in COMPARISONS]
    rest = [condition for condition in conditions if condition not in span]
    return Path(lead=(), branches=((),), span=tuple(span), rest=tuple(rest))


def _is_many(connection: Connection, path: Path, most: int) -> bool:
    """Whether a path has too many executions to sort them."""
    # In the order of creation, so that the index of the path is followed and not the whole table read.
    return Walk(connection, path, NEWEST_FIRST, LIST_LIMITS).end(None, most + 1) is not None


def _states(condition: Condition | None) -> Condition:
    """The states that match, which are few enough to name them all."""
    return equals("state", *(state for state in _STATES if condition is None or state in condition.values))


def _leads(named: dict[str, Condition], sort_by: str) -> tuple[tuple[str, ...], ...]:
    if sort_by == "name":
        return (_SCOPE, *_LEADS)
    if "phase" in named and _UNFINISHED.issuperset(named["phase"].values):
        return (("phase",), *_LEADS)  # unfinished executions are few, however many there are in all
    return _LEADS


def _is_narrow(named: dict[str, Condition], lead: tuple[str, ...]) -> bool:
    """Whether conditions name a lead in full, with few enough values."""
    return all(name in named for name in lead) and prod(len(named[name].values) for name in lead) <= _MOST_BRANCHES


def _domains(connection: Connection, project: str) -> list[str]:
    """The domains that a project has executions in, each found by one step along the index."""
    domains: list[str] = []
    while len(domains) <= _MOST_BRANCHES:
        query = select(_columns.domain).where(_columns.project == project, _columns.domain > (domains or [""])[-1])
        domain = connection.execute(query.order_by(_columns.project, _columns.domain).limit(1)).scalar()
        if domain is None:
            break
        domains.append(domain)
    return domains


@dataclass(frozen=True)
class Walk:
    """Executions along an index, in its order or sorted."""

    connection: Connection
    path: Path
    order: Order
    limits: ListLimits

    def page(
        self, columns: _Columns, check: Check, after: Place | None, limit: int
    ) -> tuple[Sequence[AnyRow], Place | None]:
        """The rows of a page and the place to go on after; a few executions are examined first, and then many."""
        rows: list[AnyRow] = []
        is_checked = bool(self.path.rest or check)
        for most in (limit * self.limits.examined_first, self.limits.examined) if is_checked else (limit + 1,):
            examined = self.ahead(columns, after, most).subquery("examined")
            # Both databases return the rows of a subquery in its order, and read no more of them than needed.
            query = select(examined, *check.keys(examined)).where(*self.path.remaining(examined))
            result = self.connection.execute(query if check else query.limit(limit + 1 - len(rows)))
            rows += check.fitting(self.connection, result.all())
            if len(rows) > limit:
                return rows[:limit], self.order.place_of(rows[limit - 1])
            after = self.end(after, most) if is_checked else None
            if after is None:
                break
        return rows, after

    def sorted_page(
        self, columns: _Columns, check: Check, after: Place | None, limit: int
    ) -> tuple[Sequence[AnyRow], Place | None]:
        """The same where no index has the order, so that the database must sort."""
        path, order, most = self.path, self.order, self.limits.sorted
        if order.field != ENDED and _is_many(self.connection, path, most):
            raise TooManyToSort
        fitting = _union(path.branch_queries(columns)).limit(most).subquery("fitting")
        query = select(fitting, *check.keys(fitting)).where(*path.remaining(fitting))
        if after is not None:
            query = query.where(order.beyond(after, fitting))
        key = (order.comparable(fitting), fitting.c.id)
        query = query.order_by(*(column.desc() if order.descending else column for column in key))
        result = self.connection.execute(query if check else query.limit(limit + 1))
        rows = check.fitting(self.connection, result.all())
        return rows[:limit], order.place_of(rows[limit - 1]) if len(rows) > limit else None

    def end(self, after: Place | None, most: int) -> Place | None:
        """The place of the last of so many executions; None where there are fewer."""
        key = [_columns[self.order.field], _columns.id]
        last = self.ahead(key, after, most).offset(most - 1).limit(1)
        row = self.connection.execute(last).one_or_none()
        return None if row is None else self.order.place_of(row)

    def ahead(self, columns: _Columns, after: Place | None, most: int) -> _Query:
        """At most so many executions from after a place on."""
        path, order = self.path, self.order
        beyond = [] if after is None else [order.beyond(after, executions)]
        if (
            beyond and path.goes_by(order.field) and order.field != "name"
        ):  # the place is the narrower bound, where the index is to start
            bounds = ("lt", "lte") if order.descending else ("gt", "gte")
            path = replace(path, span=tuple(condition for condition in path.span if condition.function not in bounds))
        queries = path.branch_queries(columns, *beyond)
        if len(queries) > 1 and is_postgresql(self.connection):  # which merges only branches that have a limit
            queries = [select(order.sorted(query).limit(most).subquery()) for query in queries]
        return order.sorted(_union(queries)).limit(most)
