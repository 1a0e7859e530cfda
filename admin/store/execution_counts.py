"""Counts of executions by what they share, of a limited number of them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Float, FromClause, Integer, Text, case, cast, func, select

from admin.core.executions.selectors import Condition
from admin.core.resources import Amounts
from admin.store import derived_fields
from admin.store.derived_fields import Check
from admin.store.execution_fields import is_backing_off, stored_columns, value_of
from admin.store.execution_lists import LIST_LIMITS, NEWEST_FIRST, ListLimits, Place, Walk, find_path
from admin.store.execution_tables import executions
from admin.store.sql_types import AnyColumn


@dataclass(frozen=True, kw_only=True)
class Group:
    """Executions that have the same value."""

    value: str  #: "" for none
    count: int
    not_before: datetime | None  #: when the first of those in back-off may start
    requested: Amounts  #: of all of them together, by each of `SUMMED`


#: The resources whose requests are added up.
SUMMED = ("cpu", "memory", "gpu")


@dataclass(frozen=True, kw_only=True)
class CountPage:
    """The groups among some executions."""

    groups: list[Group]
    last: Place | None  #: what the next page begins after; None for the last page


def count_page(
    connection: Connection,
    conditions: Iterable[Condition],
    *,
    by: str,
    now: datetime,
    after: Place | None,
    limits: ListLimits = LIST_LIMITS,
) -> CountPage:
    """How many executions have each value of a field, and what they request, of a limited number after a place."""
    stored, derived = derived_fields.split(conditions)
    path = find_path(connection, stored, "created_at")
    if not path.branches:
        return CountPage(groups=[], last=None)
    walk = Walk(connection, path, NEWEST_FIRST, limits)
    check = Check(derived)
    field = derived_fields.FIELDS.get(by)
    columns = stored_columns(by) if field is None else field.columns
    demands = [f"demand_{resource}" for resource in SUMMED]
    names = ("id", "created_at", "phase", "not_before", *demands, *columns, *path.fields, *check.columns())
    columns_examined = [executions.c[name] for name in dict.fromkeys(names)]
    examined = walk.ahead(columns_examined, after, limits.counted).subquery("examined")
    value = _text_of(examined, by) if field is None else field.key(examined)
    next_attempt = case((is_backing_off(examined, now), examined.c.not_before))
    # Grouped once more outside: PostgreSQL groups by no subquery that it selects.
    rows = (
        select(
            value.label("value"),
            next_attempt.label("next_attempt"),
            *(examined.c[name] for name in demands),
            *check.keys(examined),
        )
        .where(*path.remaining(examined))
        .subquery("counted")
    )
    keys = [column for column in rows.c if column.name not in ("value", "next_attempt", *demands)]
    # The sum of very large requests does not fit into an integer of SQLite.
    sums = [func.sum(cast(rows.c[name], Float)) for name in demands]
    aggregates = (func.count(), func.min(rows.c.next_attempt), *sums)
    query = select(rows.c.value, *aggregates, *keys).group_by(rows.c.value, *keys)
    counted = check.fitting(connection, connection.execute(query).all())
    values = None if field is None else derived_fields.read(connection, by, (row[0] for row in counted))
    groups = [
        Group(
            value=row[0] if values is None else str(values[row[0]]),
            count=row[1],
            not_before=row[2],
            requested=dict(zip(SUMMED, map(int, row[3 : 3 + len(SUMMED)]), strict=True)),
        )
        for row in counted
    ]
    return CountPage(groups=_merged(groups), last=walk.end(after, limits.counted))


def _text_of(table: FromClause, field: str) -> AnyColumn:
    """A stored field as the text of a group."""
    value = value_of(table, field)
    return func.coalesce(cast(value, Text) if isinstance(value.type, Integer) else value, "")


def _merged(groups: Sequence[Group]) -> list[Group]:
    """Groups of which those with the same value are one."""
    by_value: dict[str, list[Group]] = {}
    for group in groups:
        by_value.setdefault(group.value, []).append(group)
    return [
        Group(
            value=value,
            count=sum(group.count for group in same),
            not_before=min((group.not_before for group in same if group.not_before), default=None),
            requested={resource: sum(group.requested[resource] for group in same) for resource in SUMMED},
        )
        for value, same in by_value.items()
    ]
