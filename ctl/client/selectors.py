"""
Field selectors: which executions, or which rows of a list, are meant by `--filter.fieldSelector` and `--selector`.

    phase=QUEUED,cluster in (a;b),created_at>24h,labels.team=ml

Terms are joined by commas, and all of them must hold. A backslash before `, ; = < > ( )` or a backslash makes it part
of a value. Nothing is ignored: a term without an operator and an unknown field are refused. `pools=` means rows with
nothing in the field, in lists but those of executions, where an empty value is refused.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ctl.client.errors import InvalidInput
from ctl.client.executions import parse_cause, parse_origin, parse_phase, parse_state
from ctl.client.facts import MOST_FILTER_LENGTH, MOST_TERMS, SELECTOR_ALIASES, SELECTOR_FIELDS
from ctl.client.times import SPANS, is_duration, parse_duration, parse_time
from ctl.client.words import did_you_mean, fold, listed

#: Reads the value of a field; the place is for errors.
Reader = Callable[[str, str, datetime], str]
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, short)
    for name, short in (("eq", "eq"), ("ne", "ne"), ("gt", "gt"), ("gte", "ge"), ("lt", "lt"), ("lte", "le"))
}
#: Before the key of a label of an execution, which is a field too.
_LABEL_PREFIX = "labels."
#: How conditions are written, and the names that the API has for them.
SIGNS = {"=": "eq", "==": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_LISTS = {"in": "value_in", "not in": "value_not_in"}
_TERM = re.compile(
    r"([A-Za-z_][\w./-]*)\s*(?:(==|!=|>=|<=|=|>|<)|(?<=\s)(not\s+in|in|contains)(?=[\s(]|$))\s*(.*)", re.DOTALL
)
_SPECIAL = frozenset("\\,;=<>()")
_BRACKETS = frozenset("()")
_EXAMPLE = "phase=QUEUED,cluster in (a;b)"


@dataclass(frozen=True, kw_only=True)
class Term:
    """One condition."""

    field: str
    function: str  #: of the API's filters: eq, value_in, …
    values: tuple[str, ...]

    @property
    def filter(self) -> str:
        """The condition as the API takes it: `eq(phase,QUEUED)`."""
        return f"{self.function}({self.field},{';'.join(map(_written, self.values))})"

    def matches(self, value: Any) -> bool:
        """
        Whether a value fulfils the condition: a number, a time or text, or None where there is none.

        Of a list one entry must, or of a condition that excludes something all of them.
        """
        if self.values == ("",):
            return (value in (None, "", [])) == (self.function == "eq")
        if isinstance(value, list):
            matches = [self.matches(entry) for entry in value or [None]]
            return all(matches) if self.function in ("ne", "value_not_in") else any(matches)
        if self.function == "contains":
            return self.values[0] in str(value or "")
        if self.function in _LISTS.values():
            is_member = any(value == self._like(value, text) for text in self.values)
            return is_member == (self.function == "value_in")
        if value is None:
            return self.function == "ne"
        return _COMPARISONS[self.function](value, self._like(value, self.values[0]))

    def _like(self, value: Any, text: str) -> Any:
        """A value of the condition as something to compare another value with."""
        if isinstance(value, datetime):
            return datetime.fromisoformat(text)
        if not isinstance(value, int | float):
            return text
        try:
            return float(text)
        except ValueError:
            raise InvalidInput(f"{self.field} is a number, {text!r} is none.") from None


def _written(value: str) -> str:
    """A value within a filter of the API: in quotes where its brackets do not match."""
    depth = 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    if not depth and not value.startswith('"'):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_selector(
    text: str,
    flag: str,
    *,
    now: datetime,
    types: Mapping[str, str] = SELECTOR_FIELDS,
    aliases: Mapping[str, str] = SELECTOR_ALIASES,
    readers: Mapping[str, Reader] | None = None,
) -> list[Term]:
    """
    Every term of a selector; the first that cannot be understood is refused by name.

    `types` are the fields, those of executions by default: text, time, time ahead or number; `readers` read the values
    of some.
    """
    readers = _READERS if readers is None else {**_time_readers(types), **readers}
    terms = [_term(part, flag, now, types, aliases, readers) for part in _split(text, ",", flag)]
    if not terms:
        raise InvalidInput(f"{flag} is empty: write terms such as {_EXAMPLE}.")
    if len(terms) > MOST_TERMS:
        raise InvalidInput(
            f"{flag} has {len(terms)} terms; the most is {MOST_TERMS}. Join values of a field: in (A;B)."
        )
    return terms


def filters(terms: list[Term], flag: str = "The selector") -> str:
    """Terms as the API takes them."""
    text = "+".join(term.filter for term in terms)
    if len(text) > MOST_FILTER_LENGTH:
        raise InvalidInput(
            f"{flag} is {len(text)} characters long; the most is {MOST_FILTER_LENGTH}. Ask for it in parts."
        )
    return text


def find_field(word: str, fields: tuple[str, ...], place: str, aliases: Mapping[str, str] = SELECTOR_ALIASES) -> str:
    """The field meant by a word in any spelling, with or without Flyte's `execution.` before it."""
    plain = re.sub(r"^executions?\.", "", word)
    by_fold = {fold(alias): name for alias, name in aliases.items() if name in fields}
    by_fold |= {fold(name): name for name in fields}
    if fold(plain) in by_fold:
        return by_fold[fold(plain)]
    hint = did_you_mean(plain, fields)
    raise InvalidInput(f"{place}: there is no field {word!r}: choose {listed(fields, 'or')}.{hint}")


