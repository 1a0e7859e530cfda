"""Links of subsystems: every vertex of one leads to the main graph, and none is inside itself."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from admin.core.graph.described_edges import Edge, directed_pairs
from admin.core.graph.description_problems import DescriptionProblems
from admin.core.problems import Path, list_first, shorten

#: Vertices that a reason names.
_MOST_NAMED = 5


def check_cycles(vertices: Container[str], edges: Collection[Edge], where: Path, problems: DescriptionProblems) -> None:
    """Add the vertices of one subsystem that are inside themselves to the problems of its graph, which is at a path."""
    inside: dict[str, set[str]] = {}
    for outer, inner in directed_pairs(edges):
        if outer in vertices and inner in vertices:
            inside.setdefault(outer, set()).add(inner)
    cycle = _in_cycles(inside)
    if cycle:
        reason = f"vertices {_listed(cycle)} are inside themselves, by way of each other: remove an edge of the cycle."
        problems.add((*where, "edges"), reason)


def check_links(
    vertices: Collection[str], edges: Collection[Edge], main: Container[str], where: Path, problems: DescriptionProblems
) -> None:
    """Add the vertices of subsystems that no edge joins to the main graph to the problems of their graph."""
    unlinked = _unlinked(vertices, edges, main)
    joined = {id_ for edge in edges for id_ in (edge.source, edge.target)}
    # One vertex without any edge may be the root of a subsystem whose other vertices are linked.
    is_root = len(unlinked) == 1 < len(vertices) and unlinked[0] not in joined
    if unlinked and not is_root:
        has = "vertex {} has" if len(unlinked) == 1 else "vertices {} have"
        reason = f"{has.format(_listed(unlinked))} no link to the main graph: add an edge to a vertex of it, or remove"
        problems.add((*where, "nodes"), f"{reason} {'it' if len(unlinked) == 1 else 'them'}.")


def _unlinked(vertices: Collection[str], edges: Iterable[Edge], main: Container[str]) -> list[str]:
    """The vertices from which no way leads to the main graph, in whichever direction its edges point."""
    neighbours: dict[str, list[str]] = {}
    waiting: list[str] = []
    for source, target, _, _ in edges:
        for id_, other in ((source, target), (target, source)):
            if id_ in vertices:
                if other in main:
                    waiting.append(id_)
                else:
                    neighbours.setdefault(id_, []).append(other)
    linked = set(waiting)
    while waiting:
        reached = [other for other in neighbours.get(waiting.pop(), ()) if other not in linked]
        linked.update(reached)
        waiting += reached
    return [id_ for id_ in vertices if id_ not in linked]


def _in_cycles(inside: dict[str, set[str]]) -> list[str]:
    """The vertices that are in a cycle, or between two of them."""
    left = {outer: set(inner) for outer, inner in inside.items()}
    for _ in range(2):  # from the innermost outwards, then the other way round
        around: dict[str, set[str]] = {}
        for outer, inner in left.items():
            for id_ in inner:
                around.setdefault(id_, set()).add(outer)
        waiting = [id_ for id_ in around if id_ not in left]
        while waiting:
            id_ = waiting.pop()
            for outer in around.pop(id_, ()):
                left[outer].discard(id_)
                if not left[outer]:
                    del left[outer]
                    waiting.append(outer)
        left = around
    return sorted(left)


def _listed(ids: Iterable[str]) -> str:
    return list_first([f"'{shorten(id_)}'" for id_ in ids], _MOST_NAMED)
