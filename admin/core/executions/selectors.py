"""Selectors: which executions a list holds, in Flyte's filter grammar: `eq(phase,QUEUED)+value_in(cluster,a;b)`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from admin.core import names
from admin.core.executions.causes import Cause
from admin.core.executions.deciding_scopes import parse_scope_name
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import ON_LOST
from admin.core.placement.routes import RUNGS
from admin.core.problems import Invalid, invalid, shorten, unknown_problem
from admin.core.quantities import is_whole_number, parse_age
from admin.core.resources import format_amount, parse_demand
from admin.core.settings.scopes import Scope


class FieldType(Enum):
    """What a field holds."""

    TEXT = "text"
    TIME = "time"
    TIME_AHEAD = "time ahead"
    NUMBER = "number"
    COUNT = "whole number"
    AMOUNT = "quantity"


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
            "requested_cluster",  # that its request names, wherever it is
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
            "origin_scope",
            "limit_scope",
            "silent",
            "unconfirmed",
            "backoff",
            "on_lost",
            "queue",  # that it was given when its settings were resolved
            "image",  # of its job
            "native_id",
            "node",  # any of those that it runs on, or ran on last
        ),
        FieldType.TEXT,
    ),
    **dict.fromkeys(("created_at", "decided_at", "updated_at", "started_at", "finished_at"), FieldType.TIME),
    "not_before": FieldType.TIME_AHEAD,
    "duration": FieldType.NUMBER,
    "waited": FieldType.NUMBER,  # for its start, since it could start
    "time_limit": FieldType.NUMBER,  # the longest that an attempt may run
    **dict.fromkeys(("cpu", "memory"), FieldType.AMOUNT),  # that its tasks request together
    "gpu": FieldType.COUNT,  # the same
    "attempt": FieldType.COUNT,  # as people count, which answers have under `attempt_number`
    "decisions": FieldType.COUNT,  # how often it was decided where it goes
    "exit_code": FieldType.COUNT,
    "revision": FieldType.COUNT,  # that its settings are of
}
#: Before the key of a label, which is a field too: `eq(labels.team,search)`.
LABEL_PREFIX = "labels."
#: Other names of the same fields, most of them Flyte's.
ALIASES = {
    "attempt_number": "attempt",
    "decision_revision": "revision",
    "nodes": "node",
    "next_attempt": "not_before",
    "time_limit_seconds": "time_limit",
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
    "silent": ("true", "false"),  # whether it waits or runs at a cluster whose agent is not heard
    "backoff": ("true", "false"),  # whether the time of its next attempt is still to come
    "on_lost": ON_LOST,  # what becomes of it if its cluster is lost
    "unconfirmed": ("true", "false"),  # whether it has ended without a confirmation that its job has
}
#: The value of a time limit where there is none.
NO_LIMIT = "none"
#: Fields whose values are names of scopes.
SCOPE_FIELDS = ("origin_scope", "limit_scope")
FUNCTIONS = ("eq", "ne", "gt", "gte", "lt", "lte", "contains", "value_in", "value_not_in")
#: Fields that go on until now while an execution runs, or waits.
AS_OF_NOW = ("duration", "waited")
SORT_FIELDS = (
    *("created_at", "updated_at", "started_at", "finished_at", "not_before"),
    *("name", "phase", "cluster", "pool", "label", *AS_OF_NOW, "cpu", "memory", "gpu"),
)
#: Days in UTC, which executions are only counted by, and the times that they are days of.
DAYS = {"day": "created_at", "day_started": "started_at", "day_finished": "finished_at"}
#: What executions are counted by, and the field that each stands for.
GROUPS = {
    **{
        name: name
        for name in ("phase", "reason", "cause", "exit_code", "cluster", "pool", "label", "project", "domain")
    },
    "workflow": "workflow",
    "launch_plan": "launch_plan",
    "creator": "created_by",
    "user": "created_by",
    "aborted_by": "abort_principal",
    "origin": "origin",
    "origin_scope": "origin_scope",
    "limit_scope": "limit_scope",
    "queue": "queue",
    "on_lost": "on_lost",
    "image": "image",
    **{day: day for day in DAYS},
}

#: The most conditions of a filter, and the most characters.
MOST_TERMS = 50
MOST_FILTER_LENGTH = 4000
_MOST_DIGITS = 9
#: The most groups that executions are counted by at once.
_MOST_GROUPS = 3
_NO_TERM = "is not of the form function(field,value), such as eq(phase,QUEUED)"
_TERM = re.compile(r"([a-z_]+)\(\s*([A-Za-z0-9_./-]+)\s*,(.*)\)", re.DOTALL)
#: A value in quotes, in which a backslash stands before a quote or a backslash; or plain characters.
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_VALUE = re.compile(rf"\s*(?:({_QUOTED})\s*|([^;]*))(;|\Z)", re.DOTALL)
#: What matters for where a term ends: values in quotes, and brackets.
_PIECE = re.compile(rf"(?<=[,;])\s*{_QUOTED}\s*(?=[;)])|[()]", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on one field of an execution."""

    field: str
    function: str
    values: tuple[Any, ...]
    asked_at: datetime | None = None  #: until when what still runs has run, and what is in back-off is to wait


