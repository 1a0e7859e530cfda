"""Leaves: the smallest values that are set, unset or inherited as one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from admin.core import names, quantities
from admin.core.fields.base import PRINTABLE, Field, Path, Schema, fault, known_keys, quoted
from admin.core.problems import Problem

_LONGEST_TEXT = 4096


@dataclass(frozen=True, kw_only=True)
class Leaf(Field):
    """A value that is set, unset (null) or inherited as a whole."""

    default: Any = None  #: the platform's own value, None for none

    json_type: ClassVar[str] = "string"

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if value is None:
            return None
        try:
            return self.parse(value, path, problems)
        except ValueError as error:
            fault(problems, path, f"{quoted(value)} {error}.")
            return None

    @abstractmethod
    def parse(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The normal form of a value that is not null; ValueError continues the sentence "'x' …"."""

    @abstractmethod
    def details(self) -> Schema:
        """What the JSON Schema says beyond type, default and description."""

    def schema(self) -> Schema:
        schema: Schema = {"type": [self.json_type, "null"], **self.details()}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        if self.default is not None:
            schema["default"] = self.default
        if self.description:
            schema["description"] = self.description
        return schema


@dataclass(frozen=True, kw_only=True)
class Text(Leaf):
    """A text; by default printable and not empty."""

    pattern: str = PRINTABLE
    rule: str = "text without control characters"  #: the pattern in words
    min_length: int = 1
    max_length: int = _LONGEST_TEXT

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise ValueError("is not text: put it in quotes")
        if len(value) < self.min_length:
            raise ValueError("is empty: give a value, or null to unset it")
        if len(value) > self.max_length:
            raise ValueError(f"has {len(value)} characters; the most is {self.max_length}")
        if not names.matches(self.pattern, value):
            raise ValueError(f"is not allowed: use {self.rule}")
        return value

    def details(self) -> Schema:
        details: Schema = {"minLength": self.min_length, "maxLength": self.max_length}
        return details | {"pattern": f"^{self.pattern}$"}


@dataclass(frozen=True, kw_only=True)
class Integer(Leaf):
    """A whole number within bounds."""

    minimum: int = -(2**53)
    maximum: int = 2**53

    json_type: ClassVar[str] = "integer"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON makes no difference between 5 and 5.0
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("is not a whole number")
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

    json_type: ClassVar[str] = "number"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("is not a number")
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

    json_type: ClassVar[str] = "boolean"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> bool:
        if self.wrapped and isinstance(value, dict) and set(value) == {"value"}:
            value = value["value"]
        if not isinstance(value, bool):
            raise ValueError("is neither true nor false")
        return value

    def details(self) -> Schema:
        return {"x-rainbow-wrapped": True} if self.wrapped else {}


@dataclass(frozen=True, kw_only=True)
class Choice(Leaf):
    """One of a few words; where Flyte numbers them, the number will do."""

    words: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        by_number = {number: word for word, number in self.numbers.items()}
        if isinstance(value, int) and not isinstance(value, bool) and value in by_number:
            return by_number[value]
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"is not one of {', '.join(self.words)}")
        return value

    def details(self) -> Schema:
        details: Schema = {"enum": list(self.words)}
        return details | {"x-rainbow-enum-numbers": dict(self.numbers)} if self.numbers else details


@dataclass(frozen=True, kw_only=True)
class Quantity(Leaf):
    """A Kubernetes quantity, kept as it was written; a bare number will do."""

    whole: bool = False

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value) if abs(value) < 1e20 else ""
        if not isinstance(value, str):
            raise ValueError(f"is not {quantities.QUANTITY_RULE}")
        number = quantities.parse_quantity(value)
        if self.whole and number.denominator != 1:
            raise ValueError("is not a whole number")
        return value

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

    zero: bool = False  #: whether no time at all is one

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise ValueError(f"is not {quantities.DURATION_RULE}")
        quantities.parse_duration(value, zero=self.zero)
        return value

    def details(self) -> Schema:
        return {"pattern": f"^{quantities.DURATION}$", "maxLength": 64, "x-rainbow-type": "duration"}


@dataclass(frozen=True, kw_only=True)
class Age(Leaf):
    """How long ago something was, kept as it was written; a length of time that may be in days."""

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise ValueError(f"is not {quantities.AGE_RULE}")
        quantities.parse_age(value)
        return value

    def details(self) -> Schema:
        return {"pattern": f"^{quantities.AGE}$", "maxLength": 64}


@dataclass(frozen=True, kw_only=True)
class ListOf(Leaf):
    """A list that is replaced as a whole."""

    item: Leaf
    min_items: int = 1
    max_items: int = 256
    unique: bool = True

    json_type: ClassVar[str] = "array"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError("is not a list")
        if not self.min_items <= len(value) <= self.max_items:
            raise ValueError(f"has {len(value)} entries; give {self.min_items} to {self.max_items}")
        found = len(problems)
        items = [self._read_item(item, (*path, str(index)), problems) for index, item in enumerate(value)]
        if self.unique and len(problems) == found and any(item in items[:index] for index, item in enumerate(items)):
            fault(problems, path, "the same entry is listed twice.")
        return items

    def _read_item(self, item: Any, path: Path, problems: list[Problem]) -> Any:
        if item is None:
            fault(problems, path, "null cannot stand in a list.")
        return self.item.read(item, path, problems)

    def details(self) -> Schema:
        details: Schema = {
            "items": without_null(self.item.schema()),
            "minItems": self.min_items,
            "maxItems": self.max_items,
        }
        return details | {"uniqueItems": True} if self.unique else details


def without_null(schema: Schema) -> Schema:
    types = [name for name in schema["type"] if name != "null"]
    plain = schema | {"type": types[0] if len(types) == 1 else types}
    if "enum" in plain:
        plain["enum"] = [word for word in plain["enum"] if word is not None]
    return plain


@dataclass(frozen=True, kw_only=True)
class Record(Leaf):
    """Several values that only make sense together, so that none is inherited alone."""

    fields: Mapping[str, Leaf]
    required: tuple[str, ...] = ()
    drop_empty: bool = False  #: an empty text means "absent" here, as in Flyte's files

    json_type: ClassVar[str] = "object"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("is not a mapping")
        given = known_keys(value, self.fields, path, problems)
        if self.drop_empty:
            given = {name: item for name, item in given.items() if item not in ("", None)}
        record = {name: self.fields[name].read(item, (*path, name), problems) for name, item in given.items()}
        for name in self.required:
            if given.get(name) is None:
                fault(problems, (*path, name), "is missing.")
        said = {name: item for name, item in record.items() if item is not None}
        if not any(item is not None for item in given.values()):
            raise ValueError(f"says nothing: give at least one of {', '.join(self.fields)}")
        return said

    def details(self) -> Schema:
        details: Schema = {
            "properties": {name: item.schema() for name, item in self.fields.items()},
            "additionalProperties": False,
            "minProperties": 1,
            "x-rainbow-leaf": True,
        }
        return details | {"required": list(self.required)} if self.required else details


@dataclass(frozen=True, kw_only=True)
class FreeForm(Leaf):
    """A JSON object that belongs to someone else; only its size is ours to check."""

    json_type: ClassVar[str] = "object"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("is not a mapping")
        return value

    def details(self) -> Schema:
        return {"additionalProperties": True, "x-rainbow-leaf": True}
