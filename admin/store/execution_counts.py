"""Counts of executions by what they share, of a limited number of them at a time."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Any

from sqlalchemy import Connection, Float, FromClause, Integer, ScalarSelect, Text, and_, case, cast, func, not_, select

from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import Condition
from admin.core.resources import Amounts
from admin.store import derived_fields
from admin.store.bid_tables import bid_rounds
from admin.store.derived_fields import Check
from admin.store.dialects import is_postgresql
from admin.store.execution_fields import (
    REQUESTED,
    is_backing_off,
    seconds_taken,
    seconds_waited,
    stored_columns,
    value_of,
)
from admin.store.execution_lists import LIST_LIMITS, NEWEST_FIRST, ListLimits, Place, Walk, find_path
from admin.store.execution_tables import executions
from admin.store.sql_types import AnyColumn


@dataclass(frozen=True)
class RunTime:
    """For how long the last attempts of some executions ran, what runs until now, and what they had meanwhile."""

    count: int = 0  #: how many ran
    seconds: float = 0  #: together
    longest: float = 0
    used: Mapping[str, float] = field(
        default_factory=dict
    )  #: by each of `REQUESTED`: the amount that each requests times its seconds

    def plus(self, other: RunTime) -> RunTime:
        """Both together."""
        used = {name: self.used.get(name, 0) + other.used.get(name, 0) for name in {**self.used, **other.used}}
        longest = max(self.longest, other.longest)
        return RunTime(self.count + other.count, self.seconds + other.seconds, longest, used)


NO_TIME = RunTime()


@dataclass(frozen=True, kw_only=True)
class Group:
    """Executions that have the same values."""

    values: tuple[str, ...]  #: of each field that they are counted by, "" for none
    count: int
    not_before: datetime | None  #: when the first of those in back-off may start, or is decided by bids
    requested: Amounts  #: of all of them together, by each of `REQUESTED`
    waits: Sequence[float] = ()  #: for how many seconds each has waited that could start now
    started: int = 0  #: how many have started
    waited: float = 0  #: for how many seconds those had waited for their start, together
    longest_waited: float = 0  #: and at most
    ran: RunTime = NO_TIME

    @property
    def median_wait(self) -> float:
        """For how long half of those that wait have waited at least."""
        return statistics.median_high(self.waits)


@dataclass(frozen=True, kw_only=True)
class CountPage:
    """The groups among some executions."""

    groups: list[Group]
    last: Place | None  #: what the next page begins after; None for the last page


def count_page(
    connection: Connection,
    conditions: Iterable[Condition],
    *,
    by: Sequence[str],
    now: datetime,
    after: Place | None,
    limits: ListLimits = LIST_LIMITS,
) -> CountPage:
    """How many executions have the same values of fields, and what they request, of a limited number after a place."""
    stored, derived = derived_fields.split(conditions)
    path = find_path(connection, stored, "created_at")
    if not path.branches:
        return CountPage(groups=[], last=None)
    walk = Walk(connection, path, NEWEST_FIRST, limits)
    check = Check(derived)
    derived_by = {name: field for name in by if (field := derived_fields.FIELDS.get(name)) is not None}
    columns = [
        column for name in by for column in (derived_by[name].columns if name in derived_by else stored_columns(name))
    ]
    demands = [f"demand_{resource}" for resource in REQUESTED]
    times = ("created_at", "not_before", "last_failure", "started_at", "finished_at", "duration")
    names = ("id", "phase", *times, *demands, *columns, *path.fields, *check.columns())
    # Worked out here, once for each: SQLite does it again wherever it is used further out.
    seconds = (seconds_waited(executions, now).label("seconds_waited"), seconds_taken(executions, now).label("ran"))
    columns_examined = [*(executions.c[name] for name in dict.fromkeys(names)), *seconds]
    examined = walk.ahead(columns_examined, after, limits.counted).subquery("examined")
    values = [derived_by[name].key(examined) if name in derived_by else _text_of(examined, name) for name in by]
    value_names = [f"value_{index}" for index in range(len(by))]
    is_waiting = and_(examined.c.phase == Phase.QUEUED.value, not_(is_backing_off(examined, now)))
    next_attempt = case(
        (is_backing_off(examined, now), examined.c.not_before),
        (examined.c.phase == Phase.QUEUED.value, _next_round(examined)),
    )
    # Grouped once more outside: PostgreSQL groups by no subquery that it selects.
    rows = (
        select(
            *(value.label(name) for value, name in zip(values, value_names, strict=True)),
            next_attempt.label("next_attempt"),
            case((is_waiting, examined.c.seconds_waited)).label("waited"),
            case((examined.c.started_at.is_not(None), examined.c.seconds_waited)).label("waited_to_start"),
            case((examined.c.ran > 0, examined.c.ran)).label("ran"),
            *(examined.c[name] for name in demands),
            *check.keys(examined),
        )
        .where(*path.remaining(examined))
        .subquery("counted")
    )
    own = (*value_names, "next_attempt", "waited", "waited_to_start", "ran", *demands)
    keys = [column for column in rows.c if column.name not in own]
    # The sum of very large requests does not fit into an integer of SQLite.
    sums = [func.sum(cast(rows.c[name], Float)) for name in demands]
    used = [func.coalesce(func.sum(rows.c.ran * cast(rows.c[name], Float)), 0.0) for name in demands]
    totals = (*_totals(rows.c.waited_to_start), *_totals(rows.c.ran))
    waits_of_each = _all_of(connection, rows.c.waited)
    aggregates = (func.count(), func.min(rows.c.next_attempt), waits_of_each, *totals, *sums, *used)
    grouped = [rows.c[name] for name in value_names]
    query = select(*grouped, *aggregates, *keys).group_by(*grouped, *keys)
    counted = check.fitting(connection, connection.execute(query).all())
    read = {
        index: derived_fields.read(connection, name, (row[index] for row in counted))
        for index, name in enumerate(by)
        if name in derived_by
    }

    def values_of(row: Sequence[Any]) -> tuple[str, ...]:
        return tuple(str(read[index][row[index]]) if index in read else row[index] for index in range(len(by)))

    groups = []
    waits: dict[tuple[str, ...], list[float]] = {}
    for row in counted:
        count, not_before, waiting, started, waited_to_start, longest, ran, seconds_ran, longest_ran, *amounts = row[
            len(by) : len(by) + len(aggregates)
        ]
        requested, had = amounts[: len(REQUESTED)], amounts[len(REQUESTED) :]
        if waiting:
            waits.setdefault(values_of(row), []).extend(json.loads(waiting) if isinstance(waiting, str) else waiting)
        groups.append(
            Group(
                values=values_of(row),
                count=count,
                not_before=not_before,
                requested=dict(zip(REQUESTED, map(int, requested), strict=True)),
                started=started,
                waited=waited_to_start,
                longest_waited=longest,
                ran=RunTime(ran, seconds_ran, longest_ran, dict(zip(REQUESTED, had, strict=True))),
            )
        )
    merged = [replace(group, waits=sorted(waits.get(group.values, ()))) for group in _merged(groups)]
    return CountPage(groups=merged, last=walk.end(after, limits.counted))


def _totals(seconds: AnyColumn) -> tuple[AnyColumn, ...]:
    """How many have some seconds, these together, and the most of them."""
    return func.count(seconds), func.coalesce(func.sum(seconds), 0.0), func.coalesce(func.max(seconds), 0.0)


def _all_of(connection: Connection, value: AnyColumn) -> AnyColumn:
    """Every value in a group, for medians need each of them; SQLite gives them as JSON."""
    gather = func.array_agg if is_postgresql(connection) else func.json_group_array
    gathered: AnyColumn = gather(value).filter(value.is_not(None))
    return gathered


def _next_round(table: FromClause) -> ScalarSelect[datetime | None]:
    """When clusters are asked about an execution again, or what they were asked is decided at the latest."""
    due = case((bid_rounds.c.decided_at.is_(None), bid_rounds.c.deadline), else_=bid_rounds.c.ask_again_at)
    return select(func.min(due)).where(bid_rounds.c.execution_id == table.c.id).scalar_subquery()


def _text_of(table: FromClause, field: str) -> AnyColumn:
    """A stored field as the text of a group."""
    value = value_of(table, field)
    return func.coalesce(cast(value, Text) if isinstance(value.type, Integer) else value, "")


def _merged(groups: Sequence[Group]) -> list[Group]:
    """Groups of which those with the same values are one."""
    by_values: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        by_values.setdefault(group.values, []).append(group)
    return [
        Group(
            values=values,
            count=sum(group.count for group in same),
            not_before=min((group.not_before for group in same if group.not_before), default=None),
            requested={resource: sum(group.requested[resource] for group in same) for resource in REQUESTED},
            started=sum(group.started for group in same),
            waited=sum(group.waited for group in same),
            longest_waited=max(group.longest_waited for group in same),
            ran=reduce(RunTime.plus, (group.ran for group in same)),
        )
        for values, same in by_values.items()
    ]
