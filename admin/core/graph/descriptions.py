"""Descriptions: the JSON documents that say what a cluster has, read into its graph.

A description is a graph in JSON Graph Format, in either of two shapes: vertices by id and edges with a `relation`, or a
list of vertices and edges whose metadata name their subsystem, as Flux's scheduler writes it, by itself or in a
resource set. Subsystems are graphs of the same format whose vertices are linked to vertices of the main graph. Nothing
is made of a description in which anything is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from admin.core.graph.graphs import ClusterGraph, Ids
from admin.core.graph.requirements import CONTAINMENT, MAIN_NAMES, Feature, Value
from admin.core.graph.shapes import Shape, Shapes, runs_of
from admin.core.graph.units import BYTE_UNITS, MEASURED, NODE, TYPE, amount_of
from admin.core.problems import Path, Problem, dotted, list_first, quoted, raise_problems, shorten
from admin.core.resources import LARGEST

MOST_VERTICES = 500_000
MOST_LEVELS = 64
#: Problems that are reported; a large document that is wrong throughout would have a million.
MOST_PROBLEMS = 20

_LONGEST_ID, _LONGEST_VALUE, _MOST_FIELDS = 255, 1024, 100
#: What a vertex of the main graph says of its place and identity, which is nothing to ask for.
_IDENTITY = frozenset(
    ("type", "size", "unit", "id", "uniq_id", "name", "basename", "rank", "exclusive", "paths", "status", "ephemeral")
)
_CONTAINS, _IN = "contains", "in"
#: Of an edge that has none: what Flux's scheduler writes for contains, and has written for both directions.
_UNSAID = ""


class _Stop(Exception):
    """Enough problems were found."""


class _Problems:
    """The problems of a description, up to the most that are reported."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Problem] = []

    def add(self, where: Iterable[str], reason: str) -> None:
        self.all.append(Problem(field=dotted((*self.path, *map(shorten, where))), reason=reason))
        if len(self.all) >= MOST_PROBLEMS:
            raise _Stop


class _Vertex(NamedTuple):
    """A vertex as its document says, without its edges."""

    type: str
    amount: int
    size: int
    fields: Feature | None


class _Edge(NamedTuple):
    source: str
    target: str
    relation: str
    subsystem: str


def read_description(
    document: Any,
    subsystems: Mapping[str, Any] | None = None,
    *,
    path: Path = ("description",),
    most_vertices: int = MOST_VERTICES,
    shapes: Shapes | None = None,
) -> ClusterGraph:
    """The graph that a description and the subsystems by name describe; Invalid with every problem.

    Graphs that are read with the same shapes share those that are equal.
    """
    problems = _Problems(path)
    reader = _Reader(shapes or Shapes(), problems, most_vertices)
    try:
        return reader.read(document, subsystems or {})
    except _Stop:
        raise_problems(problems.all)
        raise AssertionError from None  # problems stop the reading, and there is one


