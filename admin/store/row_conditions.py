"""Conditions on the rows of a list, as databases find them."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Text, not_, or_

from admin.core.comparisons import COMPARISONS
from admin.core.row_conditions import NOTHING, RowCondition
from admin.store.sql_types import AnyColumn


def fits(condition: RowCondition, column: AnyColumn) -> ColumnElement[bool]:
    """Whether a column fulfils a condition; of texts that contain another, in some databases in any case."""
    values, function = condition.values, condition.function
    if function in COMPARISONS:
        compared: ColumnElement[bool] = COMPARISONS[function](column, values[0])
        return compared
    if function == "contains":
        return column.contains(values[0], autoescape=True)
    is_negated = function in ("ne", "value_not_in")
    if values == NOTHING and function in ("eq", "ne"):
        is_absent = or_(column.is_(None), column == "") if isinstance(column.type, Text) else column.is_(None)
        return not_(is_absent) if is_negated else is_absent
    return or_(column.is_(None), column.not_in(values)) if is_negated else column.in_(values)
