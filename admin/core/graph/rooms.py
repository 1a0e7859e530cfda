"""Rooms: what is free of a machine node by node, and whether a job has a place beside those that wait there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from admin.core.graph.frontiers import TooComplex
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.job_requests import GRAPH_TYPES
from admin.core.graph.machines import Machine
from admin.core.graph.matching import Matcher
from admin.core.graph.packing import pack
from admin.core.graph.request_texts import read_request
from admin.core.graph.shortages import explain
from admin.core.resources import parse_capacity

#: Counts of jobs, by what they ask for.
Asked = Mapping[str, int]
#: Sets of jobs of which it is kept what they leave.
_MOST_KEPT = 512
_ASKS = "asks:"


def asked_key(asks: str) -> str:
    """The name under which amounts that are taken count the jobs that ask for something."""
    return f"{_ASKS}{asks}"


def asked_in(taken: Mapping[str, int]) -> dict[str, int]:
    """How many jobs ask for what, in amounts that are taken."""
    return {name.removeprefix(_ASKS): count for name, count in taken.items() if name.startswith(_ASKS) and count > 0}


class Room:
    """What was free of a machine at the last report of its cluster."""

    def __init__(self, machine: Machine, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        known = {name: node for name, node in nodes.items() if name in machine.graph.positions}
        closed = [name for name, node in known.items() if node.get("closed")]
        amounts = {name: _free(node) for name, node in known.items() if not node.get("closed")}
        self._free = machine.graph.with_free(amounts, closed)
        #: What some jobs leave of it, None where they have no place together.
        self._left: dict[frozenset[tuple[str, int]], ClusterGraph | None] = {frozenset(): self._free}

    def lacks(self, asked: Asked, asks: str) -> str:
        """What is missing for a job beside others that have been assigned; "" where it has a place."""
        if self._leave({**asked, asks: asked.get(asks, 0) + 1}) is not None:
            return ""
        left = self._leave(asked)
        if left is None:
            return "what was assigned there since its last report takes all that is free"
        try:
            shortages = explain(left, Matcher(read_request(asks)))
        except TooComplex:
            return "whether it fits beside the others takes too long to tell"
        return ", and ".join(dict.fromkeys(map(str, shortages[:2]))).replace("; ", ", ")

    def _leave(self, asked: Asked) -> ClusterGraph | None:
        """What jobs leave of what is free; None where no place was found for all of them together."""
        key = frozenset(asked.items())
        if key not in self._left:
            if len(self._left) >= _MOST_KEPT:
                self._left = {frozenset(): self._free}
            self._left[key] = self._found(Counter(asked))
        return self._left[key]

    def _found(self, asked: Counter[str]) -> ClusterGraph | None:
        # Jobs come one by one: most often a place for all but one of them is known.
        for asks in asked:
            fewer = frozenset((asked - Counter([asks])).items())
            known = self._left.get(fewer)
            if known is not None:
                packing = pack(known, [read_request(asks)])
                if packing.is_complete:
                    return packing.left
        packing = pack(self._free, [read_request(asks) for asks in asked.elements()])
        return packing.left if packing.is_complete else None


def _free(node: Mapping[str, Any]) -> dict[str, int]:
    """What is free of a node, by the types of a graph."""
    amounts = parse_capacity({name: quantity for name, quantity in node.items() if name in GRAPH_TYPES})
    return {GRAPH_TYPES[name]: amount for name, amount in amounts.items()}
