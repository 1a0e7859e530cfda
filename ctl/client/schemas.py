"""
The fields of a kind, read from the JSON Schema of its payload.

A *leaf* is what is inherited, set and unset as one thing; a *branch* only holds leaves. Free-form maps and
lists keyed by a property are branches too: each of their entries is a leaf.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctl.client.kinds import Schema
from ctl.client.words import did_you_mean, fold, listed, nearest

#: The words that YAML reads as null.
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One place in a payload that takes a value, a list, or entries."""

    path: str  #: dotted, snake_case
    schema: Schema
    shape: str  #: text, integer, number, boolean, list, objects (a list of objects), map, keyed, object
    leaf: str  #: path of the leaf it belongs to; its own, except inside an object that is one leaf

    @property
    def is_pairs(self) -> bool:
        """Whether its entries can be written KEY=VALUE: a map, or a keyed list with one value beside the key."""
        return self.shape == "map" or (self.shape == "keyed" and value_property(self.schema) is not None)


def types(schema: Schema) -> set[str]:
    """The types a schema allows; `type` is one name or a list of them."""
    declared = schema.get("type", [])
    return {declared} if isinstance(declared, str) else set(declared)


def key_property(schema: Schema) -> str | None:
    """The property a list of objects is merged by, where it is merged."""
    return schema.get("x-rainbow-keyed-by")


def value_property(schema: Schema) -> str | None:
    """The one property beside the key in the items of a keyed list, if there is exactly one."""
    rest = [name for name in schema["items"].get("properties", {}) if name != key_property(schema)]
    return rest[0] if len(rest) == 1 else None


def shape_of(schema: Schema) -> str:
    """How values of a schema are written; `branch` for an object that only holds fields."""
    allowed = types(schema)
    if "object" in allowed:
        # The keys of a map are the user's own: it has no properties, but a schema for any value.
        if not schema.get("properties") and schema.get("additionalProperties"):
            return "map"
        return "object" if schema.get("x-rainbow-leaf") else "branch"
    if "array" in allowed:
        if key_property(schema):
            return "keyed"
        return "objects" if "object" in types(schema.get("items", {})) else "list"
    # Where text is allowed beside numbers, as in quantities, text is what is written and sent.
    if "string" in allowed:
        return "text"
    return next((name for name in ("boolean", "integer", "number") if name in allowed), "text")


def fields(schema: Schema, path: str = "", leaf: str = "") -> Iterator[Field]:
    """Every field below a schema, in its order; the parts of an object that is one leaf come after it."""
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        shape = shape_of(part)
        if shape != "branch":
            yield Field(path=here, schema=part, shape=shape, leaf=leaf or here)
        if shape in {"branch", "object"}:
            yield from fields(part, here, leaf or (here if shape == "object" else ""))