def _term(
    text: str,
    flag: str,
    now: datetime,
    types: Mapping[str, str],
    aliases: Mapping[str, str],
    readers: Mapping[str, Reader],
) -> Term:
    match = _TERM.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            f"{flag}: {text.strip()!r} has no operator: write FIELD=VALUE, or !=, >, >=, <, <=, contains, in (A;B), "
            "not in (A;B)."
        )
    place = f"{flag}: {text.strip()}"
    is_label = types is SELECTOR_FIELDS and match[1].startswith(_LABEL_PREFIX)
    field = match[1] if is_label else find_field(match[1], tuple(types), flag, aliases)
    word = re.sub(r"\s+", " ", match[3] or "")
    if word in _LISTS:
        values, function = _members(match[4], place), _LISTS[word]
    elif not match[4].strip() and types is not SELECTOR_FIELDS and match[2] in ("=", "==", "!="):
        return Term(field=field, function=SIGNS[match[2]], values=("",))
    else:
        values, function = [_unescape(match[4], place)], SIGNS.get(match[2], "contains")
    read = readers.get(field) if function != "contains" else None
    return Term(
        field=field, function=function, values=tuple(read(value, place, now) if read else value for value in values)
    )


def _members(text: str, place: str) -> list[str]:
    if not (text.startswith("(") and text.endswith(")")):
        raise InvalidInput(f"{place}: write the values in brackets, in (A;B).")
    inner = text[1:-1]
    parts = [part for by_comma in _split(inner, ",", place) for part in _split(by_comma, ";", place)]
    if not parts:
        raise InvalidInput(f"{place}: there is no value in the brackets.")
    members = [_unescape(part, place) for part in parts]
    if any(";" in member for member in members):
        raise InvalidInput(f"{place}: a value in a list cannot hold a semicolon; write a term of its own for it.")
    return members


def _split(text: str, separator: str, place: str) -> list[str]:
    """The parts between separators that stand neither in brackets nor behind a backslash."""
    parts, current, depth = [], "", 0
    for piece in re.findall(r"\\.|.|\\$", text, re.DOTALL):
        depth += (piece == "(") - (piece == ")")
        if depth < 0:
            raise InvalidInput(f"{place}: a bracket is closed that was never opened.")
        if piece == separator and not depth:
            parts.append(current)
            current = ""
        else:
            current += piece
    if depth:
        raise InvalidInput(f"{place}: a bracket is opened and never closed.")
    parts.append(current)
    if any(not part.strip() for part in parts) and (len(parts) > 1 or separator == ";"):
        raise InvalidInput(f"{place}: there is nothing between two separators, or at the end.")
    return [part for part in parts if part.strip()]


def _unescape(text: str, place: str) -> str:
    value = "".join(_characters(text.strip(), place))
    if not value:
        raise InvalidInput(f"{place}: there is no value.")
    return value


def _characters(text: str, place: str) -> Iterator[str]:
    for piece in re.findall(r"\\.|.|\\$", text, re.DOTALL):
        if len(piece) == 2:
            if piece[1] not in _SPECIAL:
                raise InvalidInput(f"{place}: there is no escape {piece}; a backslash itself is written twice.")
            yield piece[1]
        elif piece in _SPECIAL - _BRACKETS:  # brackets match, or the selector was refused
            raise InvalidInput(
                f"{place}: {piece} in a value is written \\{piece}; between two terms stands a comma, as in {_EXAMPLE}."
            )
        else:
            yield piece


def _read_time(value: str, place: str, now: datetime, spans: str = SPANS) -> str:
    """A time, or a span: of `+5m` the time in 5 minutes, of `-5m` or `5m` that of 5 minutes ago."""
    text = value[1:] if value.startswith("-") and is_duration(value[1:]) else value
    return parse_time(text, place, now=now, is_ahead=value.startswith("+"), spans=spans)


def _read_time_ahead(value: str, place: str, now: datetime) -> str:
    """The same of what lies ahead, where a span without a sign could mean both."""
    if is_duration(value):
        raise InvalidInput(
            f"{place}: {value} may be ahead or past: write +{value} for in {value}, or -{value} for {value} ago."
        )
    return _read_time(value, place, now, spans="+30m or -7d")


def _time_readers(types: Mapping[str, str]) -> dict[str, Reader]:
    """How the values of times are read, by the fields that have them."""
    by_type = {"time": _read_time, "time ahead": _read_time_ahead}
    return {name: by_type[type] for name, type in types.items() if type in by_type}


def _read_whole_number(value: str, place: str, now: datetime) -> str:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise InvalidInput(f"{place}: {value!r} is no whole number.")
    return value


#: How the values of a field of executions are read.
_READERS: Mapping[str, Reader] = {
    "phase": lambda value, place, now: parse_phase(value, place),
    "cause": lambda value, place, now: parse_cause(value, place),
    "origin": lambda value, place, now: parse_origin(value, place),
    "state": lambda value, place, now: parse_state(value, place),
    **dict.fromkeys(("reason", "mode"), lambda value, place, now: value.upper().replace("-", "_")),
    **_time_readers(SELECTOR_FIELDS),
    **dict.fromkeys(
        (name for name, type in SELECTOR_FIELDS.items() if type == "number"),
        lambda value, place, now: f"{parse_duration(value, place):g}",
    ),
    "time_limit": lambda value, place, now: value if value == "none" else f"{parse_duration(value, place):g}",
    "on_lost": lambda value, place, now: value.lower(),
    **dict.fromkeys((name for name, type in SELECTOR_FIELDS.items() if type == "whole number"), _read_whole_number),
}