def equals(field: str, *values: Any, asked_at: datetime | None = None) -> Condition:
    """The condition that a field has one of these values."""
    return Condition(field=field, function="value_in", values=values, asked_at=asked_at)


#: The project and domain of an execution together, which no filter names.
PLACE = "place"


def within(scopes: Iterable[Scope]) -> list[Condition]:
    """The conditions that an execution is in one of some scopes; in those of workflows there is none.

    What an execution launches may be registered elsewhere.
    """
    places = tuple(sorted(scope for scope in scopes if not scope.workflow))
    conditions = [Condition(field=PLACE, function="within", values=places)]
    projects = sorted({scope.project for scope in places})
    if projects and all(projects):  # by which an index can be followed
        conditions.append(equals("project", *projects))
    return conditions


#: Times that are not after the end of an execution.
_UP_TO_THE_END = ("created_at", "decided_at", "started_at", "finished_at")


def may_select_ended_before(conditions: Iterable[Condition], time: datetime) -> bool:
    """Whether conditions may select an execution that ended before a time."""
    return not any(
        condition.values[0] >= time
        if condition.field in _UP_TO_THE_END and condition.function in ("eq", "gt", "gte")
        else condition.field == "phase"
        and condition.function in ("eq", "value_in")
        and not any(Phase(phase).is_finished for phase in condition.values if phase)
        for condition in conditions
    )


def check_sort_field(field: str) -> str:
    """A field that lists can be sorted by; Invalid with the closest ones for any other."""
    name = _own_name(field)
    if name not in SORT_FIELDS:
        raise Invalid(unknown_problem("sort_by.key", "sort key", field, SORT_FIELDS))
    return name


def check_groups(text: str) -> tuple[str, ...]:
    """What executions are counted by, of up to three words with commas between; Invalid for anything else."""
    groups = tuple(check_group(word.strip()) for word in text.split(","))
    if len(groups) > _MOST_GROUPS:
        raise invalid("by", f"names {len(groups)} groups: give at most {_MOST_GROUPS}.")
    if len(set(groups)) < len(groups):
        raise invalid("by", f"names '{shorten(max(groups, key=groups.count))}' twice: name each group once.")
    return groups


def check_group(word: str) -> str:
    """What executions can be counted by; Invalid with the closest words for any other."""
    if _is_label(word):
        return word
    group = word.replace("-", "_")
    if group not in GROUPS:
        known = [*GROUPS, f"{LABEL_PREFIX}KEY"]
        raise Invalid(unknown_problem("by", "group", word, known, most=len(known)))
    return group


def group_field(group: str) -> str:
    """The field that a group stands for."""
    return GROUPS.get(group, group)


