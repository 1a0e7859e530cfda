"""
Nodes of a file to values, as the JSON Schema of their place wants them.

The schema decides what a plain scalar is: `value: no` is the text "no" and `cpu: 010` the text "010"; numbers and
booleans are made only where the schema asks for them. Names of fields are read in any spelling, keys of free-form
maps stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import yaml

from ctl.client.kinds import Schema
from ctl.client.schemas import NULLS, key_property, scalar, shape_of, types, value_property
from ctl.client.words import did_you_mean, fold, listed
from ctl.client.yaml_files import Problem, Source, compose_mapping
from ctl.files.positions import Position

T = TypeVar("T")

#: Stands for a value that had a problem, which has been noted.
BAD: Any = object()


class Converter:
    """Converts nodes, noting every problem and where each value stands."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.positions: dict[str, Position] = {}  #: line and column by dotted path

    def note(self, node: yaml.Node, reason: str, path: str = "") -> Any:
        self.problems.append(Problem.at(node.start_mark, reason, path))
        return BAD

    def note_at(self, path: str, reason: str) -> None:
        """Note a problem with a value that was converted."""
        line, column = self.positions[path]
        self.problems.append(Problem(line=line, column=column, reason=reason, field=path))

    def note_same(self, values: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> None:
        """Note the second of each pair of fields that mean the same, where both are given."""
        for first, second in pairs:
            if first in values and second in values:
                self.note_at(second, f"means the same as {first}: keep one of the two")

    def value(self, node: yaml.Node, schema: Schema, path: str) -> Any:
        """The value of a node, or BAD."""
        self.positions[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        shape = shape_of(schema)
        if _is_null(node):
            return self._null(node, schema, shape, path)
        if not types(schema):
            return self._anything(node, path)
        if shape in {"branch", "object"}:
            return self.mapping(node, schema, path)
        if shape == "map":
            return self._map(node, schema, path)
        if shape == "keyed":
            return self._keyed(node, schema, path)
        if shape in {"list", "objects"}:
            return self._list(node, schema, path)
        return self._scalar(node, schema, path)

    def mapping(
        self,
        node: yaml.Node,
        schema: Schema,
        path: str = "",
        refused: dict[str, str] | None = None,
        ignored: Collection[str] = (),
        also: Collection[str] = (),
    ) -> dict[str, Any]:
        """An object whose keys the schema names.

        `refused` gives a reason of its own to keys that are none, and those in `ignored` are left out. Keys in `also`
        are those that were read before, which the reasons name too.
        """
        if not isinstance(node, yaml.MappingNode):
            self.note(node, "must hold keys and values", path)
            return {}
        properties = schema.get("properties", {})
        by_fold = {fold(name): name for name in properties}
        values: dict[str, Any] = {}
        for key, value_node in self._pairs(node, path):
            name = by_fold.get(fold(key.value))
            if name is None and key.value in ignored:
                continue
            if name is None:
                reason = (refused or {}).get(fold(key.value)) or _unknown(key.value, [*properties, *also])
                self.note(key, reason, _join(path, key.value))
            elif name in values:
                self.note(key, "given twice: keep one of the two", _join(path, name))
            else:
                values[name] = self.value(value_node, properties[name], _join(path, name))
        lacking = [name for name in schema.get("required", []) if name not in values]
        if lacking:
            self.note(node, f"lacks {listed(lacking)}", path)
        return {name: value for name, value in values.items() if value is not BAD}

    def _pairs(self, node: yaml.MappingNode, path: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        pairs = []
        for key, part in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.note(key, "a key must be text", path)
            elif key.value == "<<" and not key.style:
                self.note(key, "merge keys are not read: write the keys here", path)
            else:
                pairs.append((key, part))
        return pairs

    def _null(self, node: yaml.Node, schema: Schema, shape: str, path: str) -> Any:
        if "null" in types(schema) or not types(schema):
            return None
        if shape in {"branch", "map", "keyed"}:
            return self.note(node, "is empty: write a leaf below it, or remove the line", path)
        return self.note(node, "must not be empty", path)

    def _scalar(self, node: yaml.Node, schema: Schema, path: str) -> Any:
        if schema.get("x-rainbow-wrapped") and isinstance(node, yaml.MappingNode):
            inner = {**schema, "x-rainbow-wrapped": False}
            wrapped = self.mapping(node, {"properties": {"value": inner}, "required": ["value"]}, path)
            return wrapped.get("value", BAD)
        if not isinstance(node, yaml.ScalarNode):
            words = "a list" if isinstance(node, yaml.SequenceNode) else "keys and values"
            return self.note(node, f"must be one value, not {words}", path)
        try:
            return scalar(schema, node.value)
        except ValueError as error:
            return self.note(node, str(error), path)

    def _list(self, node: yaml.Node, schema: Schema, path: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return self.note(node, "must be a list, such as [a, b]", path)
        items = schema.get("items", {})
        values = [self.value(part, items, _join(path, str(index))) for index, part in enumerate(node.value)]
        return BAD if any(value is BAD for value in values) else values

    def _map(self, node: yaml.Node, schema: Schema, path: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self.note(node, "must hold keys and values", path)
        inner = schema["additionalProperties"]
        values: dict[str, Any] = {}
        for key, value_node in self._pairs(node, path):
            here = _join(path, key.value)
            if key.value in values:
                self.note(key, "given twice: keep one of the two", here)
            else:
                values[key.value] = self.value(value_node, inner if isinstance(inner, dict) else {}, here)
        return {key: value for key, value in values.items() if value is not BAD}

    def _keyed(self, node: yaml.Node, schema: Schema, path: str) -> Any:
        """A list of objects, or a map from their keys; the list either way."""
        if isinstance(node, yaml.MappingNode):
            return self._keyed_map(node, schema, path)
        if not isinstance(node, yaml.SequenceNode):
            return self.note(node, "must be a list, or keys and values", path)
        key, values = key_property(schema) or "", []
        seen: set[Any] = set()
        for index, part in enumerate(node.value):
            problems = len(self.problems)
            item = self.mapping(part, schema["items"], _join(path, str(index)))
            word = item.get(key)
            if word is None and len(self.problems) == problems:
                self.note(part, f"lacks {key}", _join(path, str(index)))
            elif word is not None and word in seen:
                self.note(part, f"{key} {word} is given twice: keep one of the two", path)
            seen.add(word)
            self._also_by_key(_join(path, str(index)), _join(path, str(word)))
            values.append(item)
        return values

    def _keyed_map(self, node: yaml.MappingNode, schema: Schema, path: str) -> Any:
        key, only = key_property(schema) or "", value_property(schema)
        properties = schema["items"].get("properties", {})
        rest = {name: part for name, part in properties.items() if name != key}
        values: dict[str, dict[str, Any]] = {}
        for index, (word, part) in enumerate(self._pairs(node, path)):
            here = _join(path, word.value)
            if word.value in values:
                self.note(word, "given twice: keep one of the two", here)
                continue
            if only and not isinstance(part, yaml.MappingNode):
                item = {only: self.value(part, properties[only], here)}
            else:
                required = [name for name in schema["items"].get("required", []) if name != key]
                item = self.mapping(part, {"properties": rest, "required": required}, here)
            self._also_by_key(here, _join(path, str(index)))
            values[word.value] = {key: word.value, **item}
        return list(values.values())

    def _also_by_key(self, source: str, other: str) -> None:
        """The admin may name an entry of a keyed list by its key or by its number."""
        for path, position in list(self.positions.items()):
            if path == source or path.startswith(f"{source}."):
                self.positions.setdefault(other + path[len(source) :], position)

    def _anything(self, node: yaml.Node, path: str) -> Any:
        """A value the schema says nothing about: JSON's types for plain scalars, text for the rest."""
        if isinstance(node, yaml.MappingNode):
            return self._map(node, {"additionalProperties": {}}, path)
        if isinstance(node, yaml.SequenceNode):
            return self._list(node, {"items": {}}, path)
        for type_name in ("boolean", "integer", "number") if not getattr(node, "style", None) else ():
            try:
                return scalar({"type": type_name}, node.value)
            except ValueError:
                continue
        return node.value


def convert_source(source: Source, convert: Callable[[yaml.Node], tuple[T, list[Problem]]]) -> T:
    """What a file of keys and values says; every problem with it is reported at once."""
    node, problems = compose_mapping(source)
    value, more_problems = convert(node)
    if problems + more_problems:
        raise source.refuse(problems + more_problems)
    return value


def child_node(node: yaml.Node, name: str) -> yaml.Node | None:
    """The value of a key in any spelling, if the node has it."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((part for key, part in node.value if fold(str(key.value)) == fold(name)), None)


def plain_or_wrapped(node: yaml.Node | None, schema: Schema) -> Schema:
    """The schema of `{values: {team: ml}}`, as the API writes it, or of what is in it, as people do."""
    inner: Schema = schema["properties"]["values"]
    if not isinstance(node, yaml.MappingNode) or [key.value for key, _part in node.value] != ["values"]:
        return inner
    return inner if isinstance(node.value[0][1], yaml.ScalarNode) else schema


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in NULLS


def _unknown(word: str, keys: list[str]) -> str:
    hint = did_you_mean(word, keys)
    return f"unknown key.{hint}" if hint else f"unknown key: there is {listed(keys)}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
