"""Attribute files: what `--attrFile` reads, and how refusals of the admin find back to a line in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.kinds import Kind, Schema
from ctl.client.scopes import KEYS, Scope, level_label
from ctl.client.words import listed, sentence
from ctl.client.yaml_files import Problem, Source, compose, read_source
from ctl.files.attribute_documents import PROVENANCE
from ctl.files.conversion import BAD, Converter, convert_source
from ctl.files.positions import Position, Positions, find_position, locate_details

#: Keys of a file beside those of the payload; flytectl writes an empty scope key for what is not part of the scope.
_FRAME: Mapping[str, Schema] = {
    "kind": {"type": "string"},
    **{key: {"type": ["string", "null"]} for key in KEYS},
    "version": {"type": "integer", "minimum": 1},
}
_REFUSED = {
    "inheritedfrom": "this value is inherited, not set here: remove inherited_from to pin it at this scope",
}


@dataclass(frozen=True, kw_only=True)
class AttributeFile:
    """A checked attribute file."""

    name: str
    scope: Scope  #: the platform when the file names none
    payload: dict[str, Any]
    version: int | None = None  #: the version the file expects to find
    positions: Positions = field(default_factory=dict)

    def scope_with(self, typed: Mapping[str, str | None], default: Mapping[str, str | None]) -> Scope:
        """
        The file's scope, which typed flags may repeat but not change; without one in the file, the typed scope.

        `default` stands for flags that were not typed, where the file names no scope either.
        """
        named = self.scope.document()
        flags = {key: name for key, name in typed.items() if name is not None}
        if not named:
            return Scope(**({key: name for key, name in default.items() if name} | flags))
        for key, name in flags.items():
            label = key.replace("_", " ")
            if key not in named:
                raise InvalidInput(
                    f"{self.name} is for {self.scope.describe()}; the {label} {name} on the command line would make it "
                    f"another scope. Write it into the file, or leave it out."
                )
            if named[key] != name:
                raise InvalidInput(f"{self.name} says {label} {named[key]}, the command line says {name}.")
        return self.scope

    def locate(self, error: InvalidRequest, kind: Kind) -> InvalidRequest:
        """The error with the position in this file beside each field it names, in the order of the file."""
        positions = [self.position(str(detail.get("field") or ""), kind.payload_key) for detail in error.details]
        if all(positions):
            order = sorted(range(len(positions)), key=lambda index: positions[index] or (0, 0))
            error.details = [error.details[index] for index in order]
        return locate_details(error, self.name, lambda path: self.position(path, kind.payload_key))

    def position(self, path: str, payload_key: str) -> Position | None:
        """Where a field of the payload, or the closest thing above it, stands."""
        inner = re.sub(rf"^(attributes\.)?matching_attributes\.({re.escape(payload_key)}\.)?", "", path)
        return find_position(self.positions, inner)


def read_attribute_file(path: str, kind: Kind) -> AttributeFile:
    """Read and check a file for one kind; every problem is reported at once."""
    return parse_attribute_file(read_source(path), kind)


def parse_attribute_file(source: Source, kind: Kind) -> AttributeFile:
    """As `read_attribute_file`, from text."""
    return convert_source(source, lambda node: convert_attribute(node, kind, source.name))


def convert_attribute(node: yaml.Node, kind: Kind, name: str) -> tuple[AttributeFile, list[Problem]]:
    """What one document says about one kind, and every problem with it."""
    converter = Converter()
    properties = {**kind.schema.get("properties", {}), **_FRAME}
    document = converter.mapping(node, {"properties": properties}, refused=_REFUSED, ignored=PROVENANCE)
    frame = {key: document.pop(key) for key in _FRAME if key in document}
    word = frame.get("kind")
    if word is not None and not kind.is_called(word):
        converter.note_at("kind", f"this file is for {word}, the command is for {kind.noun}")
    scope = _scope(frame, kind, converter)
    version, positions = frame.get("version"), converter.positions
    file = AttributeFile(name=name, scope=scope, payload=document, version=version, positions=positions)
    return file, converter.problems


def read_document(
    path: str, schema: Schema, *, ignored: Collection[str] = ()
) -> tuple[Source, dict[str, Any], Positions]:
    """Any other file that one schema describes: its source, its values and their positions."""
    source = read_source(path)
    converter = Converter()
    document = convert_source(
        source, lambda node: (converter.mapping(node, schema, ignored=ignored), converter.problems)
    )
    return source, document, converter.positions


def parse_flow(text: str, schema: Schema, name: str) -> Any:
    """A value typed on the command line as a piece of YAML or JSON, such as `{task_type: a, plugin_id: [b]}`."""
    source = Source(name=name, text=text)
    node, problems = compose(source)
    converter = Converter()
    value = converter.value(node, schema, "")
    problems += converter.problems
    if problems or value is BAD:
        reasons = (": ".join(filter(None, (problem.field, problem.reason))) for problem in problems)
        raise InvalidInput(sentence(f"{name}: {listed(reasons)}"))
    return value


def _scope(frame: Mapping[str, Any], kind: Kind, converter: Converter) -> Scope:
    try:
        scope = Scope.from_document(frame)
    except InvalidInput as error:
        converter.note_at([key for key in KEYS if frame.get(key)][-1], error.message.rstrip("."))
        return Scope()
    if scope.level not in {"platform", *kind.levels}:
        reason = f"{kind.noun} cannot be set at {level_label(scope.level)}: its levels are {listed(kind.levels)}"
        converter.note_at(list(scope.document())[-1], reason)
    return scope