def _own_name(field: str) -> str:
    """The name of a field that may be given by Flyte's name, or with hyphens."""
    plain = field.removeprefix("execution.")
    if plain.startswith(LABEL_PREFIX):
        return plain
    return ALIASES.get(plain, plain.replace("-", "_"))


def parse_filters(text: str, now: datetime) -> list[Condition]:
    """The conditions of a filter; Invalid naming the term that is wrong and what is allowed."""
    terms = list(_terms(text))
    if not terms:
        raise _invalid(text, "is empty")
    if len(terms) > MOST_TERMS:
        raise _invalid(text, f"has {len(terms)} terms; the most is {MOST_TERMS}")
    return [_condition(term, now) for term in terms]


def filter_parts(text: str) -> list[tuple[str, str, list[str]]]:
    """The function, the field and the values of each term of a filter, as they are written; Invalid for no filter."""
    parts = map(_parts, _terms(text))
    return [(function, field, _values_of(function, value)) for function, field, value in parts]


def quoted_value(text: str) -> str:
    """Any text as a value of a filter, in quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _terms(text: str) -> Iterator[str]:
    """The terms of a filter, each up to the bracket that closes it; brackets in a value are balanced or in quotes."""
    start = depth = 0
    for piece in _PIECE.finditer(text):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        if depth == 0 and piece[0] == ")":
            term = text[start : piece.end()]
            # A plus stands between two terms, or the blank that a plus in a URL is decoded to.
            if start and not re.match(r"\s*\+|\s", term):
                raise _invalid(term, _NO_TERM)
            yield re.sub(r"\A\s*\+", "", term).strip() if start else term.strip()
            start = piece.end()
    if text[start:].strip():
        raise _invalid(text[start:], _NO_TERM)


def _values(text: str) -> list[str]:
    """The values of a list, which semicolons stand between."""
    values: list[str] = []
    position = 0
    while match := _VALUE.match(text, position):
        values.append(_unquoted(match))
        if not match[3]:
            break
        position = match.end()
    return values


def _unquoted(match: re.Match[str]) -> str:
    return match[2].strip() if match[1] is None else re.sub(r"\\(.)", r"\1", match[1][1:-1], flags=re.DOTALL)


def _parts(term: str) -> tuple[str, str, str]:
    match = _TERM.fullmatch(term)
    if match is None:
        raise _invalid(term, _NO_TERM)
    return match.group(1), _own_name(match.group(2)), match.group(3)


def _values_of(function: str, text: str) -> list[str]:
    return _values(text) if function in ("value_in", "value_not_in") else [_value(text)]


def _condition(term: str, now: datetime) -> Condition:
    function, field, value = _parts(term)
    if function not in FUNCTIONS:
        raise Invalid(unknown_problem("filters", "filter function", function, FUNCTIONS))
    type_ = _field_type(field)
    if type_ is None:
        raise Invalid(unknown_problem("filters", "field", field, [*FIELDS, f"{LABEL_PREFIX}KEY"]))
    is_time = type_ in (FieldType.TIME, FieldType.TIME_AHEAD)
    if is_time and value[:1].isspace() and is_span(span := value.strip()):  # as a plus sign of a URL is read
        raise _invalid(term, f"has a blank before {span}: write %2B{span} in a URL for in {span}, or -{span} for ago")
    values = _values_of(function, value)
    if function == "contains" and type_ is not FieldType.TEXT:
        raise _invalid(term, f"searches for text, but {field} is a {type_.value}")
    # A part of a scope's name need not be the name of a scope.
    is_part = function not in ("eq", "ne", "value_in", "value_not_in") and field in SCOPE_FIELDS
    read = tuple(parse_value("name" if is_part else field, item, now) for item in values)
    return Condition(field=field, function=function, values=read, asked_at=now)


def _field_type(field: str) -> FieldType | None:
    """What a field holds; None where there is no such field."""
    return FieldType.TEXT if _is_label(field) else FIELDS.get(field)


def _is_label(field: str) -> bool:
    return field.startswith(LABEL_PREFIX) and names.matches(names.QUALIFIED_NAME, field.removeprefix(LABEL_PREFIX))


def parse_value(field: str, text: str, now: datetime | None = None) -> Any:
    """A value of a field from its text, which may be a span before or after `now`; Invalid for what it cannot be."""
    if field == "time_limit" and text == NO_LIMIT:
        return ""
    try:
        match FIELDS.get(field):
            case FieldType.TIME | FieldType.TIME_AHEAD:
                return parse_time(text) if now is None else _moment(field, text, now)
            case FieldType.NUMBER:
                return parse_span(text).total_seconds() if is_span(text) else _number(text)
            case FieldType.COUNT:
                return parse_count(text)
            case FieldType.AMOUNT:
                return parse_demand(field, text)
    except OverflowError:
        raise _invalid(text, "is longer than the calendar") from None
    except ValueError:
        other = f" or '{NO_LIMIT}'" if field == "time_limit" else ""
        other = " such as 500m or 4Gi" if FIELDS[field] is FieldType.AMOUNT else other
        type_ = FieldType.TIME if FIELDS[field] is FieldType.TIME_AHEAD else FIELDS[field]
        raise _invalid(text, f"is not a {type_.value}{other}, as {field} must be") from None
    if "\0" in text:
        raise _invalid(text, "contains a NUL character")
    if field in WORDS:
        return _word(field, text)
    return parse_scope_name(field, text) if field in SCOPE_FIELDS else text


def value_text(field: str, value: str | float | datetime) -> str:
    """A stored value of a field as the text that `parse_value` reads it from."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(format_amount(field, int(value)) if FIELDS.get(field) is FieldType.AMOUNT else value)


