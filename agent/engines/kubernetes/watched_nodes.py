"""The nodes of a cluster as the watch tells of them, with every label that they have or had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.engines.kubernetes.nodes import ARCHITECTURE, SYSTEM, Nodes, node_selector
from agent.engines.kubernetes.watches import Loop, Object, Watch, trimmed

#: How many values of one label are kept; no job requires one of so many.
_MOST_VALUES = 1000


class WatchedNodes:
    """Counts what is free of the nodes when they, or pods, have changed."""

    def __init__(self, loop: Loop, pods: Watch, gpu: str) -> None:
        #: The labels that nodes have, or had since this began, each with its values.
        self._labels: dict[str, set[str]] = {ARCHITECTURE: set(), SYSTEM: set()}
        self._nodes = Watch(loop, "/api/v1/nodes", keep=self._keep)
        self._pods = pods
        self._gpu = gpu
        #: The nodes as they were when something of them was last asked, by what pods are created with.
        self._counted: dict[tuple[int, ...], Nodes] = {}
        self._counted_at = (-1, -1)

    def wait(self, seconds: float) -> None:
        """Wait until they are known, as `Watch.wait` does."""
        self._nodes.wait(seconds)

    def of(self, *placings: Mapping[str, Any]) -> Nodes:
        """Those that pods with these tolerations, affinities and selectors may go to, as they are now."""
        changes = self._nodes.changes, self._pods.changes
        if changes != self._counted_at:
            self._counted_at, self._counted = changes, {}
        key = tuple(map(id, placings))
        if key not in self._counted:
            nodes, pods = list(self._nodes.items.values()), list(self._pods.items.values())
            self._counted[key] = Nodes(nodes, pods, self._gpu, placings, self._labels)
        return self._counted[key]

    def selector(self, job: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The labels of nodes that a job requires, each with the values that will do."""
        return node_selector(job, self._labels)

    def _keep(self, node: Object) -> Object:
        for label, value in (node["metadata"].get("labels") or {}).items():
            values = self._labels.setdefault(label, set())
            if len(values) < _MOST_VALUES and value not in values:
                self._labels[label] = values | {value}  # which the agent's own thread may be reading
        return trimmed(node)
