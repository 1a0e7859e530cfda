"""Types of statements and rows whose columns have several types; each type of a column stands in its table."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, CursorResult, Row, Select

AnyColumn = ColumnElement[Any]
TableColumn = Column[Any]
AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]
AnyResult = CursorResult[*tuple[Any, ...]]
Value = TypeVar("Value")


def build(value: type[Value], row: AnyRow, **fields: object) -> Value:
    """A dataclass from the columns of a row that have the names of its fields, but for the given fields."""
    columns = row._mapping
    names = _names(tuple(vars(value)["__dataclass_fields__"]), row._fields, tuple(fields))
    return value(**{name: columns[name] for name in names}, **fields)


@lru_cache(maxsize=64)
def _names(fields: tuple[str, ...], columns: tuple[str, ...], excluded: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that are fields and not excluded; found once for all rows of a query."""
    return tuple(name for name in columns if name in fields and name not in excluded)
