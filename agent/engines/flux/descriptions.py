"""The description of a Flux instance, from its resource set and, where Fluxion has one, its graph (JGF)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.engines.flux.resources import Node, read_nodes
from agent.engines.graphs import GraphBuilder

#: What holds others in a graph of Fluxion's; anything else is counted.
_HOLDERS = ("socket", "numanode", "numa")


def describe(
    cluster: str, resource_set: Mapping[str, Any], queues: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The graph of all nodes, with the queues as a subsystem; None where there are no nodes."""
    nodes = read_nodes(resource_set)
    scheduling = _Scheduling((resource_set.get("scheduling") or {}).get("graph") or {})
    graph = GraphBuilder(cluster)
    by_rank: dict[int, str] = {}
    for rank, node in nodes.items():
        properties = dict.fromkeys(sorted(node.properties), True)
        id_ = by_rank[rank] = graph.add_node(node.name, {"properties": properties} if properties else {})
        vertex = scheduling.by_rank.get(rank)
        if vertex is None:
            _add_counts(graph, id_, node)
        else:
            scheduling.add(graph, id_, vertex)
    for name, queue in sorted(queues.items()):
        needed = set(queue.get("requires") or ())
        graph.link("queue", name, {}, [by_rank[rank] for rank, node in nodes.items() if needed <= node.properties])
    return graph.document() if nodes else None


def _add_counts(graph: GraphBuilder, id_: str, node: Node) -> None:
    graph.add_pool(id_, "core", len(node.cores))
    graph.add_pool(id_, "gpu", len(node.gpus))


class _Scheduling:
    """A graph in JSON Graph Format, as Fluxion keeps it in the resource set."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self._vertices = {str(vertex["id"]): vertex.get("metadata", {}) for vertex in graph.get("nodes", ())}
        self._children: dict[str, list[str]] = {}
        for edge in graph.get("edges", ()):
            self._children.setdefault(str(edge["source"]), []).append(str(edge["target"]))
        #: The vertices of nodes.
        self.by_rank = {
            int(metadata["rank"]): id_
            for id_, metadata in self._vertices.items()
            if metadata.get("type") == "node" and "rank" in metadata
        }

    def add(self, graph: GraphBuilder, parent: str, vertex: str) -> None:
        """Add what is below a vertex: holders one by one, of the others how much of each type there is."""
        pools: dict[tuple[str, str], int] = {}
        holders = 0
        for child in dict.fromkeys(self._children.get(vertex, ())):
            metadata = self._vertices.get(child, {})
            type_ = str(metadata.get("type", ""))
            if type_ in _HOLDERS:
                self.add(graph, graph.add_holder(parent, type_, holders), child)
                holders += 1
            elif type_:
                size = int(metadata.get("size", 1) if metadata.get("size") is not None else 1)
                key = (type_, str(metadata.get("unit") or ""))
                pools[key] = pools.get(key, 0) + size
        for (type_, unit), size in pools.items():
            graph.add_pool(parent, type_, size, **({"unit": unit} if unit else {}))
