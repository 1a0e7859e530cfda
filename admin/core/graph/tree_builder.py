"""Building the graph of a description: its vertices put into each other, as the shape of their root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.graph.described_vertices import DescribedVertex
from admin.core.graph.description_problems import DescriptionProblems, Stop
from admin.core.graph.graphs import ClusterGraph, Ids
from admin.core.graph.requirements import Feature
from admin.core.graph.shapes import Shape, Shapes, runs_of
from admin.core.graph.units import CLUSTER, NODE, meant_type
from admin.core.problems import list_first, shorten

MOST_LEVELS = 64


class TreeBuilder:
    """Builds the graph of a description whose vertices and edges were read."""

    def __init__(self, shapes: Shapes, problems: DescriptionProblems) -> None:
        self._shapes = shapes
        self._problems = problems

    def build(
        self,
        vertices: Mapping[str, DescribedVertex],
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
        leaves: dict[tuple[str, int, tuple[Feature, ...]], Shape] = {}
        for id_ in reversed(order):
            vertex, inner = vertices[id_], children.get(id_)
            features = _features(vertex, links[id_]) if id_ in links else (vertex.fields,)
            if inner is None:
                key = (vertex.type, vertex.amount, features)
                shape = leaves.get(key)
                if shape is None:
                    shape = leaves[key] = self._shapes.shape(*key)
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
            for type_ in (NODE, CLUSTER) if vertex.type == NODE else ():
                if type_ in shapes[id_].holds:
                    reason = f"is a node inside which there is a {type_}: remove one of them."
                    self._problems.add(("graph", "nodes", id_), reason)
        self._check_types(vertices, shapes[root])
        self._problems.stop_if_any()
        order, nodes = _preorder(root, children), set(names.values())
        by_id = {id_: position for position, id_ in enumerate(order) if id_ in children or id_ in nodes}
        positions = {id_: position for id_, position in by_id.items() if id_ in children}
        for name, id_ in names.items():
            if name not in vertices:
                positions[name] = by_id[id_]
        return ClusterGraph(shapes[root], Ids(order), positions, self._shapes)

    def _check_types(self, vertices: Mapping[str, DescribedVertex], root: Shape) -> None:
        """Refuse other words for what jobs ask for: no job would ever find it."""
        meant = {type_: meant_type(type_) for type_ in (root.type, *root.holds)}
        if not any(meant.values()):
            return
        for id_, vertex in vertices.items():
            if known := meant[vertex.type]:
                reason = f"unknown type '{shorten(vertex.type)}': give {known}, which is what jobs ask for."
                self._problems.add(("graph", "nodes", id_, "metadata", "type"), reason)

    def _root(self, vertices: Mapping[str, DescribedVertex], parents: Mapping[str, str]) -> str:
        """The vertex that is inside no other."""
        roots = [id_ for id_ in vertices if id_ not in parents]
        if not roots:
            reason = "has no root: every vertex is inside another, so that some are inside themselves; remove an edge."
            self._problems.add(("graph", "nodes"), reason)
        elif len(roots) > 1:
            listed = list_first([f"'{shorten(id_)}'" for id_ in roots], 5)
            reason = f"vertices {listed} are inside no other: there must be one root, that holds all others."
            self._problems.add(("graph", "nodes"), reason)
        self._problems.stop_if_any()
        return roots[0]

    def _ordered(
        self, root: str, children: Mapping[str, list[str]], vertices: Mapping[str, DescribedVertex]
    ) -> list[str]:
        """Every vertex after the one around it; a problem where some are never reached, or the tree is too deep."""
        order = [root]
        level, levels = [root], 0
        while level:
            levels += 1
            if levels > MOST_LEVELS:
                reason = f"vertex '{shorten(level[0])}' is deeper than {MOST_LEVELS} levels: leave levels out."
                self._problems.add(("graph", "nodes"), reason)
                raise Stop
            level = [child for id_ in level for child in children.get(id_, ())]
            order += level
        if len(order) < len(vertices):
            reached = set(order)
            inside = next(id_ for id_ in vertices if id_ not in reached)
            reason = f"vertex '{shorten(inside)}' is inside itself, by way of others: remove an edge of the cycle."
            self._problems.add(("graph", "edges"), reason)
            raise Stop
        return order


def _features(vertex: DescribedVertex, linked: set[Feature]) -> tuple[Feature, ...]:
    return tuple(
        sorted((vertex.fields, *linked), key=lambda feature: (feature.subsystem, repr(sorted(feature.fields.items()))))
    )


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
        if inner is None:
            continue
        if children.keys().isdisjoint(inner):
            order += inner
        else:
            waiting.extend(reversed(inner))
    return order
