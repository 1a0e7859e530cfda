"""The language in which payloads and configuration are described.

A *leaf* is the smallest thing that is inherited, set or unset as one: a text, a number, a list, a record. A *branch*
holds leaves: a section of named fields, a map of free keys, a list whose entries are known by a key. One description
serves validation, merging, the documented JSON Schema and the flags of the command line.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from admin.core import names, quantities
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word

Path = tuple[str, ...]
Leaves = dict[Path, Any]
Schema = dict[str, Any]

#: Printable text: no control characters, which no setting needs and terminals and templates stumble over.
PRINTABLE = r"[^\x00-\x1f\x7f]*"
_LONGEST_TEXT = 4096


def dotted(path: Path) -> str:
    """A path as people write it."""
    return ".".join(path)


def _fault(problems: list[Problem], path: Path, reason: str, near: tuple[str, ...] = ()) -> None:
    problems.append(Problem(field=dotted(path), reason=reason, closest=near))


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One named value of a payload or of the configuration."""

    description: str = ""

    @abstractmethod
    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its one normal form; what is wrong with it is added to the problems."""

    @abstractmethod
    def schema(self) -> Schema:
        """JSON Schema of the value."""


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
            _fault(problems, path, f"{_quoted(value)} {error}.")
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


def _quoted(value: Any) -> str:
    return f"'{shorten(value)}'" if isinstance(value, str | int | float) else f"a {_json_name(value)}"


def _json_name(value: Any) -> str:
    kinds = {dict: "mapping", list: "list", bool: "boolean", int: "number", float: "number", str: "text"}
    return kinds.get(type(value), "null")


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
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
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
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            value = str(value)
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
            "x-rainbow-type": "quantity",
        }


@dataclass(frozen=True, kw_only=True)
class Duration(Leaf):
    """A length of time, kept as it was written."""

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise ValueError(f"is not {quantities.DURATION_RULE}")
        quantities.parse_duration(value)
        return value

    def details(self) -> Schema:
        return {"pattern": f"^{quantities.DURATION}$", "maxLength": 64, "x-rainbow-type": "duration"}


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
        items = [self._read_item(item, (*path, str(index)), problems) for index, item in enumerate(value)]
        if self.unique and any(item in items[:index] for index, item in enumerate(items)):
            _fault(problems, path, "the same entry is listed twice.")
        return items

    def _read_item(self, item: Any, path: Path, problems: list[Problem]) -> Any:
        if item is None:
            _fault(problems, path, "null cannot stand in a list.")
        return self.item.read(item, path, problems)

    def details(self) -> Schema:
        details: Schema = {
            "items": _without_null(self.item.schema()),
            "minItems": self.min_items,
            "maxItems": self.max_items,
        }
        return details | {"uniqueItems": True} if self.unique else details


def _without_null(schema: Schema) -> Schema:
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
        given = _known_keys(value, self.fields, path, problems)
        if self.drop_empty:
            given = {name: item for name, item in given.items() if item not in ("", None)}
        record = {name: self.fields[name].read(item, (*path, name), problems) for name, item in given.items()}
        for name in self.required:
            if record.get(name) is None:
                _fault(problems, (*path, name), "is missing.")
        if not record:
            raise ValueError(f"says nothing: give at least one of {', '.join(self.fields)}")
        return {name: item for name, item in record.items() if item is not None}

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


@dataclass(frozen=True, kw_only=True)
class Branch(Field):
    """A value made of leaves; null on it is refused, since it could mean too many things."""

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if value is None:
            _fault(
                problems,
                path,
                "is left empty. Write what is below it, set a single field to null to unset it, "
                "or remove the line to inherit.",
            )
            return {}
        return self.read_branch(value, path, problems)

    @abstractmethod
    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The normal form of a branch that is not null."""

    @abstractmethod
    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        """Every leaf of a value in normal form, with its path from here."""

    @abstractmethod
    def nest(self, leaves: Leaves) -> Any:
        """The normal form again, from its leaves."""

    @abstractmethod
    def find(self, text: str, path: Path = ()) -> Path:
        """The path a dotted text names; Invalid with the nearest right word where there is none."""


@dataclass(frozen=True, kw_only=True)
class Section(Branch):
    """Named fields."""

    fields: Mapping[str, Field]
    exclusive: tuple[str, ...] = ()  #: at most one of these may be given
    also: Mapping[str, str] = field(default_factory=dict)  #: other spellings that are accepted

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            _fault(problems, path, f"{_quoted(value)} is not a mapping of fields.")
            return {}
        given = _known_keys(value, self.fields, path, problems, self.also)
        both = [name for name in self.exclusive if name in given]
        if len(both) > 1:
            _fault(problems, (*path, both[1]), f"give either {' or '.join(both)}, not both.")
        read = {
            name: self.fields[name].read(given[name], (*path, name), problems) for name in self.fields if name in given
        }
        return {
            name: item for name, item in read.items() if item not in ({}, []) or isinstance(self.fields[name], Leaf)
        }

    def schema(self) -> Schema:
        schema: Schema = {
            "type": "object",
            "properties": {name: item.schema() for name, item in self.fields.items()},
            "additionalProperties": False,
        }
        if self.exclusive:
            schema["not"] = {"required": list(self.exclusive)}
        return schema | {"description": self.description} if self.description else schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        for name, item in value.items():
            known = self.fields.get(name)
            if isinstance(known, Branch):
                yield from (((name, *path), leaf) for path, leaf in known.leaves(item))
            elif known is not None:
                yield (name,), item

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for name, known in self.fields.items():
            below = {path[1:]: leaf for path, leaf in leaves.items() if path[0] == name}
            if below:
                nested[name] = known.nest(below) if isinstance(known, Branch) else below[()]
        return nested

    def find(self, text: str, path: Path = ()) -> Path:
        head, _, rest = text.partition(".")
        name = next((name for name in self.fields if head in (name, names.camel(name))), None)
        if name is None:
            reason = unknown_word("field", head, self.fields)
            raise Invalid(Problem(field=dotted((*path, head)), reason=reason, closest=closest(head, self.fields)))
        known = self.fields[name]
        if isinstance(known, Branch):
            if not rest:
                reason = "holds several fields: name one of them."
                raise Invalid(Problem(field=dotted((*path, name)), reason=reason))
            return known.find(rest, (*path, name))
        if rest:
            raise Invalid(
                Problem(field=dotted((*path, name)), reason=f"has no parts, so '{shorten(rest)}' is too much.")
            )
        return (*path, name)