def leaf_values(schema: Schema, payload: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a payload with their values, by the paths the admin gives them."""
    for name, value in payload.items():
        here = f"{path}.{name}" if path else name
        part = schema.get("properties", {}).get(name, {})
        shape = shape_of(part)
        if shape == "branch" and isinstance(value, Mapping):
            yield from leaf_values(part, value, here)
        elif shape == "map" and isinstance(value, Mapping):
            yield from ((f"{here}.{key}", entry) for key, entry in value.items())
        elif shape == "keyed" and isinstance(value, list):
            yield from _keyed_leaves(part, value, here)
        else:
            yield here, value


def _keyed_leaves(schema: Schema, items: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    key, only = key_property(schema) or "", value_property(schema)
    for item in items:
        rest = {name: value for name, value in item.items() if name != key}
        is_unset = all(value is None for value in rest.values())
        yield f"{path}.{item.get(key)}", None if is_unset else rest[only] if only else rest


def find_leaf(schema: Schema, typed: str) -> str:
    """
    The path of the leaf meant by `typed`, whose words may be in any spelling; keys of maps stay as they are.

    Raises a ValueError with the reason for a branch, and for what is no field at all.
    """
    here, part, rest = "", schema, typed
    while True:
        word, _, rest = rest.partition(".")
        properties = part.get("properties", {})
        name = next((name for name in properties if fold(name) == fold(word)), None)
        if name is None:
            close = nearest(word, properties) or list(properties)
            paths = [f"{here}.{name}" if here else name for name in close]
            raise ValueError(f"there is no field {typed!r}. Did you mean {listed(paths, 'or')}?")
        here, part = (f"{here}.{name}" if here else name), properties[name]
        shape = shape_of(part)
        if shape in {"map", "keyed"}:
            if not rest:
                raise ValueError(f"{here} holds entries: name one of them, {here}.KEY.")
            return f"{here}.{rest}"
        if shape != "branch":
            if rest:
                raise ValueError(f"{here} is one leaf: it is taken as a whole, without .{rest}.")
            return here
        if not rest:
            leaves = list(dict.fromkeys(field.leaf for field in fields(part, here)))
            raise ValueError(f"{here} is no leaf: name one of {listed(leaves, 'or')}.")


def scalar(schema: Schema, text: str) -> Any:
    """The value a text stands for where the schema wants a scalar; a ValueError with the reason if none."""
    if schema.get("enum"):
        return _enum_member(schema, text)
    shape = shape_of(schema)
    if shape == "boolean":
        if text.lower() not in {"true", "false"}:
            raise ValueError(f"must be true or false, got {text!r}")
        return text.lower() == "true"
    if shape == "integer":
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"must be a whole number, got {text!r}")
        return _in_range(schema, int(text))
    if shape == "number":
        if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
            raise ValueError(f"must be a number, got {text!r}")
        return _in_range(schema, int(text) if _WHOLE.fullmatch(text) else float(text))
    return text


def _in_range(schema: Schema, value: float) -> float:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        raise ValueError(f"must be {allowed_values(schema)}, got {value}")
    return value


def _enum_member(schema: Schema, text: str) -> Any:
    members = [member for member in schema["enum"] if member is not None]
    numbers: Mapping[str, int] = schema.get("x-rainbow-enum-numbers", {})
    for member in members:
        if fold(str(member)) == fold(text) or str(numbers.get(str(member))) == text:
            return member
    names = [str(member) for member in members]
    raise ValueError(f"must be {allowed_values(schema)}, got {text!r}.{did_you_mean(text, names)}")


def allowed_values(schema: Schema) -> str:
    """The values a schema allows, in words; empty where any of its type will do."""
    if schema.get("enum"):
        numbers: Mapping[str, int] = schema.get("x-rainbow-enum-numbers", {})
        members = [str(member) for member in schema["enum"] if member is not None]
        return listed((f"{name} ({numbers[name]})" if name in numbers else name for name in members), "or")
    if shape_of(schema) == "map":
        return allowed_values(_entries(schema))
    if shape_of(schema) not in {"integer", "number"}:
        return ""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"between {least} and {most}"
    if least is not None:
        return f"{least} or more"
    return f"{most} or less" if most is not None else ""


#: What the entries of a map are called by their shape.
_ENTRY_NAMES = {"integer": "whole numbers", "number": "numbers"}


def _entries(schema: Schema) -> Schema:
    """The schema of the entries of a map; empty where they may be anything."""
    entries = schema.get("additionalProperties")
    return entries if isinstance(entries, Mapping) else {}


def type_name(field: Field) -> str:
    """The type of a field as help and `get kind` show it."""
    names = {
        "list": "list of text",
        "objects": "list of objects",
        "map": f"map of {_ENTRY_NAMES.get(shape_of(_entries(field.schema)), 'text')}",
        "keyed": f"list by {key_property(field.schema)}",
        "object": "object, one leaf",
    }
    if field.shape == "object" and field.leaf != field.path:
        return "object"
    special = field.schema.get("x-rainbow-type")
    return str(special) if special else names.get(field.shape, field.shape)


def show(value: Any) -> str:
    """A leaf's value in a table cell: text as it is, None as unset, lists and objects entry by entry."""
    if value is None:
        return "(unset)"
    if isinstance(value, Mapping) and value:
        return ", ".join(f"{name}={show(item)}" for name, item in value.items())
    if isinstance(value, list) and value:
        return ("; " if any(isinstance(item, Mapping | list) for item in value) else ", ").join(map(show, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


#: The properties that identify the entries of a list, in order of preference.
_NAMES = ("name", "id", "key", "task_type")
#: The properties of an entry of a map that is written as a list.
_PAIR = {"key", "value"}


def parts_of(value: Any) -> dict[str, str]:
    """A value field by field, each as `show` has it; entries of a list go by their names, `members.east.weight`."""
    return {path: show(part) for path, part in _parts(value)}


def leaf_parts(value: Any) -> dict[str, str]:
    """The same of the value of a leaf; an entry of a map that is written as a list is what stands beside its key."""
    return parts_of(value["value"] if isinstance(value, Mapping) and value.keys() == {"value"} else value)


def _parts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value.keys() == _PAIR:
        value = value["value"]  # its key is the last word of the path
    entries = value if isinstance(value, Mapping) else _by_name(value) if isinstance(value, list) else None
    if not entries:
        yield path, value
        return
    for name, part in entries.items():
        yield from _parts(part, f"{path}.{name}" if path else str(name))


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """The entries of a list of objects by what names them; None where nothing does."""
    for key in _NAMES:
        if all(isinstance(item, Mapping) and isinstance(item.get(key), str) for item in items):
            names = [item[key] for item in items]
            if len(set(names)) < len(names):
                return None
            rest = [{name: part for name, part in item.items() if name != key} for item in items]
            if key == "key" and all(parts.keys() == {"value"} for parts in rest):
                rest = [parts["value"] for parts in rest]
            return {name: name if parts == {} else parts for name, parts in zip(names, rest, strict=True)}
    return None


def summary(schema: Schema, payload: Mapping[str, Any]) -> str:
    """A whole payload in one table cell."""
    leaves = list(leaf_values(schema, payload))
    return ", ".join(f"{path}={show(value)}" for path, value in leaves) or "(nothing)"
