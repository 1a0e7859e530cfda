"""Requirements: what a vertex must have, by itself or by the subsystem vertices linked to it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from admin.core.fields.leaves import known_keys
from admin.core.graph.versions import is_within, parse_version
from admin.core.problems import Path, Problem, add_problem, quoted, shorten

Value = str | int | float | bool

#: The main graph among the subsystems: a requirement on it asks the vertex itself.
CONTAINMENT = "containment"
#: Names of the main graph in requirements; Rainbow's first scheduler called it cluster.
MAIN_NAMES = (CONTAINMENT, "cluster")

#: Fields of a vertex of the main graph that only tell it from others: equal parts of a graph are matched as one.
IDENTITY = frozenset(("unit", "id", "uniq_id", "name", "basename", "rank", "exclusive", "paths", "status", "ephemeral"))
#: The architecture of a node, and the names that kernels have for what images and Kubernetes call by others.
_ARCHITECTURE, _ARCHITECTURES = "arch", {"amd64": "x86_64", "arm64": "aarch64"}
#: How the names of fields begin that are properties of nodes.
_PROPERTY = "properties."
_FIELDS = ("name", "field", "match", "min", "max")
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_LONGEST = 1024


@dataclass(frozen=True, eq=False)
class Feature:
    """What one subsystem vertex says of the vertices that it is linked to; equal ones are one object."""

    subsystem: str
    fields: Mapping[str, Value]


class Requirement(NamedTuple):
    """A condition on a field of one subsystem; all that it says must hold for one vertex of that subsystem."""

    subsystem: str
    field: str
    match: Value | None = None
    lowest: Value | None = None
    highest: Value | None = None

    def __eq__(self, other: object) -> bool:
        # To Python True is 1, and to requirements it is not.
        if not isinstance(other, Requirement) or isinstance(self.match, bool) != isinstance(other.match, bool):
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def holds(self, features: Iterable[Feature]) -> bool:
        """Whether one of the features meets it."""
        return any(self.is_met_by(feature) for feature in features)

    def is_met_by(self, feature: Feature) -> bool:
        """Whether a feature is of its subsystem and meets every condition."""
        value = feature.fields.get(self.field) if feature.subsystem == self.subsystem else None
        if value is None:
            return False
        if self.match is not None and not self._matches(value, self.match):
            return False
        return (self.lowest is None and self.highest is None) or _is_between(value, self.lowest, self.highest)

    def _matches(self, value: Value, wanted: Value) -> bool:
        if self.field == _ARCHITECTURE and self.subsystem == CONTAINMENT:
            value, wanted = _ARCHITECTURES.get(str(value), value), _ARCHITECTURES.get(str(wanted), wanted)
        if value == "" and wanted is True and self.subsystem == CONTAINMENT and self.field.startswith(_PROPERTY):
            return True  # a property without a value, as Flux's scheduler and labels of Kubernetes have it
        return _is_equal(value, wanted)

    def __str__(self) -> str:
        conditions = [] if self.match is None else [f"= {show_value(self.match)}"]
        if self.lowest is not None and self.highest is not None:
            conditions.append(f"from {shorten(self.lowest)} to {shorten(self.highest)}")
        elif self.lowest is not None:
            conditions.append(f"at least {shorten(self.lowest)}")
        elif self.highest is not None:
            conditions.append(f"at most {shorten(self.highest)}")
        return f"{self.subsystem} {self.field} {' and '.join(conditions)}"


def show_value(value: Value) -> str:
    """A value as descriptions and jobs have it."""
    return ("true" if value else "false") if isinstance(value, bool) else shorten(value)


def read_requirements(entries: Any, path: Path, problems: list[Problem]) -> tuple[Requirement, ...]:
    """The requirements of a resource, each once; whatever is wrong with them is added to the problems."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        add_problem(problems, path, f"{quoted(entries)} is not a list of requirements.")
        return ()
    read = (read_requirement(entry, (*path, str(index)), problems) for index, entry in enumerate(entries))
    return tuple(dict.fromkeys(requirement for requirement in read if requirement is not None))


