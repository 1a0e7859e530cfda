"""Conditions on the rows of a list, in the grammar of filters: `eq(author,ada)+gt(at,7d)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from admin.core.comparisons import COMPARISONS
from admin.core.executions.selectors import (
    FUNCTIONS,
    MOST_TERMS,
    FieldType,
    filter_parts,
    is_span,
    parse_count,
    parse_span,
    parse_time,
)
from admin.core.problems import Invalid, invalid, shorten, unknown_problem

#: What means that a row has nothing in the field.
NOTHING = ("",)


@dataclass(frozen=True, kw_only=True)
class RowCondition:
    """A condition on one field of a row."""

    field: str
    function: str
    values: tuple[Any, ...]

    def matches(self, value: Any) -> bool:
        """Whether a value fulfils it, or None where the row has nothing in the field."""
        if self.values == NOTHING and self.function in ("eq", "ne"):
            return (value in (None, "")) == (self.function == "eq")
        if self.function in ("ne", "value_not_in"):
            return value not in self.values
        if value is None:
            return False
        if self.function == "contains":
            return self.values[0] in value
        if self.function in COMPARISONS:
            return bool(COMPARISONS[self.function](value, self.values[0]))
        return value in self.values


def parse_conditions(
    text: str, fields: Mapping[str, FieldType], words: Mapping[str, Iterable[str]], now: datetime
) -> list[RowCondition]:
    """The conditions of a filter on some fields, of which some have one of a few words; Invalid for what is wrong."""
    parts = filter_parts(text)
    if not 0 < len(parts) <= MOST_TERMS:
        raise invalid("filters", f"has {len(parts)} terms; give 1 to {MOST_TERMS}.")
    return [_condition(*part, fields, words, now) for part in parts]


def _condition(
    function: str,
    field: str,
    texts: list[str],
    fields: Mapping[str, FieldType],
    words: Mapping[str, Iterable[str]],
    now: datetime,
) -> RowCondition:
    if function not in FUNCTIONS:
        raise Invalid(unknown_problem("filters", "filter function", function, FUNCTIONS))
    if field not in fields:
        raise Invalid(unknown_problem("filters", "field", field, fields, most=len(fields)))
    if function == "contains" and fields[field] is not FieldType.TEXT:
        raise invalid("filters", f"'contains' searches for text, but {field} is a {fields[field].value}.")
    if tuple(texts) == NOTHING and function in ("eq", "ne"):
        return RowCondition(field=field, function=function, values=NOTHING)
    for text in texts if field in words and function != "contains" else ():
        if text not in words[field]:
            raise Invalid(unknown_problem("filters", field, text, words[field], most=len(tuple(words[field]))))
    values = tuple(_read(fields[field], field, text, now) for text in texts)
    return RowCondition(field=field, function=function, values=values)


def _read(type_: FieldType, field: str, text: str, now: datetime) -> Any:
    if "\0" in text:  # no database can even be asked for it
        raise invalid("filters", f"'{shorten(text)}' contains a NUL character.")
    try:
        if type_ is FieldType.TIME:
            span = text.removeprefix("-")
            return now - parse_span(span) if is_span(span) else parse_time(text)
        return parse_count(text) if type_ is FieldType.COUNT else text
    except (ValueError, OverflowError):
        raise invalid("filters", f"'{shorten(text)}' is not a {type_.value}, as {field} must be.") from None
