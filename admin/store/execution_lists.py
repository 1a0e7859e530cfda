"""Lists of executions: pages that cost the same however many executions there are.

A page follows one index in the order of creation, from where the page before it ended, and looks at so many executions
at most. What the other conditions find too seldom for that comes with the pages after it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    Select,
    and_,
    asc,
    desc,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)

from admin.core.executions.lifecycle import UNFINISHED
from admin.core.executions.selectors import Condition, equals
from admin.store.executions import Execution, executions

#: Executions that one page looks at, at most; and for each that is asked for at first, which is mostly enough.
MOST_EXAMINED = 20_000
_FIRST_EXAMINED = 10
#: Executions that are sorted for one page, at most.
MOST_SORTED = 50_000
#: Combinations of values that a page follows side by side, at most.
_MOST_BRANCHES = 10

_columns = executions.c
#: What a list leaves out, for it is large, or of use only where something is decided.
_LEFT_OUT = {"content", "request", "digest", "route_kind", "route_name", "required_plugins", "avoid", "confirmed"}
_LEFT_OUT |= {"tier", "priority", "not_before", "queue_deadline"}
_LISTED = [one for one in _columns if one.name not in _LEFT_OUT and not one.name.startswith("demand_")]

#: What indexes lead with, before the time of creation. The first one that the conditions name in full is followed.
_SCOPE = ("project", "domain")
_LEADS = (("workflow",), ("launch_plan",), _SCOPE, ("cluster",), ("pool",), ("label",), ("phase",), ("state",))
#: What is in an index only if it is not empty; and what has an index for each of its values.
_PARTIAL = ("workflow", "launch_plan")
_STATES = ("ACTIVE", "ARCHIVED")
_UNFINISHED = {phase.value for phase in UNFINISHED}

_Query = Select[Any] | CompoundSelect[Any]
_Columns = Sequence[ColumnElement[Any]]
Place = tuple[Any, int]  #: what an execution has in the field that sorts, and its row's id


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some executions of a list. There may be fewer than asked for, even none, before the last page."""

    executions: list[Execution]
    last: Place | None  #: what the next page begins after; None for the last page


class TooManyToSort(Exception):
    """So many executions that they are listed only in an order that an index has."""


def page(
    connection: Connection,
    conditions: Iterable[Condition],
    *,
    sort_by: str,
    descending: bool,
    after: Place | None,
    limit: int,
    whole: bool = False,
) -> Page:
    """Executions by one of their fields, from the one after a place on; without what is large unless `whole`.

    TooManyToSort where no index has them in that order and there are more than one request should sort.
    """
    path = _path(connection, list(conditions), sort_by)
    if not path.branches:
        return Page(executions=[], last=None)
    order = _Order(field=sort_by, descending=descending)
    columns = list(_columns) if whole else _LISTED
    if path.goes_by(sort_by):
        return _Walk(connection, path, order).page(columns, after, limit)
    beyond = _together(path.steps([_columns.id])).offset(MOST_SORTED).limit(1)
    if connection.execute(beyond).first() is not None:
        raise TooManyToSort
    rows = list(connection.execute(_sorted(path, order, columns, after).limit(limit + 1)))
    return Page(executions=rows[:limit], last=order.place_of(rows[limit - 1]) if len(rows) > limit else None)


def counts(connection: Connection, by: str, conditions: Iterable[Condition]) -> list[tuple[str, int]]:
    """How many executions have each value of a column, the most frequent first; "" for none."""
    value = func.coalesce(_columns[by], "")
    # Every state is said, for there is no other index by the time of creation.
    any_state = or_(*(_columns.state == literal_column(f"'{one}'") for one in _STATES))
    found = select(value, func.count()).where(any_state, *(_condition(one) for one in conditions)).group_by(value)
    return [(name, count) for name, count in connection.execute(found.order_by(func.count().desc(), value))]


