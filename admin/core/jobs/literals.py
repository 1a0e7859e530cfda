"""Flyte's literals: input values wrapped in their types, as Flyte's clients send them, unwrapped into plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core import names
from admin.core.jobs.input_types import DEEPEST, MOST_PROBLEMS, SCALARS
from admin.core.problems import Path, Problem, add_problem, closest, quoted, shorten

#: The inputs of an execution are literals when this is their only key, so no input may have this name.
LITERALS = "literals"

_UNSUPPORTED = {name: name for name in ("blob", "binary", "schema", "error", "generic", "union")}
_UNSUPPORTED |= dict.fromkeys(("noneType", "none_type"), "none")
_UNSUPPORTED |= dict.fromkeys(("structuredDataset", "structured_dataset"), "structured dataset")
#: Flyte's primitives, and the type of input that each is read as.
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
#: Numbers may be text, since 64 bits are more than readers of JSON hold.
_NUMBERS_AS_TEXT = {
    "integer": (r"-?[0-9]{1,20}", int),
    "float": (r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", float),
}


def plain_values(inputs: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The inputs of a request as plain values, sent as such or as literals."""
    if not isinstance(inputs, Mapping):
        add_problem(problems, path, f"{quoted(inputs)} is not a mapping of input names to values.")
        return {}
    if set(inputs) != {LITERALS}:
        return dict(inputs)
    literals = inputs[LITERALS]
    if not isinstance(literals, Mapping):
        add_problem(problems, (*path, LITERALS), f"{quoted(literals)} is not a mapping of input names to literals.")
        return {}
    return _read_map(literals, (*path, LITERALS), problems, 0)


def _read_map(literals: Mapping[str, Any], path: Path, problems: list[Problem], depth: int) -> dict[str, Any]:
    at_first = len(problems)
    values: dict[str, Any] = {}
    for name, literal in literals.items():
        before = len(problems)
        value = _read_literal(literal, (*path, shorten(name)), problems, depth)
        if len(problems) == before:
            values[name] = value
        if len(problems) - at_first >= MOST_PROBLEMS:
            break
    return values


def _read_literal(literal: Any, path: Path, problems: list[Problem], depth: int) -> Any:
    if depth > DEEPEST:
        add_problem(problems, path, f"literals are nested deeper than {DEEPEST}: flatten them.")
        return None
    variant, content = _only_entry(literal, ("scalar", "collection", "map"), "a literal", path, problems)
    where = (*path, variant)
    if variant == "scalar":
        return _read_scalar(content, where, problems)
    if variant == "collection":
        entries = content.get(LITERALS, [])
        if not isinstance(entries, list) or set(content) - {LITERALS}:
            add_problem(problems, where, "is not a collection: give {literals: [...]}.")
            return None
        keyed = {str(index): entry for index, entry in enumerate(entries)}
        return list(_read_map(keyed, (*where, LITERALS), problems, depth + 1).values())
    if variant == "map":
        inner = content.get(LITERALS, {})
        if not isinstance(inner, Mapping) or set(content) - {LITERALS}:
            add_problem(problems, where, "is not a map of literals: give {literals: {name: literal}}.")
            return None
        return _read_map(inner, (*where, LITERALS), problems, depth + 1)
    return None


def _only_entry(
    value: Any, words: tuple[str, ...], noun: str, path: Path, problems: list[Problem]
) -> tuple[str, Mapping[str, Any]]:
    """The single key of a mapping and the mapping under it; an empty key where the value is no such thing."""
    spelled = " or ".join(f"{{{word}: …}}" for word in words)
    if not isinstance(value, Mapping) or len(value) != 1:
        add_problem(problems, path, f"{quoted(value)} is not {noun}: give {spelled}.")
        return "", {}
    [(key, content)] = value.items()
    if key not in words:
        reason = f"is not part of {noun} here: give {spelled}."
        add_problem(problems, (*path, shorten(key)), reason, closest(str(key), words))
        return "", {}
    if not isinstance(content, Mapping):
        add_problem(problems, (*path, key), f"{quoted(content)} is not a mapping.")
        return "", {}
    return key, content


def _read_scalar(scalar: Mapping[str, Any], path: Path, problems: list[Problem]) -> Any:
    for key in scalar:
        if key in _UNSUPPORTED:
            reason = f"{_UNSUPPORTED[key]} inputs are not supported: give a primitive, a collection or a map."
            add_problem(problems, (*path, key), reason)
            return None
    variant, primitive = _only_entry(scalar, ("primitive",), "a scalar", path, problems)
    if not variant:
        return None
    where = (*path, variant)
    types = [key for key in primitive if key in _PRIMITIVES]
    if len(primitive) != 1 or not types:
        add_problem(problems, where, f"is not a primitive: give exactly one of {', '.join(_PRIMITIVES)}.")
        return None
    [key] = types
    word, value = _PRIMITIVES[key], primitive[key]
    if isinstance(value, str) and word in _NUMBERS_AS_TEXT:
        pattern, number = _NUMBERS_AS_TEXT[word]
        value = number(value) if names.matches(pattern, value) else value
    return SCALARS[word].read(value, (*where, key), problems)
