"""
Sets of documents: what `apply`, `diff`, `plan` and `explain --with` read, and `export` writes.

A document is an attribute file with `kind` in it, a project, a part of the fleet, a user, a group, or a grant:

    kind: execution-cluster-label
    project: flyteexamples
    domain: development
    value: gpu
    ---
    kind: project
    id: flyteexamples
    labels: {team: ml}
    ---
    kind: pool
    name: gpu
    members: {a: 6, b: 1}
    ---
    kind: grant
    role: editor
    user: ada
    project: flyteexamples
    ---
    kind: use-grant
    pool: gpu
    group: ml

A file holds any number of them, `---` between two, or a list of them in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind, built_in, by_word
from ctl.client.nouns import DEFINED, NAMED, NAMELESS, PROJECT, find_noun, json_key, row_kind
from ctl.client.scopes import Scope
from ctl.client.words import did_you_mean, fold
from ctl.client.yaml_files import Problem
from ctl.files.attributes import AttributeFile, convert_attribute
from ctl.files.conversion import Converter, child_node, plain_or_wrapped
from ctl.files.fleet import convert_definition
from ctl.files.positions import Positions, start_of
from ctl.files.projects import FILE_SCHEMA, PROVENANCE, READ_ONLY
from ctl.files.readings import DocumentReader

_DECIDED = "set by the admin: remove it"
_REFUSED = {fold(key): _DECIDED for key in (*READ_ONLY, *PROVENANCE)}


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One document: an attribute at a scope, a project, a part of the fleet, a user, a group or a grant."""

    kind: Kind | None  #: None for a definition
    noun: str = PROJECT  #: of a definition
    name: str | None = None  #: of a part of the fleet, a user or a group; of a grant it follows from the rest
    file: AttributeFile  #: what it says, and where each field stands
    place: str  #: where it starts: `settings.yaml:12:1`

    @property
    def identity(self) -> tuple[str, Scope | str]:
        """What no two documents of a set may share."""
        name = self.kind.name if self.kind else row_kind(self.noun)
        if self.kind is None and self.noun in NAMELESS:
            return (name, self._parts)
        return (name, self.file.scope if self.name is None else self.name)

    @property
    def title(self) -> str:
        """What it is about, in words."""
        if self.kind is None:
            parts = self._parts if self.noun in NAMELESS else self.file.scope.project
            return f"{self.noun} {self.name or parts}"
        return f"{self.kind.noun} at {self.file.scope.describe()}"

    def change(self) -> dict[str, Any]:
        """The change it asks for, as the API takes it."""
        if self.kind is None:
            key = {"name": self.name} if self.name is not None else {"id": self.file.scope.project}
            if self.noun in NAMELESS and self.name is None:
                key = {}
            return {f"{json_key(self.noun)}_definition": {**key, **self.file.payload}}
        return {"resource_type": self.kind.name, **self.file.scope.document(), "payload": self.file.payload}

    @property
    def _parts(self) -> str:
        """What a grant consists of."""
        return ", ".join(f"{key} {part}" for key, part in sorted(self.file.payload.items()))

    def position(self, field: str) -> str:
        """Where a field stands that the admin names, or the document where it names none."""
        key = self.kind.payload_key if self.kind else ""
        position = self.file.position(field.removeprefix("payload."), key)
        return f"{self.file.name}:{position[0]}:{position[1]}" if position else self.place


class KindWords:
    """Finds the kind that a document names; the admin is asked only for what is not built in."""

    def __init__(self, load: Callable[[], Iterable[Kind]]) -> None:
        self._all = cache(lambda: tuple(load()))
        self._known: dict[str, Kind | None] = {}

    def find(self, word: str) -> Kind | None:
        if word not in self._known:
            self._known[word] = by_word(built_in(), word) or by_word(self._all(), word)
        return self._known[word]

    def nouns(self) -> list[str]:
        return [*DEFINED, *(kind.noun for kind in self._all())]


