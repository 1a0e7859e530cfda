"""Leaves: the smallest values that are set, unset or inherited as one; `compounds` has lists, mappings and records."""

from __future__ import annotations

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from admin.core import names, quantities
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, unknown_fields, unknown_word

Leaves = dict[Path, Any]
Schema = dict[str, Any]

#: Printable text: no control characters, which no setting needs and terminals and templates stumble over.
PRINTABLE = r"[^\x00-\x1f\x7f]*"

_LONGEST_TEXT = 4096

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATETIME = rf"({_DATE})[Tt ]([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(\.[0-9]{{1,9}})?([Zz]|[+-][0-9]{{2}}:[0-9]{{2}})"


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One named value of a payload or of the configuration."""

    description: str = ""

    @abstractmethod
    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its normal form; whatever is wrong with it is added to the problems."""

    @abstractmethod
    def shape(self) -> Schema:
        """JSON Schema of the value, without its description."""

    def schema(self) -> Schema:
        """JSON Schema of the value."""
        return {**self.shape(), "description": self.description} if self.description else self.shape()

    def outline(self, value: Any) -> Hashable:
        """A key that two values share exactly when they set the same leaves and unset the same leaves."""
        return value is None

    def worth(self, value: Any, path: Path = ()) -> Any:
        """What the leaf at a path is worth that has a value: the same of two that are only written otherwise."""
        return value


def known_keys(
    document: Mapping[str, Any],
    fields: Mapping[str, Any],
    path: Path,
    problems: list[Problem],
    also: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The entries of a document under their canonical names; unknown and repeated names become problems.

    `refused` has the reason of each unknown name for which there is one.
    """
    entries: dict[str, Any] = {}
    unknown: list[str] = []
    canonical: dict[str, str] | None = None
    for key, value in document.items():
        name = key if key in fields else None
        if name is None:
            if canonical is None:
                canonical = {names.camel(name): name for name in fields} | dict(also or {})
            name = canonical.get(key)
        if name is None:
            reason = _reason(key, refused or {})
            if reason is None:
                unknown.append(key)
            else:
                add_problem(problems, (*path, key), reason)
        elif name in entries:
            add_problem(problems, (*path, name), "is given twice, in two spellings.")
        else:
            entries[name] = value
    problems.extend(unknown_fields(unknown, fields, dotted(path)))
    return entries


def _reason(key: str, refused: Mapping[str, str]) -> str | None:
    """Why a name in either spelling is refused; None where nothing is known of it."""
    return next((f"{reason}." for name, reason in refused.items() if key in (name, names.camel(name))), None)


@dataclass(frozen=True, kw_only=True)
class Leaf(Field):
    """A value that is set, unset (null) or inherited as a whole."""

    default: Any = None  #: the platform's own value, None for none
    nullable: bool = True  #: whether null may be given, which unsets it

    json_type: ClassVar[str] = "string"
    remedy: ClassVar[str] = ""  #: how to write such a value

    @property
    @abstractmethod
    def phrase(self) -> str:
        """The type in a sentence: "a whole number"."""

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if value is None:
            if not self.nullable:
                add_problem(problems, path, "is null, which says nothing here: leave it out.")
            return None
        try:
            return self.parse(value, path, problems)
        except ValueError as error:
            add_problem(problems, path, f"{quoted(value)} {error}.")
            return None

    @abstractmethod
    def parse(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The normal form of a value that is not null; ValueError continues the sentence "'x' …"."""

    def details(self) -> Schema:
        """What the JSON Schema says beyond type, default and description."""
        return {}

    def wrong_type(self) -> ValueError:
        """The refusal of a value of another type, to be raised by `parse`."""
        return ValueError(f"is not {self.phrase}" + (f": {self.remedy}" if self.remedy else ""))

    def shape(self) -> Schema:
        schema: Schema = {"type": [self.json_type, "null"], **self.details()}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        if self.default is not None:
            schema["default"] = self.default
        return schema if self.nullable else without_null(schema)


def not_null(field: Field) -> Field:
    """A field without the null by which leaves are unset."""
    return replace(field, nullable=False) if isinstance(field, Leaf) else field


def nullable(field: Field) -> Field:
    """A field that may be null, as every value of the configuration, which is the same as leaving it out."""
    return replace(field, nullable=True) if isinstance(field, Leaf) else field


def without_null(schema: Schema) -> Schema:
    """The schema of a value that may not be null."""
    types = [name for name in schema["type"] if name != "null"]
    plain = schema | {"type": types[0] if len(types) == 1 else types}
    if "enum" in plain:
        plain["enum"] = [word for word in plain["enum"] if word is not None]
    return plain


@dataclass(frozen=True, kw_only=True)
class Text(Leaf):
    """A text; by default printable and not empty."""

    pattern: str = PRINTABLE
    rule: str = "text without control characters"  #: the pattern in words
    min_length: int = 1
    max_length: int = _LONGEST_TEXT

    phrase = "text"
    remedy = "put it in quotes"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        if len(value) < self.min_length:
            raise ValueError("is empty: give a value" + (", or null to unset it" if self.nullable else ""))
        if len(value) > self.max_length:
            raise ValueError(f"has {len(value)} characters; the most is {self.max_length}")
        if not names.matches(self.pattern, value):
            raise ValueError(f"is not allowed: use {self.rule}")
        return value

    def details(self) -> Schema:
        details: Schema = {"minLength": self.min_length, "maxLength": self.max_length}
        return details | {"pattern": f"^{self.pattern}$"}


#: The name of a workflow, launch plan, cluster, pool or label.
ENTITY_NAME = Text(pattern=names.ENTITY_NAME, rule=names.ENTITY_NAME_RULE, max_length=255)
#: The id of a project or domain.
DNS_LABEL = Text(pattern=names.DNS_LABEL, rule=names.DNS_LABEL_RULE)


@dataclass(frozen=True, kw_only=True)
class Integer(Leaf):
    """A whole number within bounds."""

    minimum: int = -(2**53)
    maximum: int = 2**53

    json_type = "integer"
    phrase = "a whole number"
    remedy = "give one without quotes, such as 5"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON makes no difference between 5 and 5.0
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong_type()
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"is out of range: give a whole number from {self.minimum} to {self.maximum}")
        return value

    def details(self) -> Schema:
        return {"minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, kw_only=True)
class Number(Leaf):
    """A finite number within bounds."""

    minimum: float = -1e308
    maximum: float = 1e308

    json_type = "number"
    phrase = "a number"
    remedy = "give one without quotes, such as 0.5"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong_type()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("is not a finite number")
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"is out of range: give a number from {self.minimum:g} to {self.maximum:g}")
        return value

    def details(self) -> Schema:
        return {"minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, kw_only=True)
class Boolean(Leaf):
    """True or false; `wrapped` ones may also come as Flyte's files have them, `{value: true}`."""

    wrapped: bool = False

    json_type = "boolean"
    phrase = "a boolean"
    remedy = "give true or false, without quotes"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> bool:
        if self.wrapped and isinstance(value, dict) and set(value) == {"value"}:
            value = value["value"]
        if not isinstance(value, bool):
            raise self.wrong_type()
        return value

    def details(self) -> Schema:
        return {"x-rainbow-wrapped": True} if self.wrapped else {}


@dataclass(frozen=True, kw_only=True)
class Choice(Leaf):
    """One of a few words; where Flyte numbers them, the number will do."""

    words: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)

    @property
    def phrase(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if isinstance(value, str) and value not in self.words:
            problems.append(unknown_word(dotted(path), f"{quoted(value)} {self.wrong_type()}.", value, self.words))
            return None
        return super().read(value, path, problems)

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        by_number = {number: word for word, number in self.numbers.items()}
        if isinstance(value, int) and not isinstance(value, bool) and value in by_number:
            return by_number[value]
        if not isinstance(value, str) or value not in self.words:
            raise self.wrong_type()
        return value

    def details(self) -> Schema:
        details: Schema = {"enum": list(self.words)}
        return details | {"x-rainbow-enum-numbers": dict(self.numbers)} if self.numbers else details


def numbered_choice(*words: str, description: str = "") -> Choice:
    """One of the words that Flyte numbers from 0."""
    return Choice(words=words, numbers={word: number for number, word in enumerate(words)}, description=description)


def _worth(value: Any, parse: Callable[[str], Fraction]) -> Any:
    """The number of a text that has one."""
    try:
        return parse(value) if isinstance(value, str) else value
    except ValueError:
        return value


@dataclass(frozen=True, kw_only=True)
class Quantity(Leaf):
    """A Kubernetes quantity, kept as it was written; a bare number will do."""

    whole: bool = False

    phrase = quantities.QUANTITY_RULE

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value) if abs(value) < 1e20 else ""
        if not isinstance(value, str):
            raise self.wrong_type()
        number = quantities.parse_quantity(value)
        if self.whole and number.denominator != 1:
            raise ValueError("is not a whole number")
        return value

    def worth(self, value: Any, path: Path = ()) -> Any:
        return _worth(value, quantities.parse_quantity)

    def details(self) -> Schema:
        return {
            "type": ["string", "number", "null"],
            "pattern": f"^{quantities.QUANTITY}$",
            "minimum": 0,
            "maximum": quantities.LARGEST,
            **({"multipleOf": 1} if self.whole else {}),
            "x-rainbow-type": "quantity",
        }


