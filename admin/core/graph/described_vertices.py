"""Vertices of descriptions: their ids, types, amounts and what requirements may ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from admin.core.graph.described_documents import OF_VERTEX, find_graph
from admin.core.graph.description_problems import DescriptionProblems, Stop
from admin.core.graph.requirements import CONTAINMENT, IDENTITY, Feature, Value
from admin.core.graph.shapes import Shapes
from admin.core.graph.units import BYTE_UNITS, CORE, COUNTED, MEASURED, NODE, THOUSANDTH, TYPE, amount_of, byte_suffix
from admin.core.problems import Path, quoted, shorten
from admin.core.resources import LARGEST

_LONGEST_ID, _LONGEST_VALUE, _MOST_FIELDS = 255, 1024, 1000
#: What the metadata of a vertex have, and what is sometimes found beside them.
_OF_METADATA = frozenset(("type", "size", "unit", "name", "properties"))
#: Fields of a vertex that mean the same everywhere, and the types that they may have.
_MEANT = {"arch": (str,), "os": (str,), "model": (str, int, float)}
#: All fields of a vertex that mean something here.
_KNOWN = _OF_METADATA | _MEANT.keys()
#: What jobs call a place of theirs, and clusters do not have.
_SLOT = "slot"
#: All that most vertices of the main graph say.
_PLAIN = IDENTITY | {"type", "size"}


class DescribedVertex(NamedTuple):
    """A vertex as its document says, without its edges."""

    type: str
    amount: int
    size: int
    fields: Feature
    metadata: Mapping[Any, Any]


class ReadGraph(NamedTuple):
    """One graph of a description, its edges still to be read."""

    vertices: dict[str, DescribedVertex]  #: by id
    names: dict[str, str]  #: the ids of nodes by name
    paths: dict[str, str]  #: of the vertices of a list that say it, by id
    edges: list[Any]


class VertexReader:
    """Reads the vertices of all graphs of a description."""

    def __init__(self, shapes: Shapes, problems: DescriptionProblems, most_vertices: int) -> None:
        self._shapes = shapes
        self._problems = problems
        self._most = most_vertices
        self._amounts: dict[tuple[str, int, str], int] = {}  #: those that were checked
        self._plain: dict[tuple[Any, Any], Feature] = {}  #: of vertices that say no more than their type and size
        self._read = 0  #: vertices so far
        self.repeated_names: dict[str, int] = {}  #: how many nodes have a name that others have too

    def read(self, document: Any, where: Path, subsystem: str) -> ReadGraph:
        """The graph of a document, which is the main one or that of a subsystem."""
        where, nodes, edges = find_graph(document, where, self._problems)
        self._read += len(nodes)
        if self._read > self._most:
            reason = (
                f"{self._read:,} vertices are more than {self._most:,}: describe equal units as one vertex with a size."
            )
            self._problems.add((*where, "nodes"), reason)
            raise Stop
        graph = ReadGraph({}, {}, {}, edges)
        is_list = isinstance(nodes, list) and subsystem == CONTAINMENT
        for id_, vertex in self._listed(nodes, (*where, "nodes")):
            if id_ in graph.vertices:
                self._problems.add((*where, "nodes", id_), "is given twice: every vertex has an id of its own.")
                continue
            graph.vertices[id_] = self._read_vertex(id_, vertex, (*where, "nodes"), subsystem, graph.names)
            path = _path_of(vertex) if is_list else None
            if path is not None:
                graph.paths[id_] = path
        return graph

    def _listed(self, nodes: Mapping[Any, Any] | list[Any], where: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The vertices of either shape with their ids."""
        entries = nodes.items() if isinstance(nodes, Mapping) else enumerate(nodes)
        is_list = isinstance(nodes, list)
        for key, vertex in entries:
            if not isinstance(vertex, dict):
                self._problems.add((*where, str(key)), f"{quoted(vertex)} is not a mapping: give its metadata.")
                continue
            id_ = read_id(vertex.get("id") if is_list else key)
            if id_ is None:
                given = vertex.get("id") if is_list else key
                reason = "is missing" if given is None else f"{quoted(given)} is not an id"
                self._problems.add(
                    (*where, str(key), "id"), f"{reason}: give a text of up to {_LONGEST_ID} characters."
                )
                continue
            if not is_list and "id" in vertex and read_id(vertex["id"]) != id_:
                reason = f"{quoted(vertex['id'])} is not '{shorten(id_)}', the key of the vertex: leave it out."
                self._problems.add((*where, id_, "id"), reason)
            yield id_, vertex

    def _read_vertex(
        self, id_: str, vertex: Mapping[str, Any], where: Path, subsystem: str, names: dict[str, str]
    ) -> DescribedVertex:
        if not vertex.keys() <= OF_VERTEX:
            self._check_keys(vertex, (*where, id_))
        metadata: Any = vertex.get("metadata", {})
        if not isinstance(metadata, dict):
            self._problems.add((*where, id_, "metadata"), f"{quoted(metadata)} is not a mapping.")
            metadata = {}
        get: Callable[..., Any] = metadata.get
        type_, size, unit = get("type"), get("size", 1), get("unit", "")
        if type(size) is float and size.is_integer():  # as some programs write whole numbers
            size = int(size)
        try:
            amount = self._amounts[type_, size, unit] if type(size) is int else None
        except (KeyError, TypeError):
            amount = None
        if amount is None:
            amount = self._checked_amount(type_, size, unit, (*where, id_, "metadata"), subsystem)
        if subsystem != CONTAINMENT:
            return DescribedVertex(str(type_), amount, 1, self.feature(metadata, (*where, id_), subsystem), metadata)
        name = get("name")
        if name is not None and not _is_name(name, is_node=type_ == NODE):
            reason = f"{quoted(name)} is not a name: give a printable text of up to {_LONGEST_ID} characters, or none."
            self._problems.add((*where, id_, "metadata", "name"), reason)
        elif type_ == NODE and name is not None:
            if name in names:
                self.repeated_names[name] = self.repeated_names.get(name, 1) + 1
            names[name] = id_
        fields = self._main_feature(metadata, (*where, id_), type_, size)
        return DescribedVertex(str(type_), amount, size if type(size) is int else 1, fields, metadata)

    def _check_keys(self, vertex: Mapping[Any, Any], where: Path) -> None:
        metadata = vertex.get("metadata")
        for name in sorted(_OF_METADATA & vertex.keys()):
            is_repeated = name == "type" and isinstance(metadata, dict) and metadata.get(name) == vertex[name]
            if not is_repeated:
                self._problems.add((*where, name), "is outside the metadata of the vertex: move it there.")
        others = [name for name in vertex if name not in _OF_METADATA]
        self._problems.add_unknown(where, others, OF_VERTEX, " Anything else belongs into the metadata.")

    def _main_feature(self, metadata: Mapping[Any, Any], where: Path, type_: Any, size: Any) -> Feature:
        """What requirements may ask of a vertex of the main graph."""
        if not metadata.keys() <= _PLAIN or not isinstance(type_, str) or type(size) is not int:
            self._check_meant(metadata, (*where, "metadata"))
            return self.feature(metadata, where, CONTAINMENT, IDENTITY)
        plain = self._plain.get((type_, size))
        if plain is None:
            plain = self._plain[type_, size] = self._shapes.feature(CONTAINMENT, {"type": type_, "size": size})
        return plain

    def _check_meant(self, metadata: Mapping[Any, Any], where: Path) -> None:
        """Report fields that have a meaning, and values that cannot have it."""
        for name in [str(name) for name in metadata if name not in _KNOWN]:
            meant = name.lower()
            if meant in _KNOWN and meant not in metadata:
                self._problems.add((*where, name), f"is not read: did you mean '{meant}'?")
        for name, types in _MEANT.items():
            value = metadata.get(name)
            if value is not None and (type(value) not in types or (value == "" and types == (str,))):
                self._problems.add((*where, name), f"{quoted(value)} is not text: give a word, or leave it out.")
        properties = metadata.get("properties")
        if properties is not None and not isinstance(properties, Mapping):
            reason = f"{quoted(properties)} is not a mapping: give each property with its value, '' if it has none."
            self._problems.add((*where, "properties"), reason)
        for name, value in properties.items() if isinstance(properties, Mapping) else ():
            if not _is_value(value):
                reason = "is too long" if isinstance(value, str) else f"{quoted(value)} is neither text nor a number"
                self._problems.add((*where, "properties", str(name)), f"{reason}: give '' if it has no value.")

    def _checked_amount(self, type_: Any, size: Any, unit: Any, where: Path, subsystem: str) -> int:
        """The amount that a vertex has; 0 where something is wrong, which is then a problem."""
        before = len(self._problems.all)
        if not isinstance(type_, str) or not TYPE.fullmatch(type_):
            reason = "is missing" if type_ is None else f"{quoted(type_)} is not a type"
            remedy = "give a word of letters, digits, '_', '.' and '-' that begins with a letter, such as core"
            self._problems.add((*where, "type"), f"{reason}: {remedy}.")
        elif type_ == _SLOT and subsystem == CONTAINMENT:
            reason = "is what jobs ask for, and no part of a cluster: give what it is there, such as node or core."
            self._problems.add((*where, "type"), f"'{type_}' {reason}")
        if isinstance(size, bool) or not isinstance(size, int):
            is_fraction = isinstance(size, float)
            reason = f"{quoted(size)} is not a whole number"
            self._problems.add(
                (*where, "size"), f"{reason}: {'count in smaller units' if is_fraction else 'give one'}."
            )
        elif not 0 <= size <= LARGEST:
            reason = "is below zero" if size < 0 else "is larger than any machine"
            self._problems.add((*where, "size"), f"{quoted(size)} {reason}: give how many units there are.")
        if not isinstance(unit, str):
            self._problems.add((*where, "unit"), f"{quoted(unit)} is not text: give the unit's name, or leave it out.")
        elif type_ in MEASURED and subsystem == CONTAINMENT and byte_suffix(unit) is None:
            reason = f"unknown unit '{shorten(unit)}' of {type_}" if unit else "is missing"
            self._problems.add((*where, "unit"), f"{reason}: give one of {', '.join(BYTE_UNITS)}.")
        elif unit and type_ in COUNTED and (type_, unit) != (CORE, THOUSANDTH) and subsystem == CONTAINMENT:
            reason = f"a {type_} has no unit, such as '{shorten(unit)}': leave it out, its size is how many there are."
            self._problems.add((*where, "unit"), reason)
        if len(self._problems.all) > before:
            return 0
        amount = self._amounts[type_, size, unit] = amount_of(type_, size, unit)
        return amount

    def feature(
        self, metadata: Mapping[Any, Any], where: Path, subsystem: str, without: frozenset[str] = frozenset()
    ) -> Feature:
        """The fields that requirements may ask for: texts, numbers and truth values, also those of nested mappings."""
        fields: dict[str, Value] = {"size": 1}
        for name, value in metadata.items():
            if name in without:
                continue
            nested = value.items() if isinstance(value, Mapping) else ()
            for key, item in ((f"{name}.{inner}", inner_value) for inner, inner_value in nested):
                if _is_value(item):
                    fields[key] = item
            if _is_value(value):
                fields[str(name)] = value
        if len(fields) > _MOST_FIELDS:
            reason = (
                f"has {len(fields):,} fields, more than {_MOST_FIELDS:,}: put them on several vertices of a subsystem."
            )
            self._problems.add((*where, "metadata"), reason)
        return self._shapes.feature(subsystem, fields)


def read_id(value: Any) -> str | None:
    """An id as text; None where it is none."""
    if type(value) is str:
        return value if 0 < len(value) <= _LONGEST_ID and value.isprintable() else None
    return str(value) if type(value) is int else None


def _is_name(value: Any, *, is_node: bool) -> bool:
    """Whether a value may be the name of a vertex; a node is told from others by it, so that it is not empty."""
    return type(value) is str and len(value) <= _LONGEST_ID and value.isprintable() and (value != "" or not is_node)


def _is_value(value: Any) -> bool:
    """Whether a value is one that requirements can be compared with."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_VALUE
    return isinstance(value, int | float) and value == value  # not NaN


def _path_of(vertex: Mapping[str, Any]) -> str | None:
    """The path of a vertex in the main graph, where it says it."""
    metadata = vertex.get("metadata")
    paths = metadata.get("paths") if isinstance(metadata, Mapping) else None
    path = paths.get(CONTAINMENT) if isinstance(paths, Mapping) else None
    return path if isinstance(path, str) else None
