"""Types of statements and rows whose columns have several types; each type of a column stands in its table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, CursorResult, Row, Select

AnyColumn = ColumnElement[Any]
TableColumn = Column[Any]
AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]
AnyResult = CursorResult[*tuple[Any, ...]]
