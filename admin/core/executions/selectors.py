"""Selectors: which executions a list holds, in Flyte's filter grammar: `eq(phase,QUEUED)+value_in(cluster,a;b)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from admin.core import names
from admin.core.executions.causes import Cause
from admin.core.executions.lifecycle import Phase
from admin.core.placement.routes import RUNGS
from admin.core.problems import Invalid, invalid, shorten, unknown_problem
from admin.core.quantities import is_whole_number


class FieldType(Enum):
    """What a field holds."""

    TEXT = "text"
    TIME = "time"
    NUMBER = "number"
    COUNT = "whole number"


FIELDS = {
    **dict.fromkeys(
        (
            "name",
            "project",
            "domain",
            "phase",
            "reason",
            "cause",
            "cluster",
            "pool",
            "label",
            "workflow",
            "launch_plan",
            "version",
            "state",
            "mode",
            "created_by",
            "principal",
            "abort_principal",
            "origin",
        ),
        FieldType.TEXT,
    ),
    **dict.fromkeys(("created_at", "updated_at", "started_at", "finished_at"), FieldType.TIME),
    "duration": FieldType.NUMBER,
    "attempt": FieldType.COUNT,  # as people count, which answers have under `attempt_number`
}
#: Before the key of a label, which is a field too: `eq(labels.team,search)`.
LABEL_PREFIX = "labels."
#: Other names of the same fields, most of them Flyte's.
ALIASES = {
    "attempt_number": "attempt",
    "execution_name": "name",
    "execution_project": "project",
    "execution_domain": "domain",
    "execution_created_at": "created_at",
    "execution_updated_at": "updated_at",
    "project.name": "project",
    "project.identifier": "project",
    "workflow.name": "workflow",
    "workflow.version": "version",
    "task.name": "workflow",
    "task.version": "version",
    "launch_plan.name": "launch_plan",
    "launch_plan.version": "version",
}
#: Fields with a fixed set of values.
WORDS = {
    "phase": tuple(phase.value for phase in Phase),
    "cause": tuple(cause.value for cause in Cause),
    "state": ("ACTIVE", "ARCHIVED"),
    "mode": ("MANUAL", "RELAUNCH", "RECOVERED"),
    "origin": RUNGS,
}
FUNCTIONS = ("eq", "ne", "gt", "gte", "lt", "lte", "contains", "value_in", "value_not_in")
SORT_FIELDS = ("created_at", "updated_at", "name", "phase", "cluster", "pool", "label")
#: What executions are counted by, and the field that each stands for.
GROUPS = {
    **{
        name: name for name in ("phase", "reason", "cause", "cluster", "pool", "label", "project", "domain", "workflow")
    },
    "creator": "created_by",
    "origin": "origin",
}

_MOST_TERMS = 50
_MOST_DIGITS = 9
_TERM = re.compile(r"\s*([a-z_]+)\(\s*([A-Za-z0-9_./-]+)\s*,([^()]*)\)\s*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on one field of an execution."""

    field: str
    function: str
    values: tuple[Any, ...]


def equals(field: str, *values: Any) -> Condition:
    """The condition that a field has one of these values."""
    return Condition(field=field, function="value_in", values=values)


def check_sort_field(field: str) -> str:
    """A field that lists can be sorted by; Invalid with the closest ones for any other."""
    name = _own_name(field)
    if name not in SORT_FIELDS:
        raise Invalid(unknown_problem("sort_by.key", "sort key", field, SORT_FIELDS))
    return name


def check_group(word: str) -> str:
    """What executions can be counted by; Invalid with the closest words for any other."""
    if word not in GROUPS:
        raise Invalid(unknown_problem("by", "group", word, GROUPS))
    return word


def _own_name(field: str) -> str:
    """The name of a field that may be given by Flyte's name."""
    plain = field.removeprefix("execution.")
    return ALIASES.get(plain, plain)


def parse_filters(text: str) -> list[Condition]:
    """The conditions of a filter; Invalid naming the term that is wrong and what is allowed."""
    # Terms are separated by pluses, and by blanks, which is what a plus in a URL is decoded to.
    terms = [term for term in re.split(r"(?<=\))\s*[+ ]\s*(?=[a-z_]+\()", text) if term.strip()]
    if not terms:
        raise _invalid(text, "is empty")
    if len(terms) > _MOST_TERMS:
        raise _invalid(text, f"has {len(terms)} terms; the most is {_MOST_TERMS}")
    return [_condition(term) for term in terms]


def _condition(term: str) -> Condition:
    match = _TERM.fullmatch(term)
    if match is None:
        raise _invalid(term, "is not of the form function(field,value), such as eq(phase,QUEUED)")
    function, field, value = match.group(1), _own_name(match.group(2)), match.group(3)
    if function not in FUNCTIONS:
        raise Invalid(unknown_problem("filters", "filter function", function, FUNCTIONS))
    type_ = _field_type(field)
    if type_ is None:
        raise Invalid(unknown_problem("filters", "field", field, [*FIELDS, f"{LABEL_PREFIX}KEY"]))
    values = value.split(";") if function in ("value_in", "value_not_in") else [value]
    if function == "contains" and type_ is not FieldType.TEXT:
        raise _invalid(term, f"searches for text, but {field} is a {type_.value}")
    return Condition(field=field, function=function, values=tuple(parse_value(field, item.strip()) for item in values))


def _field_type(field: str) -> FieldType | None:
    """What a field holds; None where there is no such field."""
    if field.startswith(LABEL_PREFIX) and names.matches(names.QUALIFIED_NAME, field.removeprefix(LABEL_PREFIX)):
        return FieldType.TEXT
    return FIELDS.get(field)


def parse_value(field: str, text: str) -> Any:
    """A value of a field from its text; Invalid where the field has no such value."""
    try:
        match FIELDS.get(field):
            case FieldType.TIME:
                return parse_time(text)
            case FieldType.NUMBER:
                return float(text.removesuffix("s"))
            case FieldType.COUNT:
                return _count(text)
    except (ValueError, OverflowError):
        raise _invalid(text, f"is not a {FIELDS[field].value}, as {field} must be") from None
    if "\0" in text:
        raise _invalid(text, "contains a NUL character")
    if field in WORDS:
        return _word(field, text)
    return text


def _count(text: str) -> int:
    """A whole number that fits every database; ValueError for anything else."""
    if not is_whole_number(text) or len(text) > _MOST_DIGITS:
        raise ValueError
    return int(text)


def _word(field: str, text: str) -> str:
    """One of the field's fixed values; states may be given by Flyte's numbers."""
    word = {"0": "ACTIVE", "1": "ARCHIVED"}.get(text, text) if field == "state" else text
    if word and word not in WORDS[field]:
        raise Invalid(unknown_problem(field, field, text, WORDS[field]))
    return word


def parse_time(text: str) -> datetime:
    """A time in RFC 3339, or a date; ValueError for anything else."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _invalid(text: str, reason: str) -> Invalid:
    return invalid("filters", f"'{shorten(text)}' {reason}.")
