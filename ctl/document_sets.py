"""
Sets of documents: what `apply`, `diff`, `plan` and `explain --with` read, and `export` writes.

A document is an attribute file with `kind` in it, or a project:

    kind: execution-cluster-label
    project: flyteexamples
    domain: development
    value: gpu
    ---
    kind: project
    id: flyteexamples
    labels: {team: ml}

A file holds any number of them, `---` between two, or a list of them in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ctl.conversion import Converter
from ctl.document_files import find_files
from ctl.errors import InvalidFile, InvalidInput
from ctl.files import AttributeFile, convert_attribute, means
from ctl.kinds import Kind, Schema, built_in, by_word
from ctl.project_files import FILE_SCHEMA, PLAIN_SCHEMA, READ_ONLY
from ctl.scopes import Scope
from ctl.sources import MIB, Problem, Source, compose_all, read_source
from ctl.words import count, did_you_mean, fold

MAX_BYTES = 32 * MIB
MAX_DOCUMENTS = 20_000
PROJECT = "project"

_DECIDED = "decided by the admin: remove it"
_REFUSED = {fold(key): _DECIDED for key in READ_ONLY}


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One document: an attribute at a scope, or a project."""

    kind: Kind | None  #: None for a project
    file: AttributeFile  #: what it says, and where each field stands
    line: int
    column: int

    @property
    def place(self) -> str:
        """Where it starts: `settings.yaml:12:1`."""
        return f"{self.file.name}:{self.line}:{self.column}"

    @property
    def identity(self) -> tuple[str, Scope]:
        """What no two documents of a set may share."""
        return (self.kind.name if self.kind else "PROJECT", self.file.scope)

    @property
    def title(self) -> str:
        """What it is about, in words."""
        if self.kind is None:
            return f"project {self.file.scope.project}"
        return f"{self.kind.noun} at {self.file.scope.describe()}"

    def change(self) -> dict[str, Any]:
        """The change it asks for, as the API takes it."""
        if self.kind is None:
            return {"project_definition": {"id": self.file.scope.project, **self.file.payload}}
        return {"resource_type": self.kind.name, **self.file.scope.document(), "payload": self.file.payload}

    def position(self, field: str) -> str:
        """Where a field stands that the admin names, or the document where it names none."""
        key = self.kind.payload_key if self.kind else ""
        found = self.file.position(field.removeprefix("payload."), key)
        return f"{self.file.name}:{found[0]}:{found[1]}" if found else self.place


class KindWords:
    """Finds the kind that a document names; the admin is asked only for what is not built in."""

    def __init__(self, load: Callable[[], Iterable[Kind]]) -> None:
        self._load = load
        self._declared: tuple[Kind, ...] | None = None
        self._known: dict[str, Kind | None] = {}

    def find(self, word: str) -> Kind | None:
        if word not in self._known:
            self._known[word] = _match(built_in(), word) or _match(self._all(), word)
        return self._known[word]

    def nouns(self) -> list[str]:
        return [PROJECT, *(kind.noun for kind in self._all())]

    def _all(self) -> tuple[Kind, ...]:
        if self._declared is None:
            self._declared = tuple(self._load())
        return self._declared


def _match(kinds: Iterable[Kind], word: str) -> Kind | None:
    known = list(kinds)
    return by_word(known, word) or next((kind for kind in known if means(word, kind)), None)


def read_documents(paths: Sequence[str], kinds: KindWords) -> list[Declaration]:
    """Read and check every document that files, directories and stdin hold; every problem is reported at once."""
    reading = _Reading(kinds)
    for path in find_files(paths):
        reading.read(path)
    return reading.finish()


def parse_documents(source: Source, kinds: KindWords) -> list[Declaration]:
    """As `read_documents`, from text."""
    reading = _Reading(kinds)
    reading.add(source)
    return reading.finish()


