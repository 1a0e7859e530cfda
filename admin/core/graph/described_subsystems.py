"""Subsystems of descriptions: their vertices, linked to those of the main graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from admin.core.graph.described_edges import Edge, EdgeReader, dangling
from admin.core.graph.described_vertices import DescribedVertex, VertexReader
from admin.core.graph.description_problems import DescriptionProblems
from admin.core.graph.requirements import MAIN_NAMES, Feature
from admin.core.graph.subsystem_links import check_cycles, check_links
from admin.core.graph.units import TYPE
from admin.core.problems import Path, quoted, shorten

#: What the subsystem vertices that are linked to each vertex of the main graph say, by its id.
Links = dict[str, set[Feature]]


class SubsystemReader:
    """Links the vertices of subsystems, which stand in graphs of their own or among those of the main graph."""

    def __init__(self, problems: DescriptionProblems, vertices: VertexReader, edges: EdgeReader) -> None:
        self._problems = problems
        self._vertices = vertices
        self._edges = edges

    def link_inline(
        self,
        vertices: dict[str, DescribedVertex],
        edges: list[Edge],
        parents: Mapping[str, str],
        paths: Collection[str],
        links: Links,
    ) -> Mapping[str, int]:
        """Take the vertices of subsystems out of the main graph that brought them along, and link them.

        Returns how many each subsystem has. Vertices with a path in the main graph belong to it, though no edge may say
        so of one that holds nothing.
        """
        if not edges:
            return {}
        of_main = {*parents, *parents.values(), *paths}
        moved = {id_: edge.subsystem for edge in edges for id_ in (edge.source, edge.target) if id_ not in of_main}
        features = {
            id_: self._vertices.feature(vertices.pop(id_).metadata, ("graph", "nodes", id_), subsystem)
            for id_, subsystem in moved.items()
        }
        for subsystem in dict.fromkeys(moved.values()):
            own_edges = [edge for edge in edges if edge.subsystem == subsystem]
            check_cycles(moved, own_edges, ("graph",), self._problems)
        check_links(moved, edges, vertices, ("graph",), self._problems)
        for edge in edges:
            for main, other in ((edge.source, edge.target), (edge.target, edge.source)):
                if main in vertices and other in features:
                    links.setdefault(main, set()).add(features[other])
        return Counter(moved.values())

    def link(self, name: Any, document: Any, main: Mapping[str, DescribedVertex], links: Links) -> None:
        """Link the vertices of a subsystem to the vertices of the main graph that its edges name."""
        where: Path = ("subsystems", str(name))
        if not isinstance(name, str) or not TYPE.fullmatch(name) or name in MAIN_NAMES:
            is_main = name in MAIN_NAMES
            reason = "is the main graph" if is_main else f"{quoted(name)} is not a name"
            self._problems.add(where, f"{reason}: name the subsystem with a word of its own, such as io.")
            return
        vertices, _, _, edges = self._vertices.read(document, where, name)
        for id_ in vertices:
            if id_ in main:
                reason = "is an id of the main graph too: every vertex has an id of its own."
                self._problems.add((*where, "graph", "nodes", id_), reason)
        read: list[Edge] = []
        before = len(self._problems.all)
        for number, edge in enumerate(edges):
            for relation in self._edges.relations(edge, number, (*where, "graph", "edges"), name):
                source, target = relation.source, relation.target
                missing = next((id_ for id_ in (source, target) if id_ not in vertices and id_ not in main), None)
                if missing is not None:
                    self._problems.add((*where, "graph", "edges", str(number)), dangling(source, target, missing))
                    continue
                if source in main and target in main:
                    reason = (
                        f"edge {shorten(source)} → {shorten(target)} joins two vertices of the main graph: remove it."
                    )
                    self._problems.add((*where, "graph", "edges", str(number)), reason)
                    continue
                read.append(relation)
                for inner, other in ((source, target), (target, source)):
                    if inner in main and other in vertices:
                        links.setdefault(inner, set()).add(vertices[other].fields)
        if len(self._problems.all) == before:  # a link that is missing because an edge is wrong is not named again
            check_cycles(vertices, read, (*where, "graph"), self._problems)
            check_links(vertices, read, main, (*where, "graph"), self._problems)
