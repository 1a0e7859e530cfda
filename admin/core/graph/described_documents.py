"""Documents of descriptions: where their graphs stand, and the keys that each level of them may have.

JSON Graph Format fixes all keys but those of `metadata`, which may have any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from admin.core.graph.description_problems import DescriptionProblems, Stop
from admin.core.problems import Path, quoted

#: The graph of a description, by itself or within a resource set of Flux.
GRAPH_FIELDS = ("graph", "scheduling")
#: What files of either kind have beside it, which is kept and means nothing here.
KEPT_FIELDS = ("name", "version", "execution", "attributes", "writer")
#: All fields of a description; subsystems are given by name.
FIELDS = (*GRAPH_FIELDS, *KEPT_FIELDS, "subsystems")
_OF_SUBSYSTEM = (*GRAPH_FIELDS, *KEPT_FIELDS)
#: Of what a scheduler of Flux adds to a resource set.
_OF_SCHEDULING = ("graph", "writer")
_OF_GRAPH = frozenset(("nodes", "edges", "id", "label", "type", "directed", "metadata"))
OF_VERTEX = frozenset(("id", "label", "metadata"))
OF_EDGE = frozenset(("source", "target", "relation", "id", "label", "directed", "metadata"))


class FoundGraph(NamedTuple):
    """The graph of a document, its vertices and edges still to be read."""

    where: Path
    nodes: Mapping[Any, Any] | list[Any]
    edges: list[Any]


def find_graph(document: Any, where: Path, problems: DescriptionProblems) -> FoundGraph:
    """The graph of a document, which stands by itself or in a resource set of Flux."""
    if isinstance(document, Mapping):
        problems.add_unknown(where, document, _OF_SUBSYSTEM if where else FIELDS)
        if "graph" not in document and isinstance(document.get("scheduling"), Mapping):
            document, where = document["scheduling"], (*where, "scheduling")
            problems.add_unknown(where, document, _OF_SCHEDULING)
    graph = document.get("graph") if isinstance(document, Mapping) else None
    where = (*where, "graph")
    if graph is None and isinstance(document, Mapping) and "execution" in document:
        reason = "is missing: a resource set of Flux has a graph only where its scheduler, Fluxion, has added one."
        problems.add((*where[:-1], "scheduling"), reason)
        raise Stop
    if not isinstance(graph, Mapping):
        has_graph = isinstance(document, Mapping) and "graph" in document
        reason = f"{quoted(graph)} is not a mapping" if has_graph else "is missing"
        problems.add(where, f"{reason}: give a graph in JSON Graph Format, with nodes and edges.")
        raise Stop
    problems.add_unknown(where, graph, _OF_GRAPH)
    nodes, edges = graph.get("nodes"), graph.get("edges", [])
    if not isinstance(nodes, Mapping | list):
        reason = "is missing" if nodes is None else f"{quoted(nodes)} is neither a mapping nor a list"
        problems.add((*where, "nodes"), f"{reason}: give the vertices by id, or a list of them.")
        raise Stop
    if not isinstance(edges, list):
        problems.add((*where, "edges"), f"{quoted(edges)} is not a list: give the edges.")
        raise Stop
    if not nodes:
        problems.add((*where, "nodes"), "is empty: give at least the vertex that holds all others.")
        raise Stop
    return FoundGraph(where, nodes, edges)