def _moment(field: str, text: str, now: datetime) -> datetime:
    """A time, or a span: of `+5m` the time in 5 minutes, of `-5m` or `5m` that of 5 minutes ago.

    A span without a sign is refused where the time lies ahead, for it could mean both.
    """
    span = text.removeprefix("+") if text.startswith("+") else text.removeprefix("-")
    if not is_span(span):
        return parse_time(text)
    if text == span and FIELDS[field] is FieldType.TIME_AHEAD:
        ahead = f"+{text} for in {text} (in a URL %2B{text})"
        raise _invalid(text, f"may be ahead or past: write {ahead}, or -{text} for {text} ago")
    return now + parse_span(span) if text.startswith("+") else now - parse_span(span)


def _value(text: str) -> str:
    """The value of a term that has one, without its quotes."""
    match = re.fullmatch(rf"\s*({_QUOTED})\s*()", text, re.DOTALL)
    return text.strip() if match is None else _unquoted(match)


def is_span(text: str) -> bool:
    """Whether a text is a length of time with its unit: 90s, 1h30m, 7d, 2w, 1y."""
    return text[:1].isdigit() and text[-1:] in ("y", "w", "d", "h", "m", "s")


def parse_span(text: str) -> timedelta:
    """A length of time; ValueError or OverflowError for anything else."""
    return timedelta(seconds=float(parse_age(text)))


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def parse_count(text: str) -> int:
    """A whole number that fits every database; ValueError for anything else."""
    if not is_whole_number(text) or len(text) > _MOST_DIGITS:
        raise ValueError
    return int(text)


def _word(field: str, text: str) -> str:
    """One of the field's fixed values; states may be given by Flyte's numbers, phases in small letters."""
    word = {"0": "ACTIVE", "1": "ARCHIVED"}.get(text, text) if field == "state" else text
    word = word.upper() if field == "phase" else word
    if word and word not in WORDS[field]:
        raise Invalid(unknown_problem(field, field, text, WORDS[field], most=len(WORDS[field])))
    return word


def parse_time(text: str) -> datetime:
    """A time in RFC 3339, or a date; ValueError for anything else."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _invalid(text: str, reason: str) -> Invalid:
    return invalid("filters", f"'{shorten(text)}' {reason}.")
