"""Edges of descriptions: which vertex is inside which, in either of the shapes in which edges are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from admin.core.graph.described_documents import OF_EDGE
from admin.core.graph.described_vertices import DescribedVertex, read_id
from admin.core.graph.description_problems import DescriptionProblems
from admin.core.graph.requirements import CONTAINMENT, MAIN_NAMES
from admin.core.problems import Path, quoted, shorten

_CONTAINS, _IN = "contains", "in"
#: Of an edge that has none: what Flux's scheduler writes for contains, and has written for both directions.
_UNSAID = ""


class Edge(NamedTuple):
    """What an edge says of one subsystem."""

    source: str
    target: str
    relation: str
    subsystem: str


class EdgeReader:
    """Reads the edges of all graphs of a description."""

    def __init__(self, problems: DescriptionProblems) -> None:
        self._problems = problems

    def parents(
        self, vertices: Mapping[str, DescribedVertex], edges: list[Any], paths: Mapping[str, str]
    ) -> tuple[dict[str, str], list[Edge]]:
        """The vertex around each vertex, and the edges that are not of the main graph."""
        parents: dict[str, str] = {}
        inline: list[Edge] = []
        unsaid: list[tuple[int, str, str]] = []
        for number, edge in enumerate(edges):
            if (
                type(edge) is dict and edge.keys() <= OF_EDGE
            ):  # most say this and no more: to look at millions of them takes seconds
                get: Callable[[str], Any] = edge.get
                outer, inner, word = get("source"), get("target"), get("relation")
                if word == _IN:
                    outer, inner, word = inner, outer, _CONTAINS
                is_plain = word == _CONTAINS and isinstance(outer, str) and isinstance(inner, str)
                if is_plain and outer in vertices and inner in vertices:
                    if parents.setdefault(inner, outer) != outer or inner == outer:
                        self._set_parent(parents, inner, outer, number)
                    continue
            for source, target, relation, subsystem in self.relations(edge, number, ("graph", "edges"), CONTAINMENT):
                if source not in vertices or target not in vertices:
                    missing = source if source not in vertices else target
                    self._problems.add(("graph", "edges", str(number)), dangling(source, target, missing))
                elif subsystem != CONTAINMENT:
                    inline.append(Edge(source, target, relation, subsystem))
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

    def relations(self, edge: Any, number: int, where: Path, subsystem: str) -> Iterator[Edge]:
        """What an edge says, once for each subsystem that it names."""
        where = (*where, str(number))
        if not isinstance(edge, Mapping):
            self._problems.add(where, f"{quoted(edge)} is not a mapping: give source and target.")
            return
        self._problems.add_unknown(where, edge, OF_EDGE)
        source, target = read_id(edge.get("source")), read_id(edge.get("target"))
        if source is None or target is None:
            name = "source" if source is None else "target"
            reason = f"{quoted(edge.get(name))} is not an id" if name in edge else "is missing"
            self._problems.add((*where, name), f"{reason}: give the id of a vertex.")
            return
        relation = edge.get("relation")
        if isinstance(relation, str):
            yield Edge(source, target, relation, subsystem)
            return
        metadata = edge.get("metadata")
        if "relation" not in edge and (metadata is None or metadata == {}):
            yield Edge(source, target, _UNSAID, subsystem)
            return
        named = self._named_relations(metadata) if relation is None and isinstance(metadata, Mapping) else {}
        if not named:
            reason = "is missing" if relation is None else f"{quoted(relation)} is not text"
            self._problems.add((*where, "relation"), f"{reason}: give contains or in, or metadata with a subsystem.")
        for name, word in named.items():
            is_main = subsystem == CONTAINMENT or name in MAIN_NAMES
            yield Edge(source, target, word, (CONTAINMENT if name in MAIN_NAMES else name) if is_main else subsystem)

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


def directed_pairs(edges: Collection[Edge]) -> Iterator[tuple[str, str]]:
    """The outer and the inner vertex of each edge that says which is which."""
    unsaid = {(edge.source, edge.target) for edge in edges if edge.relation == _UNSAID}
    for source, target, relation, _ in edges:
        if relation == _CONTAINS or (relation == _UNSAID and (source == target or (target, source) not in unsaid)):
            yield source, target
        elif relation == _IN:
            yield target, source


def dangling(source: str, target: str, missing: str) -> str:
    edge = f"edge {shorten(source)} → {shorten(target)}"
    return f"{edge}: no vertex has the id '{shorten(missing)}': add it, or remove the edge."
