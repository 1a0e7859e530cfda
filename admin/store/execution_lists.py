"""Lists and counts of executions: pages that cost the same however many executions there are.

A page follows one index in the order of creation, from where the last page ended, and examines a limited number of
executions. Matches that are too rare for one page come with the pages after it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    and_,
    asc,
    case,
    desc,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)

from admin.core.executions.causes import CAUSE_RULES, phases_of
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.selectors import LABEL_PREFIX, Condition, equals
from admin.core.placement.routes import winner_of
from admin.store import decisions
from admin.store.dialects import is_postgresql
from admin.store.execution_tables import executions
from admin.store.executions import Execution, ListedExecution
from admin.store.sql_types import AnyColumn, AnyRow, AnySelect

#: Combinations of values whose indexes a page merges at most.
_MOST_BRANCHES = 10

_columns = executions.c
#: The field that is not stored with an execution: which rung decided, by the trail of its last decision.
_ORIGIN = "origin"
#: The field that is the number of leases less those that came to nothing before they began.
_ATTEMPT = "attempt"

#: What indexes lead with, before the time of creation. The first one that the conditions name in full is followed.
_SCOPE = ("project", "domain")
_LEADS = (("workflow",), ("launch_plan",), _SCOPE, ("cluster",), ("pool",), ("label",), ("phase",), ("state",))
#: Columns whose index leaves out empty values; and the column that has an index for each of its values.
_PARTIAL = ("workflow", "launch_plan")
_STATES = ("ACTIVE", "ARCHIVED")
_UNFINISHED = {phase.value for phase in UNFINISHED}

_Query = AnySelect | CompoundSelect[Any]
_Columns = Sequence[AnyColumn]
Place = tuple[str | datetime, int]  #: an execution's value in the field that sorts, and its row's id

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
    counted: int = 50_000
    previewed: int = 10_000  #: of those that wait, and of those that agents have, by a dry run of a change
    drawn: int = 250_000  #: clusters that the executions which a dry run decides draw from together


LIST_LIMITS = ListLimits()


@dataclass(frozen=True, kw_only=True)
class Group:
    """Executions that have the same value."""

    value: str  #: "" for none
    count: int
    not_before: datetime | None  #: when the first of those in back-off may start


@dataclass(frozen=True, kw_only=True)
class CountPage:
    """The groups among some executions."""

    groups: list[Group]
    last: Place | None  #: what the next page begins after; None for the last page


class TooManyToSort(Exception):
    """No index has the executions in the order that was asked for, and they are too many to sort."""


def page(
    connection: Connection,
    conditions: Iterable[Condition],
    item_type: type[Item],
    *,
    sort_by: str,
    descending: bool,
    after: Place | None,
    limit: int,
    limits: ListLimits = LIST_LIMITS,
) -> Page[Item]:
    """Executions by one of their fields, from after a place on, each as an `item_type`."""
    path = _path(connection, list(conditions), sort_by)
    if not path.branches:
        return Page(executions=[], last=None)
    order = _Order(field=sort_by, descending=descending)
    columns = [_columns[name] for name in item_type._fields]
    if path.goes_by(sort_by):
        rows, last = _Walk(connection, path, order, limits).page(columns, after, limit)
    else:
        rows, last = _sorted_page(connection, path, order, columns, after, limit, limits.sorted)
    return Page(executions=[item_type._make(row) for row in rows], last=last)


def _sorted_page(
    connection: Connection, path: _Path, order: _Order, columns: _Columns, after: Place | None, limit: int, most: int
) -> tuple[Sequence[AnyRow], Place | None]:
    """A page of executions that the database must sort."""
    beyond = _union(path.branch_queries([_columns.id])).offset(most).limit(1)
    if connection.execute(beyond).first() is not None:
        raise TooManyToSort
    fitting = _union(path.branch_queries(columns)).limit(most).subquery("fitting")
    query = select(fitting).where(*_conditions(connection, path.rest, fitting))
    if after is not None:
        query = query.where(order.beyond(after, fitting))
    key = (_comparable(fitting, order.field), fitting.c.id)
    query = query.order_by(*(column.desc() if order.descending else column for column in key))
    rows = connection.execute(query.limit(limit + 1)).all()
    return rows[:limit], order.place_of(rows[limit - 1]) if len(rows) > limit else None


def count_page(
    connection: Connection,
    conditions: Iterable[Condition],
    *,
    by: str,
    now: datetime,
    after: Place | None,
    limits: ListLimits = LIST_LIMITS,
) -> CountPage:
    """How many executions have each value of a field, of a limited number of them from after a place on."""
    path = _path(connection, list(conditions), "created_at")
    if not path.branches:
        return CountPage(groups=[], last=None)
    walk = _Walk(connection, path, _Order(field="created_at", descending=True), limits)
    fields = ("id", "created_at", "phase", "not_before", by, *(condition.field for condition in path.rest))
    columns = [_columns[name] for name in dict.fromkeys(name for field in fields for name in _stored(field))]
    examined = walk.ahead(columns, after, limits.counted).subquery("examined")
    value = func.coalesce(_column(examined, by), "")
    is_backing_off = and_(examined.c.phase == Phase.QUEUED.value, examined.c.not_before > now)
    query = (
        select(value, func.count(), func.min(case((is_backing_off, examined.c.not_before))))
        .where(*_conditions(connection, path.rest, examined))
        .group_by(value)
    )
    groups = [
        Group(value=value, count=count, not_before=not_before) for value, count, not_before in connection.execute(query)
    ]
    if by == _ORIGIN:
        groups = _by_origin(connection, groups)
    return CountPage(groups=groups, last=walk.end(after, limits.counted))


@dataclass(frozen=True, kw_only=True)
class _Order:
    """The order of a list."""

    field: str
    descending: bool

    def sorted(self, query: _Query) -> _Query:
        direction = desc if self.descending else asc
        return query.order_by(direction(self.field), direction("id"))

    def beyond(self, place: Place, table: FromClause) -> ColumnElement[bool]:
        """What comes after a place."""
        key = tuple_(_comparable(table, self.field), table.c.id)
        return key < place if self.descending else key > place

    def place_of(self, row: AnyRow) -> Place:
        value = getattr(row, self.field)
        return "" if value is None else value, row.id


def _comparable(table: FromClause, field: str) -> AnyColumn:
    return func.coalesce(table.c[field], "") if field in ("cluster", "pool", "label") else table.c[field]


@dataclass(frozen=True, kw_only=True)
class _Path:
    """An index to follow, one branch for each combination of values of the columns that it leads with."""

    lead: tuple[str, ...]
    branches: tuple[tuple[object, ...], ...]
    span: tuple[Condition, ...]  #: conditions on the time of creation, by which every index goes on
    rest: tuple[Condition, ...]  #: conditions that each execution must be checked for

    def goes_by(self, field: str) -> bool:
        """Whether executions come in the order of a field without being sorted."""
        return field == "created_at" or (field == "name" and self.lead == _SCOPE)

    def branch_queries(self, columns: _Columns, *more: ColumnElement[bool]) -> list[AnySelect]:
        """A query for each branch."""
        common = [*(_condition(condition) for condition in self.span), *more]
        common += [_columns[name] != literal_column("''") for name in self.lead if name in _PARTIAL]
        if self.lead == ("state",):
            branches = [(_columns.state == literal_column(f"'{value}'"),) for (value,) in self.branches]
        else:
            lead = [_columns[name] for name in self.lead]
            branches = [tuple(map(operator.eq, lead, values)) for values in self.branches]
        return [select(*columns).where(*branch, *common) for branch in branches]


def _union(queries: list[AnySelect]) -> _Query:
    return queries[0] if len(queries) == 1 else union_all(*queries)


def _path(connection: Connection, conditions: list[Condition], sort_by: str) -> _Path:
    """The index that fits the conditions best."""
    exact = {
        condition.field: condition
        for condition in conditions
        if condition.function in ("eq", "value_in") and "" not in condition.values
    }
    named = {**exact, "state": _states(exact.get("state"))}
    if "cause" in exact and "phase" not in exact:
        named["phase"] = equals("phase", *phases_of(exact["cause"].values))
    if "project" in exact and "domain" not in exact and len(exact["project"].values) == 1:
        named["domain"] = equals("domain", *_domains(connection, exact["project"].values[0]))
    lead = next(lead for lead in _leads(named, sort_by) if _is_narrow(named, lead))
    followed = [exact.get(name) for name in lead]
    span = [
        condition for condition in conditions if condition.field == "created_at" and condition.function in _COMPARISONS
    ]
    if sort_by == "name" and lead == _SCOPE:
        span = []  # this index goes on by name
    return _Path(
        lead=lead,
        branches=tuple(product(*(dict.fromkeys(named[name].values) for name in lead))),
        span=tuple(span),
        rest=tuple(condition for condition in conditions if condition not in span and condition not in followed),
    )


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
class _Walk:
    """Executions in the order of an index."""

    connection: Connection
    path: _Path
    order: _Order
    limits: ListLimits

    def page(self, columns: _Columns, after: Place | None, limit: int) -> tuple[Sequence[AnyRow], Place | None]:
        """The rows of a page and the place to go on after; a few executions are examined first, and then many."""
        rows: list[AnyRow] = []
        rest = self.path.rest
        for most in (limit * self.limits.examined_first, self.limits.examined) if rest else (limit + 1,):
            examined = self.ahead(columns, after, most).subquery("examined")
            # Both databases return the rows of a subquery in its order, and read no more of them than needed.
            query = select(examined).where(*_conditions(self.connection, rest, examined))
            rows += self.connection.execute(query.limit(limit + 1 - len(rows)))
            if len(rows) > limit:
                return rows[:limit], self.order.place_of(rows[limit - 1])
            after = self.end(after, most) if rest else None
            if after is None:
                break
        return rows, after

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
        if beyond and order.field == "created_at":  # the place is the narrower bound, where the index is to start
            bounds = ("lt", "lte") if order.descending else ("gt", "gte")
            path = replace(path, span=tuple(condition for condition in path.span if condition.function not in bounds))
        queries = path.branch_queries(columns, *beyond)
        if len(queries) > 1 and is_postgresql(self.connection):  # which merges only branches that have a limit
            queries = [select(order.sorted(query).limit(most).subquery()) for query in queries]
        return order.sorted(_union(queries)).limit(most)


def _conditions(
    connection: Connection, conditions: Iterable[Condition], table: FromClause
) -> Iterator[ColumnElement[bool]]:
    """The conditions on the executions of a table; an origin is looked up in the trails that they have, once each."""
    origins: Mapping[str, str] | None = None
    for condition in conditions:
        if condition.field != _ORIGIN:
            yield _condition(condition, table)
            continue
        if origins is None:
            trails = connection.execute(select(_settings_trail(table)).select_from(table)).scalars()
            origins = _origins(connection, trails)
        fitting = [digest for digest, origin in origins.items() if _is_fitting(origin, condition)]
        yield _settings_trail(table).in_(fitting)


def _is_fitting(origin: str, condition: Condition) -> bool:
    """Whether an origin, which no execution is without, fits a condition."""
    match condition.function:
        case "eq" | "value_in":
            return origin in condition.values
        case "ne" | "value_not_in":
            return origin not in condition.values
        case "contains":
            return condition.values[0] in origin
    return bool(_COMPARISONS[condition.function](origin, condition.values[0]))


def _origins(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    """The rungs that decided, by the digests of settings trails."""
    rungs = decisions.rungs(connection, filter(None, digests))
    return {digest: winner_of(rungs_of_trail)["rung"] for digest, rungs_of_trail in rungs.items() if rungs_of_trail}


def _by_origin(connection: Connection, groups: Sequence[Group]) -> list[Group]:
    """Groups by settings trails as groups by the rungs that decided."""
    origins = _origins(connection, [group.value for group in groups])
    merged: dict[str, list[Group]] = {}
    for group in groups:
        merged.setdefault(origins.get(group.value, ""), []).append(group)
    return [
        Group(
            value=origin,
            count=sum(group.count for group in same),
            not_before=min((group.not_before for group in same if group.not_before), default=None),
        )
        for origin, same in merged.items()
    ]


def _settings_trail(table: FromClause) -> AnyColumn:
    """The trail that the last decision of an execution was made by."""
    stored = decisions.decisions.c
    is_last = (stored.execution_id == table.c.id, stored.number == table.c.decisions)
    return select(stored.settings_trail).where(*is_last).correlate(table).scalar_subquery()


def _condition(condition: Condition, table: FromClause = executions) -> ColumnElement[bool]:
    column = _column(table, condition.field)
    if condition.function in ("eq", "value_in"):
        return _is_in(column, condition.values)
    if condition.function in ("ne", "value_not_in"):
        return ~_is_in(column, condition.values)
    value = condition.values[0]
    if condition.function == "contains":
        return func.replace(column, value, "") != column  # case-sensitive on every database
    comparison: ColumnElement[bool] = _COMPARISONS[condition.function](column, value)
    return comparison


def _column(table: FromClause, field: str) -> AnyColumn:
    """The column of a field, the value of a label, or the cause that follows from phase and reason."""
    if field == "cause":
        return _cause(table)
    if field == _ORIGIN:
        return _settings_trail(table)
    if field == _ATTEMPT:
        number: AnyColumn = table.c.attempt - table.c.unstarted
        return number
    if field.startswith(LABEL_PREFIX):
        labels: Any = table.c.labels  # the operators of JSON have no types
        value: AnyColumn = labels[field.removeprefix(LABEL_PREFIX)].as_string()
        return value
    return table.c[field]


def _stored(field: str) -> tuple[str, ...]:
    """The columns that a field is read from."""
    if field == "cause":
        return ("phase", "reason")
    if field == _ORIGIN:
        return ("id", "decisions")
    if field == _ATTEMPT:
        return ("attempt", "unstarted")
    return ("labels",) if field.startswith(LABEL_PREFIX) else (field,)


def _cause(table: FromClause) -> AnyColumn:
    """The cause of an execution that ended without success; "" for any other."""
    rules = [
        (
            and_(table.c.phase == rule.phase.value, *([table.c.reason.in_(rule.reasons)] if rule.reasons else [])),
            rule.cause.value,
        )
        for rule in CAUSE_RULES
    ]
    return case(*rules, else_="")


_COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def _is_in(column: AnyColumn, values: tuple[object, ...]) -> ColumnElement[bool]:
    """An empty value stands for having none."""
    is_named = column.in_([value for value in values if value != ""])
    return or_(is_named, column.is_(None), column == "") if "" in values else and_(is_named, column.is_not(None))