class _Reading:
    """Gathers documents and problems over several files."""

    def __init__(self, kinds: KindWords) -> None:
        self.kinds = kinds
        self.declarations: list[Declaration] = []
        self.details: list[dict[str, Any]] = []

    def read(self, path: str) -> None:
        try:
            self.add(read_source(path, MAX_BYTES))
        except InvalidFile as error:
            if not error.details:
                raise
            self.details += error.details

    def add(self, source: Source) -> None:
        try:
            nodes, problems = compose_all(source)
        except InvalidFile as error:
            self.details += error.details
            return
        if not nodes and not problems:
            problems.append(Problem(line=1, column=1, reason="the file holds no document: write one, or remove it"))
        if len(self.declarations) + len(nodes) > MAX_DOCUMENTS:
            raise InvalidFile(f"More than {MAX_DOCUMENTS} documents: split the set and apply its parts one by one.")
        for node in nodes:
            declaration, found = _declaration(node, source.name, self.kinds)
            problems += found
            if declaration is not None and not found:
                self.declarations.append(declaration)
        if problems:
            self.details += source.refuse(problems).details

    def finish(self) -> list[Declaration]:
        self.details += _duplicates(self.declarations)
        if self.details:
            places = [str(detail["position"]).rsplit(":", 2)[0] for detail in self.details]
            files = list(dict.fromkeys(places))
            what = f"{files[0]} cannot be used" if len(files) == 1 else f"{len(files)} files cannot be used"
            raise InvalidFile(f"{what}: {count(len(self.details), 'problem')}. Nothing was sent.", details=self.details)
        return self.declarations


def _duplicates(declarations: Iterable[Declaration]) -> list[dict[str, Any]]:
    seen: dict[tuple[str, Scope], Declaration] = {}
    found = []
    for declaration in declarations:
        first = seen.setdefault(declaration.identity, declaration)
        if first is not declaration:
            reason = f"{declaration.title} is given twice: first at {first.place}. Keep one of the two"
            found.append({"position": declaration.place, "reason": reason})
    return found


def _declaration(node: yaml.MappingNode, name: str, kinds: KindWords) -> tuple[Declaration | None, list[Problem]]:
    word = next((part for key, part in node.value if fold(str(key.value)) == "kind"), None)
    if word is None:
        if any(key.value == "rainbow_plan" for key, _part in node.value):
            return None, [Problem.at(node.start_mark, f"this is a plan: apply it with `rainbowctl apply {name}`")]
        reason = "lacks kind: write `kind: project`, or the noun of a kind, as `rainbowctl get kind` lists them"
        return None, [Problem.at(node.start_mark, reason)]
    if not isinstance(word, yaml.ScalarNode):
        return None, [Problem.at(word.start_mark, "must be one word", "kind")]
    if fold(word.value) in {PROJECT, f"{PROJECT}s"}:
        kind, (file, problems) = None, _project(node, name)
    else:
        kind = kinds.find(word.value)
        if kind is None:
            hint = did_you_mean(word.value, kinds.nouns()) or " `rainbowctl get kind` lists the kinds."
            return None, [Problem.at(word.start_mark, f"there is no kind {word.value!r}.{hint}", "kind")]
        file, problems = _attribute(node, kind, name)
    mark = node.start_mark
    return Declaration(kind=kind, file=file, line=mark.line + 1, column=mark.column + 1), problems


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
    schema = _project_schema(node)
    properties = {key: part for key, part in schema["properties"].items() if key not in READ_ONLY}
    found = converter.mapping(node, {"properties": {"kind": {"type": "string"}, **properties}}, refused=_REFUSED)
    problems = converter.problems
    found.pop("kind", None)
    id, version = found.pop("id", None), found.pop("version", None)
    if schema is PLAIN_SCHEMA and "labels" in found:
        found["labels"] = {"values": found["labels"]}
    scope = Scope()
    try:
        scope = Scope(project=id)
    except InvalidInput as error:
        line, column = converter.positions["id"]
        problems.append(Problem(line=line, column=column, reason=error.message.rstrip("."), field="id"))
    if id is None and "id" not in converter.positions:
        problems.append(Problem.at(node.start_mark, "lacks id: which project?"))
    file = AttributeFile(
        name=name, scope=scope, payload=found, version=version, positions=_project_positions(converter.positions)
    )
    return file, problems


def _project_schema(node: yaml.MappingNode) -> Schema:
    """Labels are written `{values: {team: ml}}`, as in a project's file, or as a plain map."""
    labels = next((part for key, part in node.value if fold(str(key.value)) == "labels"), None)
    if not isinstance(labels, yaml.MappingNode):
        return FILE_SCHEMA
    is_wrapped = [key.value for key, _part in labels.value] == ["values"]
    return FILE_SCHEMA if is_wrapped and isinstance(labels.value[0][1], yaml.MappingNode) else PLAIN_SCHEMA


def _project_positions(positions: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The positions, with those of plain labels also under the path the admin knows them by."""
    plain = {
        f"labels.values{path.removeprefix('labels')}": place
        for path, place in positions.items()
        if path.startswith("labels.") and not path.startswith("labels.values")
    }
    return {**plain, **positions}
