"""Fields of forms that ask for parts of a request: named by their paths in REST, and read as the type that it takes."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml

from admin.console.setting_forms import read_document

_NUMBERED = re.compile(r"[+-]?\d+")
_MOST_ENUM_WORDS = 1024


class Field(NamedTuple):
    """One field of a form."""

    name: str  #: the path in REST's body, which its problems name too
    label: str
    kind: str = "text"  #: text, area, words, integer, number, boolean, choice, pairs, yaml, or map of it
    hint: str = ""
    words: tuple[str, ...] = ()  #: of a choice
    required: bool = False
    default: str = ""  #: that holds if it is left empty
    suggestions: str = ""  #: the id of the list that the page has of them


def new_key() -> str:
    """A key for a form, under which it creates something once."""
    return secrets.token_urlsafe(16)


class Form(NamedTuple):
    """What was filled in: the values by the fields' names, and what is wrong with them."""

    values: dict[str, Any]
    problems: dict[str, str]


def read_form(fields: Iterable[Field], form: Mapping[str, str]) -> Form:
    """The values of the fields that are filled in; REST checks all but how they are written here."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field in fields:
        text = form.get(field.name, "").replace("\r\n", "\n")
        if not text.strip():
            continue
        try:
            values[field.name] = _read(field, text)
        except ValueError as error:
            problems[field.name] = str(error)
    return Form(values, problems)


def _read(field: Field, text: str) -> Any:
    """The value of a field; a number that is none goes to REST as it is, which says what it takes."""
    stripped = text.strip()
    match field.kind:
        case "area":
            return text
        case "words":
            try:
                return shlex.split(text)
            except ValueError as error:
                raise ValueError(f"{error}: quote words as in a shell.") from error
        case "integer":
            return int(stripped) if _NUMBERED.fullmatch(stripped) and len(stripped) < 100 else stripped
        case "number":
            return _number(stripped)
        case "boolean":
            return {"true": True, "false": False}.get(stripped.lower(), stripped)
        case "pairs":
            return _pairs(stripped)
        case "yaml":
            return _yaml(text)
        case "map":
            read = _yaml(text)
            if not isinstance(read, dict):
                raise ValueError("It is no map: write {field: value}.")
            return read
        case _:
            return stripped


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"'{line[:40]}' has no '=': give one KEY=VALUE a line.")
        if name.strip() in pairs:
            raise ValueError(f"'{name.strip()[:40]}' is given twice: give it once.")
        pairs[name.strip()] = value
    return pairs


def _yaml(text: str) -> Any:
    try:
        return read_document(text)
    except ValueError as error:
        raise ValueError(f"{error} Write lists as [1, 2] and maps as {{a: 1}}.") from error


def shown(field: Field, value: Any) -> str:
    """A value as its field shows it."""
    if value is None:
        return ""
    match field.kind:
        case "words" if isinstance(value, list):
            return shlex.join(str(word) for word in value)
        case "pairs" if isinstance(value, dict):
            return "\n".join(f"{name}={text}" for name, text in value.items())
        case "boolean":
            return str(value).lower()
        case "yaml" | "map":
            return (
                yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
                .removesuffix("\n...\n")
                .strip()
            )
    return str(value)


def input_field(name: str, declared: Mapping[str, Any]) -> Field:
    """The field of an input, by the type that its workflow declares."""
    type_ = str(declared.get("type", "yaml"))
    kinds = {"integer": "integer", "float": "number", "boolean": "boolean", "enum": "choice", "string": "area"}
    kind = kinds.get(type_, "text" if type_ in ("duration", "datetime") else "yaml")
    words = tuple(map(str, declared.get("values", ())))[:_MOST_ENUM_WORDS]
    field = Field(
        name=f"inputs.{name}",
        label=name,
        kind=kind,
        words=words,
        required=bool(declared.get("required", "default" not in declared)),
        hint=": ".join(filter(None, [_type_words(declared), str(declared.get("description", ""))])),
    )
    return field._replace(default=shown(field, declared.get("default")))


def _type_words(declared: Mapping[str, Any]) -> str:
    """A type in words: list of integer."""
    of = declared.get("of")
    word = str(declared.get("type", ""))
    return f"{word} of {_type_words(of)}" if isinstance(of, Mapping) else f"{word} of {of}" if of else word
