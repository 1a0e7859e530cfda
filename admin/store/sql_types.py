"""Types of statements and rows whose columns have several types; each type of a column stands in its table."""

from __future__ import annotations

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
    names = vars(value)["__dataclass_fields__"].keys() - fields.keys()
    return value(**{name: column for name, column in row._mapping.items() if name in names}, **fields)