def read_requirement(entry: Any, path: Path, problems: list[Problem]) -> Requirement | None:
    """One requirement; None where something is wrong with it."""
    before = len(problems)
    if not isinstance(entry, Mapping):
        add_problem(problems, path, f"{quoted(entry)} is not a mapping.")
        return None
    fields = known_keys({str(key): value for key, value in entry.items()}, dict.fromkeys(_FIELDS), path, problems)
    for name in ("name", "field"):
        value = fields.get(name)
        if name not in fields:
            add_problem(problems, (*path, name), "is missing: a requirement has a name and a field.")
        elif not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
            add_problem(problems, (*path, name), f"{quoted(value)} is not a name: give a text.")
        elif name == "field" and value in IDENTITY and fields.get("name") in MAIN_NAMES:
            reason = f"'{value}' only tells a vertex from others: require another field, such as properties.zone."
            add_problem(problems, (*path, name), reason)
    conditions = [name for name in ("match", "min", "max") if name in fields]
    if not conditions:
        add_problem(problems, path, "asks for nothing: give match, or min and max.")
    for name in conditions:
        _check_condition(name, fields[name], (*path, name), problems)
    if len(problems) == before:
        lowest, highest = fields.get("min"), fields.get("max")
        if lowest is not None and highest is not None and not _is_between(lowest, None, highest):
            reason = f"{quoted(lowest)} is above max, {quoted(highest)}: no value can be both."
            add_problem(problems, (*path, "min"), reason)
    if len(problems) > before:
        return None
    subsystem = CONTAINMENT if fields["name"] in MAIN_NAMES else fields["name"]
    return Requirement(subsystem, fields["field"], fields.get("match"), fields.get("min"), fields.get("max"))


def _check_condition(name: str, value: Any, path: Path, problems: list[Problem]) -> None:
    is_boolean = isinstance(value, bool)
    if not isinstance(value, str | int | float) or (is_boolean and name != "match"):
        add_problem(problems, path, f"{quoted(value)} is neither text nor a number.")
    elif isinstance(value, float) and not math.isfinite(value):
        add_problem(problems, path, f"{quoted(value)} is not a finite number.")
    elif isinstance(value, str) and len(value) > _LONGEST:
        add_problem(problems, path, f"is longer than {_LONGEST} characters.")
    elif name != "match" and _number(value) is None and parse_version(str(value)) is None:
        reason = f"{quoted(value)} is neither a version nor a number: give one, such as 0.5.2 or 1024."
        add_problem(problems, path, reason)


def _is_equal(value: Value, wanted: Value) -> bool:
    """Whether a value is the wanted one; where only one of them is text, the text may spell the number."""
    if isinstance(value, str) and isinstance(wanted, str):
        return value == wanted
    if isinstance(value, bool) or isinstance(wanted, bool):
        return str(value).lower() == str(wanted).lower()
    number = _number(value)
    return number is not None and number == _number(wanted)


def _is_between(value: Value, lowest: Value | None, highest: Value | None) -> bool:
    """Whether a value lies between bounds: a number among numbers, a text, or a number among versions, as a version."""
    if isinstance(value, bool):
        return False
    if not isinstance(value, str):
        number, low, high = _number(value), _bound(lowest), _bound(highest)
        if number is None:
            return False
        if low is not False and high is not False:
            return (low is None or low <= number) and (high is None or number <= high)
    version = parse_version(str(value))
    low_version, high_version = (None if bound is None else parse_version(str(bound)) for bound in (lowest, highest))
    if version is None or (low_version is None) != (lowest is None) or (high_version is None) != (highest is None):
        return False
    return is_within(version, low_version, high_version)


def _bound(bound: Value | None) -> Fraction | bool | None:
    """A bound as a number; None without a bound, False where it is none."""
    if bound is None:
        return None
    number = _number(bound)
    return False if number is None else number


@lru_cache(maxsize=4096, typed=True)
def _number(value: Value) -> Fraction | None:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, str):
        return Fraction(value) if _NUMBER.fullmatch(value) else None
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))