def read_documents(paths: Sequence[str], kinds: KindWords) -> list[Declaration]:
    """Read and check every document that files, directories and stdin hold; every problem is reported at once."""
    return document_reader(kinds).read_all(paths)


def document_reader(kinds: KindWords) -> DocumentReader[Declaration]:
    return DocumentReader(lambda node, name: _declaration(node, name, kinds))


def _declaration(node: yaml.MappingNode, name: str, kinds: KindWords) -> tuple[Declaration | None, list[Problem]]:
    word = child_node(node, "kind")
    if word is None:
        if any(key.value == "rainbow_plan" for key, _part in node.value):
            return None, [Problem.at(node.start_mark, f"this is a plan: apply it with `rainbowctl apply {name}`")]
        reason = (
            "lacks kind: write `kind: project`, or the noun of a kind, as `rainbowctl get kind` lists them, or "
            "cluster, pool, label, user, group, grant, cluster-group, use-grant or token-pool"
        )
        return None, [Problem.at(node.start_mark, reason)]
    if not isinstance(word, yaml.ScalarNode):
        return None, [Problem.at(word.start_mark, "must be one word", "kind")]
    place = start_of(node, name)
    if find_noun(word.value, [PROJECT]):
        file, problems = _project(node, name)
        return Declaration(kind=None, file=file, place=place), problems
    if noun := find_noun(word.value, NAMED):
        (part, file), problems = convert_definition(node, noun, name)
        if part is None and "name" not in file.positions and noun not in NAMELESS:
            problems.append(Problem.at(node.start_mark, f"lacks name: which {noun}?"))
        return Declaration(kind=None, noun=noun, name=part, file=file, place=place), problems
    kind = kinds.find(word.value)
    if kind is None:
        hint = did_you_mean(word.value, kinds.nouns()) or " `rainbowctl get kind` lists the kinds."
        return None, [Problem.at(word.start_mark, f"there is no kind {word.value!r}.{hint}", "kind")]
    file, problems = _attribute(node, kind, name)
    return Declaration(kind=kind, file=file, place=place), problems


def _attribute(node: yaml.MappingNode, kind: Kind, name: str) -> tuple[AttributeFile, list[Problem]]:
    file, problems = convert_attribute(node, kind, name)
    if not problems and not file.payload:
        names = ", ".join(kind.schema.get("properties", {}))
        problems.append(Problem.at(node.start_mark, f"sets nothing: give at least one of {names}"))
    if not problems and file.scope.level == "platform":
        problems.append(Problem.at(node.start_mark, "names no scope: add a domain, a project, or both"))
    return file, problems


def _project(node: yaml.MappingNode, name: str) -> tuple[AttributeFile, list[Problem]]:
    converter = Converter()
    fields = {key: part for key, part in FILE_SCHEMA["properties"].items() if key not in READ_ONLY}
    labels = plain_or_wrapped(child_node(node, "labels"), fields["labels"])
    properties = {"kind": {"type": "string"}, **fields, "labels": labels}
    values = converter.mapping(node, {"properties": properties}, refused=_REFUSED)
    values.pop("kind", None)
    id, version = values.pop("id", None), values.pop("version", None)
    if labels is not fields["labels"] and "labels" in values:
        values["labels"] = {"values": values["labels"]}
    scope = Scope()
    try:
        scope = Scope(project=id)
    except InvalidInput as error:
        converter.note_at("id", error.message.rstrip("."))
    if id is None and "id" not in converter.positions:
        converter.note(node, "lacks id: which project?")
    positions = _project_positions(converter.positions)
    file = AttributeFile(name=name, scope=scope, payload=values, version=version, positions=positions)
    return file, converter.problems


def _project_positions(positions: Positions) -> Positions:
    """The positions, with those of plain labels also under the path the admin knows them by."""
    plain = {
        f"labels.values{path.removeprefix('labels')}": place
        for path, place in positions.items()
        if path.startswith("labels.") and not path.startswith("labels.values")
    }
    return {**plain, **positions}
