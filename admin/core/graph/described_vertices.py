"""Vertices of descriptions: their ids, types, amounts and what requirements may ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from admin.core.graph.description_problems import DescriptionProblems, Stop
from admin.core.graph.requirements import CONTAINMENT, IDENTITY, Feature, Value
from admin.core.graph.shapes import Shapes
from admin.core.graph.units import BYTE_UNITS, CORE, COUNTED, MEASURED, NODE, THOUSANDTH, TYPE, amount_of, byte_suffix
from admin.core.problems import Path, quoted, shorten
from admin.core.resources import LARGEST

_LONGEST_ID, _LONGEST_VALUE, _MOST_FIELDS = 255, 1024, 1000
#: What JSON Graph Format has of a vertex.
_OF_VERTEX = frozenset(("id", "type", "label", "metadata"))
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
        where, nodes, edges = self._find(document, where)
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

    def _find(self, document: Any, where: Path) -> tuple[Path, Mapping[Any, Any] | list[Any], list[Any]]:
        """Where the graph of a document stands, by itself or in a resource set of Flux; its vertices and its edges."""
        if (
            isinstance(document, Mapping)
            and "graph" not in document
            and isinstance(document.get("scheduling"), Mapping)
        ):
            document, where = document["scheduling"], (*where, "scheduling")
        graph = document.get("graph") if isinstance(document, Mapping) else None
        where = (*where, "graph")
        if graph is None and isinstance(document, Mapping) and "execution" in document:
            reason = "is missing: a resource set of Flux has a graph only where its scheduler, Fluxion, has added one."
            self._problems.add((*where[:-1], "scheduling"), reason)
            raise Stop
        if not isinstance(graph, Mapping):
            has_graph = isinstance(document, Mapping) and "graph" in document
            reason = f"{quoted(graph)} is not a mapping" if has_graph else "is missing"
            self._problems.add(where, f"{reason}: give a graph in JSON Graph Format, with nodes and edges.")
            raise Stop
        nodes, edges = graph.get("nodes"), graph.get("edges", [])
        if not isinstance(nodes, Mapping | list):
            reason = "is missing" if nodes is None else f"{quoted(nodes)} is neither a mapping nor a list"
            self._problems.add((*where, "nodes"), f"{reason}: give the vertices by id, or a list of them.")
            raise Stop
        if not isinstance(edges, list):
            self._problems.add((*where, "edges"), f"{quoted(edges)} is not a list: give the edges.")
            raise Stop
        if not nodes:
            self._problems.add((*where, "nodes"), "is empty: give at least the vertex that holds all others.")
            raise Stop
        return where, nodes, edges

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
            yield id_, vertex

    def _read_vertex(
        self, id_: str, vertex: Mapping[str, Any], where: Path, subsystem: str, names: dict[str, str]
    ) -> DescribedVertex:
        if not vertex.keys() <= _OF_VERTEX:
            for name in ("size", "unit"):
                if name in vertex:
                    self._problems.add((*where, id_, name), "is outside the metadata of the vertex: move it there.")
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
        if type_ == NODE and isinstance(metadata.get("name"), str):
            name = metadata["name"]
            if name in names:
                self.repeated_names[name] = self.repeated_names.get(name, 1) + 1
            names[name] = id_
        fields = self._main_feature(metadata, (*where, id_), type_, size)
        return DescribedVertex(str(type_), amount, size if type(size) is int else 1, fields, metadata)

    def _main_feature(self, metadata: Mapping[Any, Any], where: Path, type_: Any, size: Any) -> Feature:
        """What requirements may ask of a vertex of the main graph."""
        if not metadata.keys() <= _PLAIN or not isinstance(type_, str) or type(size) is not int:
            return self.feature(metadata, where, CONTAINMENT, IDENTITY)
        plain = self._plain.get((type_, size))
        if plain is None:
            plain = self._plain[type_, size] = self._shapes.feature(CONTAINMENT, {"type": type_, "size": size})
        return plain

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
