"""Counts: how many of something a jobspec asks for, as a number or as a range, of which the least is taken.

A range is a mapping (`{min: 2, max: 8, operator: "*", operand: 2}`), its short form (`2-8:2:*`, `4+`), or a list of
numbers and spans (`4,9,16`), as Flux has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from admin.core.fields.leaves import Integer, known_keys
from admin.core.problems import Path, Problem, add_problem, closest, quoted, shorten

_COUNT = Integer(minimum=1, maximum=10**9)
_FIELDS = ("min", "max", "operator", "operand")
_OPERATORS = ("+", "*", "^")
_SHORT_FORM = re.compile(
    r"(?P<min>[0-9]{1,18})(?:-(?P<max>[0-9]{1,18})|\+)(?::(?P<operand>[0-9]{1,18})(?::(?P<operator>.))?)?"
)
_LIST = re.compile(r"[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*")
#: The fields of the resources of a jobspec that are counts.
_COUNTS = ("count", "replicas")


class CountRange(NamedTuple):
    """Numbers of which any will do."""

    least: int
    most: int | None  #: None without a bound
    text: str  #: as people read it

    @property
    def is_one(self) -> bool:
        """Whether there is only one such number."""
        return self.least == self.most


def read_count(value: Any, path: Path, problems: list[Problem]) -> int:
    """A whole number from 1, the least of a range; 1 where the value is none."""
    if isinstance(value, Mapping | str):
        counts = read_range(value, path, problems)
        return 1 if counts is None else counts.least
    return read_number(value, path, problems)


def read_number(value: Any, path: Path, problems: list[Problem]) -> int:
    """A whole number from 1; 1 where the value is none."""
    return _COUNT.read(value, path, problems) or 1


def read_range(value: Mapping[Any, Any] | str, path: Path, problems: list[Problem]) -> CountRange | None:
    """A range of counts; None where something is wrong with it."""
    if isinstance(value, str):
        return _read_text(value, path, problems)
    return _read_mapping({str(key): item for key, item in value.items()}, path, problems)


def _read_text(text: str, path: Path, problems: list[Problem]) -> CountRange | None:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _LIST.fullmatch(inner):
        before = len(problems)
        spans = [[_COUNT.read(int(number), path, problems) for number in span.split("-")] for span in inner.split(",")]
        if len(problems) > before:
            return None
        if any(span != sorted(span) for span in spans):
            add_problem(problems, path, f"{quoted(text)} has a span that ends before it begins.")
            return None
        least, most = min(span[0] for span in spans), max(span[-1] for span in spans)
        if len(spans) > 1:
            return CountRange(least, most, f"one of {shorten(inner)}")
        return CountRange(least, most, f"{least} to {most}")
    short_form = _SHORT_FORM.fullmatch(inner)
    if short_form is None:
        reason = f"{quoted(text)} is neither a whole number nor a range: give one, such as 4 or {{min: 2, max: 8}}."
        add_problem(problems, path, reason)
        return None
    fields: dict[str, Any] = {name: int(short_form[name]) for name in ("min", "max", "operand") if short_form[name]}
    if "operand" in fields:
        fields["operator"] = short_form["operator"] or "+"
    return _read_mapping(fields, path, problems)


def _read_mapping(value: Mapping[str, Any], path: Path, problems: list[Problem]) -> CountRange | None:
    before = len(problems)
    fields = known_keys(dict(value), dict.fromkeys(_FIELDS), path, problems)
    numbers = {
        name: _COUNT.read(fields[name], (*path, name), problems)
        for name in ("min", "max", "operand")
        if fields.get(name) is not None
    }
    if "min" not in numbers:
        add_problem(problems, (*path, "min"), "is missing: give the least number that will do.")
    operator, operand = fields.get("operator"), numbers.get("operand")
    if (operator is None) != ("operand" not in numbers):
        missing, given = ("operator", "operand") if operator is None else ("operand", "operator")
        add_problem(problems, (*path, missing), f"is missing: it belongs to the {given}.")
    elif operator is not None and operator not in _OPERATORS:
        reason = f"{quoted(operator)} is no operator: give one of {', '.join(_OPERATORS)}."
        add_problem(problems, (*path, "operator"), reason, closest(str(operator), _OPERATORS))
    if len(problems) > before:
        return None
    least, most = numbers["min"], numbers.get("max")
    if most is not None and most < least:
        add_problem(problems, (*path, "max"), f"{most} is below min, {least}: no number is both.")
    if operator in ("*", "^") and operand is not None and operand < 2:
        add_problem(
            problems, (*path, "operand"), f"{operand} leads to no other number by '{operator}': give 2 or more."
        )
    if operator == "^" and least < 2:
        add_problem(problems, (*path, "min"), "1 leads to no other number by '^': give 2 or more.")
    if len(problems) > before:
        return None
    steps = "" if operator is None or (operator, operand) == ("+", 1) else f" in steps of {operator}{operand}"
    return CountRange(least, most, f"{least} to {most}{steps}" if most is not None else f"at least {least}{steps}")


def ranges_in(jobspec: Mapping[str, Any]) -> Iterator[tuple[Path, CountRange]]:
    """The ranges of which a jobspec that was read leaves a choice, each with its field."""
    for name in ("nodes", "tasks"):
        yield from _range_at(jobspec.get(name), (name,))
    yield from _ranges_of_all(jobspec.get("resources"), ("resources",))


def _ranges_of_all(resources: Any, path: Path) -> Iterator[tuple[Path, CountRange]]:
    """The ranges of a list of resources, or of named groups."""
    named = resources if isinstance(resources, Mapping) else {}
    entries = enumerate(resources) if isinstance(resources, list) else named.items()
    for key, resource in entries:
        if isinstance(resource, Mapping):
            where = (*path, shorten(key))
            for name in _COUNTS:
                yield from _range_at(resource.get(name), (*where, name))
            yield from _ranges_of_all(resource.get("with"), (*where, "with"))


def _range_at(value: Any, path: Path) -> Iterator[tuple[Path, CountRange]]:
    counts = read_range(value, path, []) if isinstance(value, Mapping | str) else None
    if counts is not None and not counts.is_one:
        yield path, counts