@dataclass(frozen=True, kw_only=True)
class Duration(Leaf):
    """A length of time, kept as it was written."""

    zero: bool = False  #: whether zero is allowed

    phrase = quantities.DURATION_RULE

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        quantities.parse_duration(value, zero=self.zero)
        return value

    def worth(self, value: Any, path: Path = ()) -> Any:
        return _worth(value, partial(quantities.parse_duration, zero=True))

    def details(self) -> Schema:
        return {"pattern": f"^{quantities.DURATION}$", "maxLength": 64, "x-rainbow-type": "duration"}


@dataclass(frozen=True, kw_only=True)
class Age(Leaf):
    """How long ago something was, kept as it was written; a length of time that may be in days."""

    phrase = quantities.AGE_RULE

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong_type()
        quantities.parse_age(value)
        return value


@dataclass(frozen=True, kw_only=True)
class Datetime(Leaf):
    """A point in time, kept as RFC 3339 text in UTC; a date alone is its midnight in UTC."""

    phrase = "a datetime"
    remedy = "give a time with its zone, such as 2026-01-02T03:04:05Z, or a date"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(value, dt.date):  # as YAML reads them; a datetime is a date too
            value = value.isoformat()
        if not isinstance(value, str):
            raise self.wrong_type()
        if names.matches(_DATE, value):
            value += "T00:00:00Z"
        match = re.fullmatch(_DATETIME, value)
        if match is None:
            raise self.wrong_type()
        day, time, fraction, zone = match.groups()
        try:
            moment = dt.datetime.fromisoformat(f"{day}T{time}{zone.upper()}").astimezone(dt.UTC)
        except (ValueError, OverflowError):
            raise ValueError("is not in the calendar: correct the date, the time or the zone") from None
        return f"{moment.replace(tzinfo=None).isoformat()}{(fraction or '').rstrip('0').rstrip('.')}Z"
