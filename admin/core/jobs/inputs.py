"""Inputs of workflows: what a workflow declares, and the values that one execution gives to it."""

from __future__ import annotations

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from admin.core import names, quantities
from admin.core.fields.base import Path, fault, known_keys
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word

INPUT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
INPUT_NAME_RULE = "letters, digits and '_', at most 63, not starting with a digit"

#: An execution's inputs under this one key are Flyte's literals, so no input may be called so.
_LITERALS = "literals"

_MOST_INPUTS = 1024
_MOST_ENTRIES = 10_000
_MOST_VALUES = 1024
#: One wrong list should not fill the whole answer.
_MOST_FAULTS = 10
_DEEPEST = 8
_LONGEST_TEXT = 64 * 1024
_LONGEST_DESCRIPTION = 4096

_DATETIME = r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


class Missing(Enum):
    """The default of an input that has none."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class InputType(ABC):
    """What the values of an input are."""

    word: ClassVar[str]
    named: ClassVar[str]  #: the type in a sentence: "an integer"
    remedy: str  #: how to write such a value

    @property
    def phrase(self) -> str:
        """The type in a sentence, with what it is made of."""
        return self.named

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its one normal form; what is wrong with it is added to the problems."""
        if value is None:
            fault(problems, path, f"null is no value: give {self.phrase}, or leave it out.")
            return None
        try:
            return self.parse(value, path, problems)
        except ValueError as error:
            fault(problems, path, f"{described(value)} {error}.")
            return None

    @abstractmethod
    def parse(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The normal form of a value that is not null; ValueError continues the sentence "text 'x' …"."""

    def payload(self) -> dict[str, Any]:
        """The type as it is stored."""
        return {"type": self.word}

    def wrong(self) -> ValueError:
        """The refusal of a value of another type."""
        return ValueError(f"is not {self.phrase}: {self.remedy}")


@dataclass(frozen=True)
class Integer(InputType):
    """A whole number of 64 bits."""

    word = "integer"
    named = "an integer"
    remedy = "give a whole number without quotes, such as 5"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON makes no difference between 5 and 5.0
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong()
        if not -(2**63) <= value < 2**63:
            raise ValueError("is out of range: give an integer from -2^63 to 2^63-1")
        return value


@dataclass(frozen=True)
class Float(InputType):
    """A finite number."""

    word = "float"
    named = "a float"
    remedy = "give a number without quotes, such as 0.5"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("is not a finite number: give one")
        if abs(value) > 1e308:
            raise ValueError("is out of range: give a number from -1e308 to 1e308")
        return value


@dataclass(frozen=True)
class Boolean(InputType):
    """True or false, and nothing that looks like it."""

    word = "boolean"
    named = "a boolean"
    remedy = "give true or false, without quotes"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> bool:
        if not isinstance(value, bool):
            raise self.wrong()
        return value


@dataclass(frozen=True)
class String(InputType):
    """A text, which may be empty and have many lines."""

    word = "string"
    named = "a string"
    remedy = "put it in quotes"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong()
        return _checked_text(value)


@dataclass(frozen=True)
class Duration(InputType):
    """A length of time, kept as it was written."""

    word = "duration"
    named = "a duration"
    remedy = "give text such as 600s, 10m or 1h30m"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong()
        quantities.parse_duration(value)
        return value


@dataclass(frozen=True)
class Datetime(InputType):
    """A moment, kept as RFC 3339 text in UTC; a date alone is its midnight in UTC."""

    word = "datetime"
    named = "a datetime"
    remedy = "give a time with its zone, such as 2026-01-02T03:04:05Z, or a date"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(value, dt.date):  # as YAML reads them; a datetime is a date too
            value = value.isoformat()
        if not isinstance(value, str):
            raise self.wrong()
        if names.matches(_DATE, value):
            value += "T00:00:00Z"
        found = re.fullmatch(_DATETIME, value)
        if found is None:
            raise self.wrong()
        day, time, fraction, zone = found.groups()
        try:
            moment = dt.datetime.fromisoformat(f"{day}T{time}{zone.upper()}").astimezone(dt.UTC)
        except (ValueError, OverflowError):
            raise ValueError("is not in the calendar: correct the date, the time or the zone") from None
        return f"{moment.replace(tzinfo=None).isoformat()}{(fraction or '').rstrip('0').rstrip('.')}Z"


@dataclass(frozen=True)
class Choice(InputType):
    """One of the words that the workflow lists."""

    values: tuple[str, ...]

    word = "enum"
    remedy = "give one of them"

    @property
    def phrase(self) -> str:
        listed = [f"'{shorten(word)}'" for word in self.values[:12]]
        return f"one of {', '.join(listed)}{', …' if len(self.values) > 12 else ''}"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            raise self.wrong()
        if value not in self.values:
            near = closest(value, self.values)
            fault(problems, path, f"{described(value)} is not {self.phrase}.", near)
        return value

    def payload(self) -> dict[str, Any]:
        return {"type": self.word, "values": list(self.values)}


@dataclass(frozen=True)
class ListOf(InputType):
    """Values of one type, in order."""

    of: InputType

    word = "list"
    remedy = "give a list, such as [first, second]"

    @property
    def phrase(self) -> str:
        return f"a list, each entry {self.of.phrase}"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise self.wrong()
        _refuse_many(value)
        return [read for _, read in _read_each(self.of, list(enumerate(value)), path, problems)]

    def payload(self) -> dict[str, Any]:
        return {"type": self.word, "of": self.of.payload()}


@dataclass(frozen=True)
class MapOf(InputType):
    """Values of one type, each under its name."""

    of: InputType

    word = "map"
    remedy = "give a mapping of names to values"

    @property
    def phrase(self) -> str:
        return f"a map, each value {self.of.phrase}"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise self.wrong()
        _refuse_many(value)
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"has the name {shorten(key)}, which is not text: put it in quotes")
            try:
                _checked_text(key)
            except ValueError as error:
                raise ValueError(f"has a name that {error}") from None
        return dict(_read_each(self.of, list(value.items()), path, problems))

    def payload(self) -> dict[str, Any]:
        return {"type": self.word, "of": self.of.payload()}


def _read_each(
    of: InputType, entries: list[tuple[Any, Any]], path: Path, problems: list[Problem]
) -> list[tuple[Any, Any]]:
    found = len(problems)
    read: list[tuple[Any, Any]] = []
    for key, value in entries:
        read.append((key, of.read(value, (*path, shorten(key)), problems)))
        if len(problems) - found >= _MOST_FAULTS:
            break
    return read


def _refuse_many(value: Any) -> None:
    if len(value) > _MOST_ENTRIES:
        raise ValueError(f"has {len(value)} entries; the most is {_MOST_ENTRIES}")


def _checked_text(text: str) -> str:
    if "\x00" in text:
        raise ValueError("contains the character NUL, which no program can be given: remove it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("contains half a character (a lone surrogate): remove it") from None
    if size > _LONGEST_TEXT:
        raise ValueError(f"has {size} bytes; the most is {_LONGEST_TEXT}")
    return text


def described(value: Any) -> str:
    """A value as it may stand in a sentence, with its type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"text '{shorten(value)}'"
        case int() | float():
            return f"number {shorten(value)}"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case dt.date():
            return f"the time '{shorten(value.isoformat())}'"
    return f"a value of type {type(value).__name__}"


_SCALARS: dict[str, InputType] = {
    kind.word: kind for kind in (Integer(), Float(), Boolean(), String(), Duration(), Datetime())
}
_CONTAINERS: dict[str, Callable[[InputType], InputType]] = {ListOf.word: ListOf, MapOf.word: MapOf}
TYPES = (*_SCALARS, Choice.word, *_CONTAINERS)  #: every word that may stand as a type


@dataclass(frozen=True, kw_only=True)
class Input:
    """One declared input of a workflow."""

    name: str
    type: InputType
    default: Any = MISSING
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether somebody has to give it a value."""
        return self.default is MISSING


def read_declarations(document: Any, path: Path, problems: list[Problem]) -> dict[str, Input]:
    """The inputs that a workflow declares, by name; what is wrong with them is added to the problems."""
    if not isinstance(document, Mapping):
        fault(problems, path, f"{described(document)} is not a mapping of input names to their types.")
        return {}
    if len(document) > _MOST_INPUTS:
        fault(problems, path, f"has {len(document)} inputs; the most is {_MOST_INPUTS}.")
        return {}
    declared: dict[str, Input] = {}
    for name, declaration in document.items():
        where = (*path, shorten(name))
        if not isinstance(name, str) or not names.matches(INPUT_NAME, name):
            fault(problems, where, f"'{shorten(name)}' is not allowed as the name of an input: use {INPUT_NAME_RULE}.")
        elif name == _LITERALS:
            fault(problems, where, f"'{_LITERALS}' cannot be the name of an input: choose another.")
        else:
            one = _read_declaration(name, declaration, where, problems)
            declared |= {name: one} if one is not None else {}
    return declared


def _read_declaration(name: str, document: Any, path: Path, problems: list[Problem]) -> Input | None:
    if not isinstance(document, Mapping):
        read = _read_type(document, path, problems, 1)
        return Input(name=name, type=read) if read is not None else None
    extra = {key: document[key] for key in ("default", "description") if key in document}
    kind = _read_type({key: value for key, value in document.items() if key not in extra}, path, problems, 1, extra)
    description = _read_description(extra.get("description", ""), (*path, "description"), problems)
    if kind is None:
        return None
    default = extra.get("default", MISSING)
    if default is None:
        fault(problems, (*path, "default"), "null is no value: give one, or leave out 'default' to require the input.")
    elif default is not MISSING:
        default = kind.read(default, (*path, "default"), problems)
    return Input(name=name, type=kind, default=default, description=description)


def _read_description(value: Any, path: Path, problems: list[Problem]) -> str:
    if not isinstance(value, str):
        fault(problems, path, f"{described(value)} is not text: put it in quotes.")
        return ""
    try:
        if len(value) > _LONGEST_DESCRIPTION:
            raise ValueError(f"has {len(value)} characters; the most is {_LONGEST_DESCRIPTION}")
        return _checked_text(value)
    except ValueError as error:
        fault(problems, path, f"{described(value)} {error}.")
        return ""


def _read_type(
    document: Any, path: Path, problems: list[Problem], depth: int, extra: Mapping[str, Any] | None = None
) -> InputType | None:
    """A type from its word or its mapping; `extra` are the keys that its owner reads and that may stand beside."""
    if depth > _DEEPEST:
        fault(problems, path, f"lists and maps are nested deeper than {_DEEPEST}: flatten them.")
        return None
    if isinstance(document, Mapping):
        found = len(problems)
        spelled = {str(key): value for key, value in document.items()}
        known = dict.fromkeys(("type", "values", "of", *(("default", "description") if extra is not None else ())))
        given = known_keys(spelled, known, path, problems)
        if len(problems) > found and "type" not in given:
            return None
        where = (*path, "type")
    else:
        given, where = {"type": document}, path
    word = given.get("type")
    if "type" not in given:
        fault(problems, where, f"is missing: give one of {', '.join(TYPES)}.")
    elif not isinstance(word, str):
        fault(problems, where, f"{described(word)} is not a type: give one of {', '.join(TYPES)}.")
    elif word not in TYPES:
        fault(problems, where, unknown_word("type", word, TYPES), closest(word, TYPES))
    else:
        return _build_type(word, given, path, problems, depth)
    return None


def _build_type(word: str, given: dict[str, Any], path: Path, problems: list[Problem], depth: int) -> InputType | None:
    if "values" in given and word != Choice.word:
        fault(problems, (*path, "values"), f"belongs to the type enum, and this is {word}: remove it.")
    if "of" in given and word not in _CONTAINERS:
        fault(problems, (*path, "of"), f"belongs to the types list and map, and this is {word}: remove it.")
    if word in _SCALARS:
        return _SCALARS[word]
    if word == Choice.word:
        values = _read_words(given.get("values"), (*path, "values"), problems)
        return Choice(values) if values else None
    if given.get("of") is None:
        fault(problems, (*path, "of"), f"is missing: say what the {word} holds, such as 'of: string'.")
        return None
    of = _read_type(given["of"], (*path, "of"), problems, depth + 1)
    return _CONTAINERS[word](of) if of is not None else None


def _read_words(values: Any, path: Path, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= _MOST_VALUES:
        fault(problems, path, f"give a list of 1 to {_MOST_VALUES} words, such as [small, large].")
        return ()
    found = len(problems)
    words = [read for _, read in _read_each(_SCALARS["string"], list(enumerate(values)), path, problems)]
    if len(problems) > found:
        return ()
    if len(set(words)) < len(words):
        fault(problems, path, "the same word is listed twice: remove one.")
    return tuple(words)


def declarations_payload(declared: Mapping[str, Input]) -> dict[str, Any]:
    """Declared inputs in the one form in which they are stored; reading it gives the same inputs."""
    return {name: _declaration_payload(one) for name, one in declared.items()}


def _declaration_payload(one: Input) -> dict[str, Any]:
    payload = one.type.payload()
    if not one.required:
        payload["default"] = one.default
    return payload | {"description": one.description} if one.description else payload


def bind(
    declared: Mapping[str, Input],
    given: Any,
    *,
    defaults: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    path: Path = ("inputs",),
) -> dict[str, Any]:
    """The values of one execution: what it gives, else the launch plan's, else the workflow's defaults.

    Invalid with every problem; what the launch plan fixes may be given again, but only with the same value.
    """
    problems: list[Problem] = []
    values = check_values(declared, given, path, problems)
    refused = set(given) - set(values) if isinstance(given, Mapping) else set()
    settled = {name: one.default for name, one in declared.items() if not one.required}
    settled |= check_values(declared, defaults or {}, path, problems)
    kept = check_values(declared, fixed or {}, path, problems)
    for name in values.keys() & kept.keys():
        if values[name] != kept[name]:
            reason = f"the launch plan fixes it to {described(kept[name])}: leave it out, or use another launch plan."
            fault(problems, (*path, name), reason)
    settled |= values | kept
    for name, one in declared.items():
        if name not in settled and name not in refused:
            fault(problems, (*path, name), f"is missing: give '{name}', {one.type.phrase}.")
    if problems:
        raise Invalid(*problems)
    return {name: settled[name] for name in declared}


def check_values(declared: Mapping[str, Input], given: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The normal forms of the values that are right; unknown names and wrong types are added to the problems."""
    if not isinstance(given, Mapping):
        fault(problems, path, f"{described(given)} is not a mapping of input names to values.")
        return {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        one = declared.get(name)
        if one is None:
            word = str(name)
            fault(problems, (*path, shorten(word)), unknown_word("input", word, declared), closest(word, declared))
            continue
        found = len(problems)
        read = one.type.read(value, (*path, name), problems)
        if len(problems) == found:
            values[name] = read
    return values


_UNSUPPORTED = {
    "blob": "blob",
    "binary": "binary",
    "schema": "schema",
    "noneType": "none",
    "none_type": "none",
    "error": "error",
    "generic": "generic",
    "structuredDataset": "structured dataset",
    "structured_dataset": "structured dataset",
    "union": "union",
}
_PRIMITIVES = {
    "integer": "integer",
    "floatValue": "float",
    "float_value": "float",
    "stringValue": "string",
    "string_value": "string",
    "boolean": "boolean",
    "datetime": "datetime",
    "duration": "duration",
}


def plain(given: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The values of a request as plain ones, whether they came so or as Flyte's literals."""
    if not isinstance(given, Mapping):
        fault(problems, path, f"{described(given)} is not a mapping of input names to values.")
        return {}
    if set(given) != {_LITERALS}:
        return dict(given)
    literals = given[_LITERALS]
    if not isinstance(literals, Mapping):
        fault(problems, (*path, _LITERALS), f"{described(literals)} is not a mapping of input names to literals.")
        return {}
    return _plain_map(literals, (*path, _LITERALS), problems, 0)


def _plain_map(literals: Mapping[str, Any], path: Path, problems: list[Problem], depth: int) -> dict[str, Any]:
    found = len(problems)
    values: dict[str, Any] = {}
    for name, literal in literals.items():
        before = len(problems)
        value = _plain_one(literal, (*path, shorten(name)), problems, depth)
        if len(problems) == before:
            values[name] = value
        if len(problems) - found >= _MOST_FAULTS:
            break
    return values


def _plain_one(literal: Any, path: Path, problems: list[Problem], depth: int) -> Any:
    if depth > _DEEPEST:
        fault(problems, path, f"literals are nested deeper than {_DEEPEST}: flatten them.")
        return None
    variant, content = _only(literal, ("scalar", "collection", "map"), "a literal", path, problems)
    where = (*path, variant)
    if variant == "scalar":
        return _plain_scalar(content, where, problems)
    if variant == "collection":
        entries = content.get(_LITERALS, [])
        if not isinstance(entries, list) or set(content) - {_LITERALS}:
            fault(problems, where, "is not a collection: give {literals: [...]}.")
            return None
        keyed = {str(index): entry for index, entry in enumerate(entries)}
        return list(_plain_map(keyed, (*where, _LITERALS), problems, depth + 1).values())
    if variant == "map":
        below = content.get(_LITERALS, {})
        if not isinstance(below, Mapping) or set(content) - {_LITERALS}:
            fault(problems, where, "is not a map of literals: give {literals: {name: literal}}.")
            return None
        return _plain_map(below, (*where, _LITERALS), problems, depth + 1)
    return None


def _only(value: Any, known: tuple[str, ...], what: str, path: Path, problems: list[Problem]) -> tuple[str, Any]:
    """The one key of a mapping and the mapping under it; an empty key where it is no such thing."""
    spelled = " or ".join(f"{{{word}: …}}" for word in known)
    if not isinstance(value, Mapping) or len(value) != 1:
        fault(problems, path, f"{described(value)} is not {what}: give {spelled}.")
        return "", {}
    ((key, content),) = value.items()
    if key not in known:
        word = str(key)
        fault(problems, (*path, shorten(word)), f"is not part of {what} here: give {spelled}.", closest(word, known))
        return "", {}
    if not isinstance(content, Mapping):
        fault(problems, (*path, key), f"{described(content)} is not a mapping.")
        return "", {}
    return key, content


def _plain_scalar(scalar: Mapping[str, Any], path: Path, problems: list[Problem]) -> Any:
    for key in scalar:
        if key in _UNSUPPORTED:
            reason = f"{_UNSUPPORTED[key]} inputs are not supported: give a primitive, a collection or a map."
            fault(problems, (*path, key), reason)
            return None
    variant, primitive = _only(scalar, ("primitive",), "a scalar", path, problems)
    if not variant:
        return None
    where = (*path, variant)
    known = [key for key in primitive if key in _PRIMITIVES]
    if len(primitive) != 1 or not known:
        fault(problems, where, f"is not a primitive: give exactly one of {', '.join(_PRIMITIVES)}.")
        return None
    return _plain_primitive(_PRIMITIVES[known[0]], primitive[known[0]], (*where, known[0]), problems)


def _plain_primitive(word: str, value: Any, path: Path, problems: list[Problem]) -> Any:
    """The value of a primitive; numbers may come as text, since 64 bits are more than JSON's readers hold."""
    if isinstance(value, str) and word == "integer" and names.matches(r"-?[0-9]{1,20}", value):
        value = int(value)
    if (
        isinstance(value, str)
        and word == "float"
        and names.matches(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", value)
    ):
        value = float(value)
    return _SCALARS[word].read(value, path, problems)