@dataclass(frozen=True, kw_only=True)
class MapOf(Branch):
    """Free keys, each with a leaf of one type; merged key by key."""

    value: Leaf
    key_pattern: str = PRINTABLE
    key_rule: str = "text without control characters, at most 255"
    reserved: tuple[str, ...] = ()
    max_entries: int = 1024

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            _fault(problems, path, f"{_quoted(value)} is not a mapping of names to values.")
            return {}
        if len(value) > self.max_entries:
            reason = f"has {len(value)} entries; the most is {self.max_entries}."
            _fault(problems, path, reason)
            return {}
        return {key: self._read_entry(key, item, path, problems) for key, item in value.items()}

    def _read_entry(self, key: str, item: Any, path: Path, problems: list[Problem]) -> Any:
        where = dotted((*path, shorten(key)))
        if not key or len(key) > 317 or not names.matches(self.key_pattern, key):
            problems.append(
                Problem(field=where, reason=f"'{shorten(key)}' is not allowed as a name: use {self.key_rule}.")
            )
        elif key in self.reserved:
            problems.append(Problem(field=where, reason="this name is filled in by the platform; choose another."))
        return self.value.read(item, (*path, key), problems)

    def schema(self) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.value.schema()}
        schema |= {
            "maxProperties": self.max_entries,
            "propertyNames": {"pattern": f"^{self.key_pattern}$", "minLength": 1},
        }
        if self.reserved:
            schema["propertyNames"]["not"] = {"enum": list(self.reserved)}
        return schema | {"description": self.description} if self.description else schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        yield from (((key,), item) for key, item in value.items())

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        return {path[0]: leaf for path, leaf in leaves.items()}

    def find(self, text: str, path: Path = ()) -> Path:
        return (*path, text)  # a key may hold dots, so all that remains is the key


@dataclass(frozen=True, kw_only=True)
class KeyedList(Branch):
    """A list whose entries are known by one of their fields; merged entry by entry.

    An entry whose `marker` is null unsets that key.
    """

    entry: Record
    key: str
    marker: str
    max_entries: int = 1024

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
        if isinstance(value, dict) and set(self.entry.fields) == {self.key, self.marker}:
            value = [{self.key: key, self.marker: item} for key, item in value.items()]  # the short form, a map
        if not isinstance(value, list) or len(value) > self.max_entries:
            reason = f"give a list of at most {self.max_entries} entries, each with its {self.key}."
            _fault(problems, path, reason)
            return []
        entries = [self._read_entry(item, (*path, str(index)), problems) for index, item in enumerate(value)]
        keys = [entry[self.key] for entry in entries if self.key in entry]
        for key in {key for key in keys if keys.count(key) > 1}:
            _fault(problems, (*path, key), f"the {self.key} '{shorten(key)}' is listed twice.")
        return entries

    def _read_entry(self, item: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        unset = isinstance(item, dict) and any(
            item.get(spelling, self) is None for spelling in (self.marker, names.camel(self.marker))
        )
        if not unset:
            return self.entry.read(item, path, problems) or {}
        key_only = Record(fields={self.key: self.entry.fields[self.key]}, required=(self.key,))
        named = key_only.read({name: part for name, part in item.items() if part is not None}, path, problems)
        return {**(named or {}), self.marker: None}

    def schema(self) -> Schema:
        entry = _without_null(self.entry.schema())
        schema: Schema = {
            "type": "array",
            "items": entry,
            "maxItems": self.max_entries,
            "x-rainbow-keyed-by": self.key,
        }
        return schema | {"description": self.description} if self.description else schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        for entry in value:
            rest = {name: item for name, item in entry.items() if name != self.key}
            yield (entry[self.key],), None if rest == {self.marker: None} else rest

    def nest(self, leaves: Leaves) -> list[dict[str, Any]]:
        return [{self.key: path[0], **({self.marker: None} if leaf is None else leaf)} for path, leaf in leaves.items()]

    def find(self, text: str, path: Path = ()) -> Path:
        return (*path, text)


def _known_keys(
    given: Mapping[str, Any],
    known: Mapping[str, Any],
    path: Path,
    problems: list[Problem],
    also: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What was given, under its canonical names; unknown and doubled names become problems."""
    canonical = {names.camel(name): name for name in known} | {name: name for name in known} | dict(also or {})
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = canonical.get(key)
        if name is None:
            where = dotted((*path, shorten(key)))
            problems.append(Problem(field=where, reason=unknown_word("field", key, known), closest=closest(key, known)))
        elif name in found:
            _fault(problems, (*path, name), "is given twice, in two spellings.")
        else:
            found[name] = value
    return found


def read(description: Branch, value: Any) -> Any:
    """The normal form of a whole value, or Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = description.read(value, (), problems)
    if problems:
        raise Invalid(*problems)
    return normal
