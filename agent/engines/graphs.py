"""Descriptions of machines: graphs in JSON Graph Format, as the admin reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


class GraphBuilder:
    """A graph in the making; equal units of a vertex are one pool."""

    def __init__(self, cluster: str) -> None:
        self._root = "cluster"
        self._nodes: dict[str, Any] = {self._root: {"metadata": {"type": "cluster", "name": cluster}}}
        self._edges: list[dict[str, str]] = []
        self._pools = Counter[tuple[str, str]]()  #: of each vertex, by type
        self._linked: dict[str, tuple[dict[str, Any], list[dict[str, str]]]] = {}

    def add_node(self, name: str, fields: Mapping[str, Any]) -> str:
        """Add a node with what requirements may ask of it; returns its id."""
        return self._add(self._root, f"node:{name}", {"type": "node", "name": name, **fields})

    def add_pool(self, parent: str, type_: str, size: int, **fields: Any) -> None:
        """Add so many equal units of something to a vertex; nothing where there are none."""
        if size > 0:
            number = self._pools[parent, type_] if fields else 0
            self._pools[parent, type_] += 1
            suffix = str(number) if number else ""
            self._add(parent, f"{parent}/{type_}{suffix}", {"type": type_, "size": size, **fields})

    def add_holder(self, parent: str, type_: str, number: int) -> str:
        """Add something that holds others, such as a socket; returns its id."""
        return self._add(parent, f"{parent}/{type_}{number}", {"type": type_})

    def _add(self, parent: str, id_: str, metadata: Mapping[str, Any]) -> str:
        self._nodes[id_] = {"metadata": dict(metadata)}
        self._edges.append({"source": parent, "target": id_, "relation": "contains"})
        return id_

    def link(self, subsystem: str, name: str, fields: Mapping[str, Any], vertices: Iterable[str]) -> None:
        """Add a vertex of a subsystem, and link vertices of the graph to it."""
        nodes, edges = self._linked.setdefault(subsystem, ({}, []))
        id_ = f"{subsystem}:{name}"
        nodes[id_] = {"metadata": {"type": subsystem, "name": name, **fields}}
        edges += [{"source": vertex, "target": id_, "relation": "contains"} for vertex in vertices]

    def document(self) -> dict[str, Any]:
        """The description."""
        document: dict[str, Any] = {"graph": {"nodes": self._nodes, "edges": self._edges}}
        if self._linked:
            document["subsystems"] = {
                name: {"graph": {"nodes": nodes, "edges": edges}} for name, (nodes, edges) in self._linked.items()
            }
        return document