@dataclass(frozen=True, kw_only=True)
class _Order:
    """The order of a list."""

    field: str
    descending: bool

    def sorted(self, found: _Query) -> _Query:
        word = desc if self.descending else asc
        return found.order_by(word(self.field), word("id"))

    def beyond(self, place: Place, table: FromClause) -> ColumnElement[bool]:
        """What comes after a place."""
        key = tuple_(_comparable(table, self.field), table.c.id)
        return key < place if self.descending else key > place

    def place_of(self, row: Execution) -> Place:
        value = getattr(row, self.field)
        return "" if value is None else value, row.id


def _comparable(table: FromClause, field: str) -> ColumnElement[Any]:
    return func.coalesce(table.c[field], "") if field in ("cluster", "pool", "label") else table.c[field]


@dataclass(frozen=True, kw_only=True)
class _Path:
    """An index to follow: what it leads with, each combination of values for itself."""

    lead: tuple[str, ...]
    branches: tuple[tuple[Any, ...], ...]
    span: tuple[Condition, ...]  #: what is said of the time of creation, by which every index goes on
    rest: tuple[Condition, ...]  #: what must be looked at

    def goes_by(self, field: str) -> bool:
        """Whether executions come in the order of a field without being sorted."""
        return field == "created_at" or (field == "name" and self.lead == _SCOPE)

    def steps(self, columns: _Columns, *more: ColumnElement[bool]) -> list[Select[Any]]:
        """The executions of each branch."""
        common = [*(_condition(one) for one in self.span), *more]
        common += [_columns[name] != literal_column("''") for name in self.lead if name in _PARTIAL]
        if self.lead == ("state",):
            branches = [(_columns.state == literal_column(f"'{value}'"),) for (value,) in self.branches]
        else:
            lead = [_columns[name] for name in self.lead]
            branches = [tuple(map(operator.eq, lead, values)) for values in self.branches]
        return [select(*columns).where(*branch, *common) for branch in branches]


def _together(steps: list[Select[Any]]) -> _Query:
    return steps[0] if len(steps) == 1 else union_all(*steps)


def _path(connection: Connection, conditions: list[Condition], sort_by: str) -> _Path:
    """The index that fits some conditions best."""
    said = {one.field: one for one in conditions if one.function in ("eq", "value_in") and "" not in one.values}
    named = {**said, "state": _states(said.get("state"))}
    if "project" in said and "domain" not in said and len(said["project"].values) == 1:
        named["domain"] = equals("domain", *_domains(connection, said["project"].values[0]))
    lead = next(one for one in _leads(named, sort_by) if _is_narrow(named, one))
    followed = [said.get(name) for name in lead]
    span = [one for one in conditions if one.field == "created_at" and one.function in _COMPARISONS]
    if sort_by == "name" and lead == _SCOPE:
        span = []  # this one index goes on by name
    return _Path(
        lead=lead,
        branches=tuple(product(*(dict.fromkeys(named[name].values) for name in lead))),
        span=tuple(span),
        rest=tuple(one for one in conditions if one not in span and one not in followed),
    )


def _states(wanted: Condition | None) -> Condition:
    """The states that are meant, which are few enough to name them all."""
    return equals("state", *(one for one in _STATES if wanted is None or one in wanted.values))


def _leads(named: dict[str, Condition], sort_by: str) -> tuple[tuple[str, ...], ...]:
    if sort_by == "name":
        return (_SCOPE, *_LEADS)
    if "phase" in named and _UNFINISHED.issuperset(named["phase"].values):
        return (("phase",), *_LEADS)  # what has not ended is little, whatever there is
    return _LEADS


def _is_narrow(named: dict[str, Condition], lead: tuple[str, ...]) -> bool:
    """Whether conditions name a lead in full, with few enough values."""
    return all(name in named for name in lead) and prod(len(named[name].values) for name in lead) <= _MOST_BRANCHES


