"""Derived fields: what an execution has by its time limit or the trail of its last decision, which is no column.

Conditions on them are checked in memory, for a limited number of executions at a time: a trail is JSON, and is shared
by many executions, and a time limit is kept as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, FromClause, select

from admin.core.comparisons import COMPARISONS
from admin.core.executions.deciding_scopes import name_of
from admin.core.executions.selectors import Condition
from admin.core.json_text import JsonObject
from admin.core.placement.routes import winner_of
from admin.core.quantities import parse_duration
from admin.store import decisions
from admin.store.execution_fields import time_limit_of
from admin.store.execution_tables import executions
from admin.store.sql_types import AnyColumn, AnyRow

#: Trails or executions that one query reads.
_BATCH = 500

Key = str | None  #: a trail's digest, or a time limit; None where the field is empty
Value = str | float
_T = TypeVar("_T")


class DerivedField(NamedTuple):
    """A field that follows from something that many executions share."""

    columns: tuple[str, ...]  #: of executions that its key needs
    key: Callable[[FromClause], AnyColumn]  #: what it follows from; equal keys have equal values
    read: Callable[[Connection, Iterable[str]], Mapping[str, Value]]  #: by keys; those without one are left out


def _settings_trail(table: FromClause) -> AnyColumn:
    """The trail that the last decision of an execution was made by."""
    return decisions.of_last(table, decisions.decisions.c.settings_trail)


def _batches(keys: Iterable[_T]) -> Iterator[list[_T]]:
    listed = list(keys)
    return (listed[start : start + _BATCH] for start in range(0, len(listed), _BATCH))


def _winners(connection: Connection, digests: Iterable[str]) -> Iterator[tuple[str, JsonObject]]:
    """The rung that decided, of each trail that is kept."""
    for batch in _batches(digests):
        for digest, rungs in decisions.rungs(connection, batch).items():
            if rungs:
                yield digest, winner_of(rungs)


def _rungs(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    return {digest: winner["rung"] for digest, winner in _winners(connection, digests)}


def _origin_scopes(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    return {digest: name_of(winner) for digest, winner in _winners(connection, digests)}


def _time_limits(_connection: Connection, durations: Iterable[str]) -> dict[str, float]:
    return {duration: float(parse_duration(duration)) for duration in durations}


FIELDS: Mapping[str, DerivedField] = {
    "time_limit": DerivedField(("content",), time_limit_of, _time_limits),
    "origin": DerivedField(("id", "decisions"), _settings_trail, _rungs),
    "origin_scope": DerivedField(("id", "decisions"), _settings_trail, _origin_scopes),
}


def split(conditions: Iterable[Condition]) -> tuple[list[Condition], list[Condition]]:
    """The conditions on stored fields, and those on derived ones."""
    stored: list[Condition] = []
    derived: list[Condition] = []
    for condition in conditions:
        (derived if condition.field in FIELDS else stored).append(condition)
    return stored, derived


def read(connection: Connection, field: str, keys: Iterable[Key]) -> dict[Key, Value]:
    """The values of a derived field by its keys; "" where it has none."""
    distinct = list(dict.fromkeys(keys))
    values = FIELDS[field].read(connection, [key for key in distinct if key is not None])
    return {key: "" if key is None else values.get(key, "") for key in distinct}


def values_of(connection: Connection, field: str, ids: Iterable[int]) -> set[str]:
    """The values of a derived field that some executions have."""
    keys: list[Key] = []
    for batch in _batches(ids):
        query = select(FIELDS[field].key(executions)).select_from(executions).where(executions.c.id.in_(batch))
        keys += connection.execute(query).scalars()
    return {str(value) for value in read(connection, field, keys).values() if value}


class Check:
    """Which of some rows fit the conditions on derived fields; each row has the keys of these fields at its end."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._fields = list(dict.fromkeys(condition.field for condition in conditions))

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return bool(self._conditions)

    def columns(self) -> tuple[str, ...]:
        """The columns of executions that the keys need."""
        return tuple(name for field in self._fields for name in FIELDS[field].columns)

    def keys(self, table: FromClause) -> list[AnyColumn]:
        """The keys of the fields, to be selected after all else."""
        return [FIELDS[field].key(table).label(f"key_of_{field}") for field in self._fields]

    def fitting(self, connection: Connection, rows: Sequence[AnyRow]) -> list[AnyRow]:
        """The rows that fit."""
        number = len(self._fields)
        if not number:
            return list(rows)
        keys = [tuple(row[-number:]) for row in rows]
        values = {
            field: read(connection, field, (key[place] for key in keys)) for place, field in enumerate(self._fields)
        }
        fitting = {key for key in set(keys) if self._is_fitting(key, values)}
        return [row for row, key in zip(rows, keys, strict=True) if key in fitting]

    def _is_fitting(self, keys: tuple[Key, ...], values: Mapping[str, Mapping[Key, Value]]) -> bool:
        shown = {field: values[field][key] for field, key in zip(self._fields, keys, strict=True)}
        return all(_fits(shown[condition.field], condition) for condition in self._conditions)


def _fits(value: Value, condition: Condition) -> bool:
    match condition.function:
        case "eq" | "value_in":
            return value in condition.values
        case "ne" | "value_not_in":
            return value not in condition.values
        case "contains":
            return condition.values[0] in str(value)
    limit = condition.values[0]
    # What has no value is neither more nor less than one.
    return isinstance(value, type(limit)) and bool(COMPARISONS[condition.function](value, limit))