class _Reader:
    def __init__(self, shapes: Shapes, problems: _Problems, most_vertices: int) -> None:
        self._shapes = shapes
        self._problems = problems
        self._most = most_vertices
        self._amounts: dict[tuple[str, int, str], int] = {}  #: those that were checked
        self._read = 0  #: vertices so far
        self._paths: dict[str, str] = {}  #: of vertices in a list, by id

    def read(self, document: Any, subsystems: Mapping[str, Any]) -> ClusterGraph:
        vertices, names, edges = self._read_graph(document, (), CONTAINMENT)
        links: dict[str, set[Feature]] = {}
        parents, inline = self._read_edges(vertices, edges, self._paths)
        self._stop_if_wrong()
        self._link_inline(vertices, inline, parents, links)
        for name, subsystem in subsystems.items():
            self._read_subsystem(name, subsystem, vertices, links)
        self._stop_if_wrong()
        return self._build(vertices, names, parents, links)

    def _stop_if_wrong(self) -> None:
        if self._problems.all:
            raise _Stop

    def _read_graph(
        self, document: Any, where: Path, subsystem: str
    ) -> tuple[dict[str, _Vertex], dict[str, str], list[Any]]:
        """The vertices of a document by id, the names of its nodes, and its edges."""
        if (
            isinstance(document, Mapping)
            and "graph" not in document
            and isinstance(document.get("scheduling"), Mapping)
        ):
            document = document["scheduling"]  # a resource set of Flux
            where = (*where, "scheduling")
        graph = document.get("graph") if isinstance(document, Mapping) else None
        if not isinstance(graph, Mapping):
            has_graph = isinstance(document, Mapping) and "graph" in document
            reason = f"{quoted(graph)} is not a mapping" if has_graph else "is missing"
            self._problems.add((*where, "graph"), f"{reason}: give a graph in JSON Graph Format, with nodes and edges.")
            raise _Stop
        where = (*where, "graph")
        nodes, edges = graph.get("nodes"), graph.get("edges", [])
        if not isinstance(nodes, Mapping | list):
            reason = "is missing" if nodes is None else f"{quoted(nodes)} is neither a mapping nor a list"
            self._problems.add((*where, "nodes"), f"{reason}: give the vertices by id, or a list of them.")
            raise _Stop
        if not isinstance(edges, list):
            self._problems.add((*where, "edges"), f"{quoted(edges)} is not a list: give the edges.")
            raise _Stop
        if not nodes:
            self._problems.add((*where, "nodes"), "is empty: give at least the vertex that holds all others.")
            raise _Stop
        self._read += len(nodes)
        if self._read > self._most:
            reason = (
                f"{self._read:,} vertices are more than {self._most:,}: describe equal units as one vertex with a size."
            )
            self._problems.add((*where, "nodes"), reason)
            raise _Stop
        vertices: dict[str, _Vertex] = {}
        names: dict[str, str] = {}
        is_list = isinstance(nodes, list) and subsystem == CONTAINMENT
        for id_, vertex in self._listed(nodes, (*where, "nodes")):
            if id_ in vertices:
                self._problems.add((*where, "nodes", id_), "is given twice: every vertex has an id of its own.")
            else:
                vertices[id_] = self._read_vertex(id_, vertex, (*where, "nodes"), subsystem, names)
                if is_list:
                    self._note_path(id_, vertex)
        return vertices, names, edges

    def _note_path(self, id_: str, vertex: Mapping[str, Any]) -> None:
        metadata = vertex.get("metadata")
        paths = metadata.get("paths") if isinstance(metadata, Mapping) else None
        path = paths.get(CONTAINMENT) if isinstance(paths, Mapping) else None
        if isinstance(path, str):
            self._paths[id_] = path

    def _listed(self, nodes: Mapping[Any, Any] | list[Any], where: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The vertices of either shape with their ids."""
        entries = nodes.items() if isinstance(nodes, Mapping) else enumerate(nodes)
        is_list = isinstance(nodes, list)
        for key, vertex in entries:
            if not isinstance(vertex, Mapping):
                self._problems.add((*where, str(key)), f"{quoted(vertex)} is not a mapping: give its metadata.")
                continue
            id_ = _id(vertex.get("id") if is_list else key)
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
    ) -> _Vertex:
        metadata = vertex.get("metadata", {})
        if not isinstance(metadata, Mapping):
            self._problems.add((*where, id_, "metadata"), f"{quoted(metadata)} is not a mapping.")
            metadata = {}
        type_, size, unit = metadata.get("type"), metadata.get("size", 1), metadata.get("unit", "")
        try:
            amount = self._amounts[type_, size, unit] if type(size) is int else None
        except (KeyError, TypeError):
            amount = None
        if amount is None:
            amount = self._checked_amount(type_, size, unit, (*where, id_, "metadata"), subsystem)
        if subsystem != CONTAINMENT:
            return _Vertex(str(type_), amount, 1, self._feature(metadata, subsystem))
        if type_ == NODE and isinstance(metadata.get("name"), str):
            names[metadata["name"]] = id_
        fields = None if metadata.keys() <= _IDENTITY else self._feature(metadata, subsystem, _IDENTITY)
        return _Vertex(str(type_), amount, size if type(size) is int else 1, fields)

    def _checked_amount(self, type_: Any, size: Any, unit: Any, where: Path, subsystem: str) -> int:
        """The amount that a vertex has; 0 where something is wrong, which is then a problem."""
        before = len(self._problems.all)
        if not isinstance(type_, str) or not TYPE.fullmatch(type_):
            reason = "is missing" if type_ is None else f"{quoted(type_)} is not a type"
            remedy = "give a word of letters, digits, '_', '.' and '-' that begins with a letter, such as core"
            self._problems.add((*where, "type"), f"{reason}: {remedy}.")
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
        elif type_ in MEASURED and subsystem == CONTAINMENT and unit not in BYTE_UNITS:
            reason = f"unknown unit '{shorten(unit)}' of {type_}" if unit else "is missing"
            self._problems.add((*where, "unit"), f"{reason}: give one of {', '.join(BYTE_UNITS)}.")
        if len(self._problems.all) > before:
            return 0
        amount = self._amounts[type_, size, unit] = amount_of(type_, size, unit)
        return amount

    def _feature(self, metadata: Mapping[Any, Any], subsystem: str, without: frozenset[str] = frozenset()) -> Feature:
        """The fields that requirements may ask for: texts, numbers and truth values, also those of nested mappings."""
        fields: dict[str, Value] = {}
        for name, value in metadata.items():
            if name in without:
                continue
            nested = value.items() if isinstance(value, Mapping) else ()
            for key, item in ((f"{name}.{inner}", inner_value) for inner, inner_value in nested):
                if _is_value(item):
                    fields[key] = item
            if _is_value(value):
                fields[str(name)] = value
        return self._shapes.feature(subsystem, dict(list(fields.items())[:_MOST_FIELDS]))

    def _read_edges(
        self, vertices: Mapping[str, _Vertex], edges: list[Any], paths: Mapping[str, str]
    ) -> tuple[dict[str, str], list[_Edge]]:
        """The vertex around each vertex, and the edges that are not of the main graph."""
        parents: dict[str, str] = {}
        inline: list[_Edge] = []
        unsaid: list[tuple[int, str, str]] = []
        for number, edge in enumerate(edges):
            for source, target, relation, subsystem in self._relations(edge, number, ("graph", "edges"), CONTAINMENT):
                if source not in vertices or target not in vertices:
                    missing = source if source not in vertices else target
                    self._problems.add(("graph", "edges", str(number)), _dangling(source, target, missing))
                elif subsystem != CONTAINMENT:
                    inline.append(_Edge(source, target, relation, subsystem))
                elif relation == _UNSAID:
                    unsaid.append((number, source, target))
                elif relation == _CONTAINS:
                    self._set_parent(parents, target, source, number)
                elif relation == _IN:
                    self._set_parent(parents, source, target, number)
                else:
                    reason = f"unknown relation '{shorten(relation)}': give contains or in."
                    self._problems.add(("graph", "edges", str(number), "relation"), reason)
        for number, source, target in self._directed(unsaid, paths):
            self._set_parent(parents, target, source, number)
        return parents, inline

    @staticmethod
    def _directed(edges: list[tuple[int, str, str]], paths: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
        """Edges that do not say which end is inside the other: the target, or where both directions stand, by path."""
        pairs = {(source, target) for _, source, target in edges}
        for number, source, target in edges:
            is_both = (target, source) in pairs and source in paths and target in paths
            if not is_both or paths[target].startswith(f"{paths[source]}/"):
                yield number, source, target
            elif not paths[source].startswith(f"{paths[target]}/"):
                yield number, source, target  # neither is inside the other: the problem is then named

    def _set_parent(self, parents: dict[str, str], child: str, parent: str, number: int) -> None:
        known = parents.setdefault(child, parent)
        if known != parent:
            reason = (
                f"vertex '{shorten(child)}' is inside '{shorten(known)}' and '{shorten(parent)}': keep one of them."
            )
            self._problems.add(("graph", "edges", str(number)), reason)
        elif child == parent:
            self._problems.add(("graph", "edges", str(number)), f"vertex '{shorten(child)}' is inside itself.")

    def _relations(self, edge: Any, number: int, where: Path, subsystem: str) -> Iterator[_Edge]:
        """What an edge says, once for each subsystem that it names."""
        where = (*where, str(number))
        if not isinstance(edge, Mapping):
            self._problems.add(where, f"{quoted(edge)} is not a mapping: give source and target.")
            return
        source, target = _id(edge.get("source")), _id(edge.get("target"))
        if source is None or target is None:
            name = "source" if source is None else "target"
            reason = f"{quoted(edge.get(name))} is not an id" if name in edge else "is missing"
            self._problems.add((*where, name), f"{reason}: give the id of a vertex.")
            return
        relation = edge.get("relation")
        if isinstance(relation, str):
            yield _Edge(source, target, relation, subsystem)
            return
        metadata = edge.get("metadata")
        if "relation" not in edge and (metadata is None or metadata == {}):
            yield _Edge(source, target, _UNSAID, subsystem)
            return
        named = self._named_relations(metadata) if relation is None and isinstance(metadata, Mapping) else {}
        if not named:
            reason = "is missing" if relation is None else f"{quoted(relation)} is not text"
            self._problems.add((*where, "relation"), f"{reason}: give contains or in, or metadata with a subsystem.")
        for name, word in named.items():
            is_main = subsystem == CONTAINMENT or name in MAIN_NAMES
            yield _Edge(source, target, word, (CONTAINMENT if name in MAIN_NAMES else name) if is_main else subsystem)

    @staticmethod
    def _named_relations(metadata: Mapping[Any, Any]) -> dict[str, str]:
        """The relations of an edge by subsystem, in the metadata that Flux's scheduler writes now and wrote before."""
        named, subsystem = metadata.get("name"), metadata.get("subsystem")
        if isinstance(named, Mapping):
            return {str(name): word for name, word in named.items() if isinstance(word, str)}
        if isinstance(subsystem, str):
            word = metadata.get("relationship", _UNSAID)
            return {subsystem: word} if isinstance(word, str) else {}
        return {}

    def _link_inline(
        self,
        vertices: dict[str, _Vertex],
        edges: list[_Edge],
        parents: Mapping[str, str],
        links: dict[str, set[Feature]],
    ) -> None:
        """Take the vertices of subsystems out of the main graph that brought them along, and link them."""
        holders = set(parents.values())
        moved = {
            id_: edge.subsystem
            for edge in edges
            for id_ in (edge.source, edge.target)
            if id_ not in parents and id_ not in holders
        }
        features = {}
        for id_, subsystem in moved.items():
            fields = vertices.pop(id_).fields
            features[id_] = self._shapes.feature(subsystem, fields.fields if fields else {})
        for edge in edges:
            for main, other in ((edge.source, edge.target), (edge.target, edge.source)):
                if main in vertices and other in features:
                    links.setdefault(main, set()).add(features[other])

    def _read_subsystem(
        self, name: Any, document: Any, main: Mapping[str, _Vertex], links: dict[str, set[Feature]]
    ) -> None:
        """Link the vertices of a subsystem to the vertices of the main graph that its edges name."""
        where: Path = ("subsystems", str(name))
        if not isinstance(name, str) or not TYPE.fullmatch(name) or name in MAIN_NAMES:
            is_main = name in MAIN_NAMES
            reason = "is the main graph" if is_main else f"{quoted(name)} is not a name"
            self._problems.add(where, f"{reason}: name the subsystem with a word of its own, such as io.")
            return
        vertices, _, edges = self._read_graph(document, where, name)
        for id_ in vertices:
            if id_ in main:
                reason = "is an id of the main graph too: every vertex has an id of its own."
                self._problems.add((*where, "graph", "nodes", id_), reason)
        linked = set()
        for number, edge in enumerate(edges):
            for source, target, _, _ in self._relations(edge, number, (*where, "graph", "edges"), name):
                missing = next((id_ for id_ in (source, target) if id_ not in vertices and id_ not in main), None)
                if missing is not None:
                    self._problems.add((*where, "graph", "edges", str(number)), _dangling(source, target, missing))
                    continue
                if source in main and target in main:
                    reason = (
                        f"edge {shorten(source)} → {shorten(target)} joins two vertices of the main graph: remove it."
                    )
                    self._problems.add((*where, "graph", "edges", str(number)), reason)
                    continue
                linked |= {source, target}
                for inner, other in ((source, target), (target, source)):
                    if inner in main and (feature := vertices[other].fields) is not None:
                        links.setdefault(inner, set()).add(feature)
        alone = [id_ for id_ in vertices if id_ not in linked]
        if len(alone) > 1:  # one may be the subsystem's root, which need not be linked to anything
            reason = f"vertices {list_first([shorten(id_) for id_ in alone], 5)} have no edge: link each, or remove it."
            self._problems.add((*where, "graph", "nodes"), reason)

    def _build(
        self,
        vertices: Mapping[str, _Vertex],
        names: Mapping[str, str],
        parents: Mapping[str, str],
        links: Mapping[str, set[Feature]],
    ) -> ClusterGraph:
        root = self._root(vertices, parents)
        children: dict[str, list[str]] = {}
        for child, parent in parents.items():
            children.setdefault(parent, []).append(child)
        order = self._ordered(root, children, vertices)
        shapes: dict[str, Shape] = {}
        plain: dict[tuple[str, int], Shape] = {}
        for id_ in reversed(order):
            vertex, inner = vertices[id_], children.get(id_)
            features = _features(vertex, links.get(id_))
            if inner is None:
                if features:
                    shapes[id_] = self._shapes.shape(vertex.type, vertex.amount, features)
                    continue
                shape = plain.get((vertex.type, vertex.amount))
                if shape is None:
                    shape = plain[vertex.type, vertex.amount] = self._shapes.shape(vertex.type, vertex.amount)
                shapes[id_] = shape
                continue
            if vertex.size != 1:
                reason = f"{vertex.size} is not the size of a vertex that holds others: list each of them by itself."
                self._problems.add(("graph", "nodes", id_, "metadata", "size"), reason)
            held = [shapes[child] for child in inner]
            if any(shape is not held[0] for shape in held):
                inner.sort(key=_by_shape(inner, shapes))
                held = [shapes[child] for child in inner]
            shapes[id_] = self._shapes.shape(vertex.type, vertex.amount, features, runs_of(held))
            if vertex.type == NODE and NODE in shapes[id_].holds:
                self._problems.add(
                    ("graph", "nodes", id_), "is a node inside which there is a node: remove one of them."
                )
        self._stop_if_wrong()
        order = _preorder(root, children)
        positions = {id_: position for position, id_ in enumerate(order) if id_ in children}
        by_id = {id_: position for position, id_ in enumerate(order) if id_ in children or vertices[id_].type == NODE}
        for name, id_ in names.items():
            if name not in vertices and id_ in by_id:
                positions[name] = by_id[id_]
        return ClusterGraph(shapes[root], Ids(order), positions, self._shapes)

    def _root(self, vertices: Mapping[str, _Vertex], parents: Mapping[str, str]) -> str:
        """The vertex that is inside no other."""
        roots = [id_ for id_ in vertices if id_ not in parents]
        if not roots:
            reason = "has no root: every vertex is inside another, so that some are inside themselves; remove an edge."
            self._problems.add(("graph", "nodes"), reason)
        elif len(roots) > 1:
            listed = list_first([f"'{shorten(id_)}'" for id_ in roots], 5)
            reason = f"vertices {listed} are inside no other: there must be one root, that holds all others."
            self._problems.add(("graph", "nodes"), reason)
        self._stop_if_wrong()
        return roots[0]

    def _ordered(self, root: str, children: Mapping[str, list[str]], vertices: Mapping[str, _Vertex]) -> list[str]:
        """Every vertex after the one around it; a problem where some are never reached, or the tree is too deep."""
        order = [root]
        level, levels = [root], 0
        while level:
            levels += 1
            if levels > MOST_LEVELS:
                reason = f"vertex '{shorten(level[0])}' is deeper than {MOST_LEVELS} levels: leave levels out."
                self._problems.add(("graph", "nodes"), reason)
                raise _Stop
            level = [child for id_ in level for child in children.get(id_, ())]
            order += level
        if len(order) < len(vertices):
            reached = set(order)
            inside = next(id_ for id_ in vertices if id_ not in reached)
            reason = f"vertex '{shorten(inside)}' is inside itself, by way of others: remove an edge of the cycle."
            self._problems.add(("graph", "edges"), reason)
            raise _Stop
        return order


def _dangling(source: str, target: str, missing: str) -> str:
    edge = f"edge {shorten(source)} → {shorten(target)}"
    return f"{edge}: no vertex has the id '{shorten(missing)}': add it, or remove the edge."


def _id(value: Any) -> str | None:
    """An id as text; None where it is none."""
    if type(value) is str:
        return value if 0 < len(value) <= _LONGEST_ID and value.isprintable() else None
    return str(value) if type(value) is int else None


def _is_value(value: Any) -> bool:
    """Whether a value is one that requirements can be compared with."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_VALUE
    return isinstance(value, int | float) and value == value  # not NaN


def _features(vertex: _Vertex, linked: set[Feature] | None) -> tuple[Feature, ...]:
    features = [*([vertex.fields] if vertex.fields is not None else ()), *(linked or ())]
    if len(features) < 2:
        return tuple(features)
    return tuple(sorted(features, key=lambda feature: (feature.subsystem, repr(sorted(feature.fields.items())))))


def _by_shape(ids: list[str], shapes: Mapping[str, Shape]) -> Any:
    """A sort key that puts equal children side by side: by type, then in the order of the document."""
    first: dict[Shape, int] = {}
    for number, id_ in enumerate(ids):
        first.setdefault(shapes[id_], number)
    return lambda id_: (shapes[id_].type, first[shapes[id_]])


def _preorder(root: str, children: Mapping[str, list[str]]) -> list[str]:
    order = []
    waiting = [root]
    while waiting:
        id_ = waiting.pop()
        order.append(id_)
        inner = children.get(id_)
        if inner:
            waiting.extend(reversed(inner))
    return order