def _domains(connection: Connection, project: str) -> list[str]:
    """The domains that a project has executions in, each found by a step of its own along the index."""
    found: list[str] = []
    while len(found) <= _MOST_BRANCHES:
        step = select(_columns.domain).where(_columns.project == project, _columns.domain > (found or [""])[-1])
        first = connection.execute(step.order_by(_columns.project, _columns.domain).limit(1)).scalar()
        if first is None:
            break
        found.append(first)
    return found


@dataclass(frozen=True)
class _Walk:
    """Executions as an index has them."""

    connection: Connection
    path: _Path
    order: _Order

    def page(self, columns: _Columns, after: Place | None, limit: int) -> Page:
        """A few executions are looked at first, and then many."""
        rows: list[Execution] = []
        rest = self.path.rest
        for most in (limit * _FIRST_EXAMINED, MOST_EXAMINED) if rest else (limit + 1,):
            examined = self._ahead(columns, after, most).subquery("examined")
            # Both databases hand on what a subquery gives in its order, and read no more than is asked for.
            found = select(examined).where(*(_condition(one, examined) for one in rest))
            rows += self.connection.execute(found.limit(limit + 1 - len(rows)))
            if len(rows) > limit:
                return Page(executions=rows[:limit], last=self.order.place_of(rows[limit - 1]))
            after = self._end(after, most) if rest else None
            if after is None:
                break
        return Page(executions=rows, last=after)

    def _end(self, after: Place | None, most: int) -> Place | None:
        """Where so many executions end; None where there are fewer."""
        key = [_columns[self.order.field], _columns.id]
        last = self._ahead(key, after, most).offset(most - 1).limit(1)
        row = self.connection.execute(last).one_or_none()
        return None if row is None else self.order.place_of(row)

    def _ahead(self, columns: _Columns, after: Place | None, most: int) -> _Query:
        """So many executions from a place on."""
        path, order = self.path, self.order
        beyond = [] if after is None else [order.beyond(after, executions)]
        if beyond and order.field == "created_at":  # the place says more than these, and the index is to start there
            behind = ("lt", "lte") if order.descending else ("gt", "gte")
            path = replace(path, span=tuple(one for one in path.span if one.function not in behind))
        steps = path.steps(columns, *beyond)
        if len(steps) > 1 and self.connection.dialect.name == "postgresql":  # which merges only what has an end
            steps = [select(order.sorted(one).limit(most).subquery()) for one in steps]
        return order.sorted(_together(steps)).limit(most)


def _sorted(path: _Path, order: _Order, columns: _Columns, after: Place | None) -> _Query:
    """Executions sorted anew, which are few enough for that."""
    fitting = _together(path.steps(columns)).limit(MOST_SORTED).subquery("fitting")
    found = select(fitting).where(*(_condition(one, fitting) for one in path.rest))
    if after is not None:
        found = found.where(order.beyond(after, fitting))
    key = (_comparable(fitting, order.field), fitting.c.id)
    return found.order_by(*(one.desc() if order.descending else one for one in key))


def _condition(wanted: Condition, table: FromClause = executions) -> ColumnElement[bool]:
    column: ColumnElement[Any] = table.c[wanted.field]
    if wanted.function in ("eq", "value_in"):
        return _one_of(column, wanted.values)
    if wanted.function in ("ne", "value_not_in"):
        return ~_one_of(column, wanted.values)
    value = wanted.values[0]
    if wanted.function == "contains":
        return func.replace(column, value, "") != column  # heeds case on every database
    compared: ColumnElement[bool] = _COMPARISONS[wanted.function](column, value)
    return compared


_COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def _one_of(column: ColumnElement[Any], values: tuple[Any, ...]) -> ColumnElement[bool]:
    """An empty value stands for having none."""
    named = [value for value in values if value != ""]
    found = column.in_(named)
    return or_(found, column.is_(None), column == "") if "" in values else and_(found, column.is_not(None))
