"""Packing: several jobs side by side onto what is free of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from admin.core.graph.frontiers import TooComplex
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.matching import Allocation, Matcher
from admin.core.graph.requests import Need, ResourceRequest, Slot, Vertex
from admin.core.graph.summaries import Prune
from admin.core.graph.units import NODE


@dataclass(frozen=True, eq=False)
class Packing:
    """Which of several requests have a place at the same time."""

    allocations: tuple[Allocation | None, ...]  #: in the order of the requests, None for one that has no place
    left: ClusterGraph  #: what is free beside them

    @property
    def is_complete(self) -> bool:
        """Whether every request has a place."""
        return None not in self.allocations


def pack(graph: ClusterGraph, requests: Sequence[ResourceRequest]) -> Packing:
    """Places for requests, each where it leaves the least beside it: in their order, else the choosiest first.

    The places found do fit together. To find them whenever there are any would take time exponential in the number of
    requests; where neither order has places for all, the one with more places is the answer.
    """
    given = _packed(graph, requests, range(len(requests)))
    if given.is_complete or len(requests) < 2:
        return given
    ranks = {request: (_choices(graph, request), -_share(graph, request)) for request in dict.fromkeys(requests)}
    choosiest_first = _packed(graph, requests, sorted(range(len(requests)), key=lambda number: ranks[requests[number]]))
    return max(given, choosiest_first, key=lambda packing: len(packing.allocations) - packing.allocations.count(None))


def _packed(graph: ClusterGraph, requests: Sequence[ResourceRequest], order: Iterable[int]) -> Packing:
    allocations: list[Allocation | None] = [None] * len(requests)
    hopeless: set[ResourceRequest] = set()
    for number in order:
        request = requests[number]
        if request in hopeless:  # what had no place has none after more was taken
            continue
        allocation = _allocated(graph, request)
        if allocation is None:
            hopeless.add(request)
        else:
            allocations[number] = allocation
            graph = graph.without(allocation.uses)
    return Packing(tuple(allocations), graph)


def _allocated(graph: ClusterGraph, request: ResourceRequest) -> Allocation | None:
    try:
        return Matcher(request).allocate(graph)
    except TooComplex:
        return None


def _choices(graph: ClusterGraph, request: ResourceRequest) -> int:
    """Between how many vertices more than it needs a request has the choice; of several needs, for the choosiest."""
    spread, matcher = request.spread, Matcher(request)
    matcher.begin(graph)
    needs = request.needs
    if spread is not None:
        needs = (Need(Vertex(NODE, spread.contents, spread.requires, spread.is_exclusive), spread.nodes),)
    held = [
        Need(Vertex(NODE, resource.contents, resource.requires) if isinstance(resource, Slot) else resource, count)
        for resource, count in needs
    ]
    try:
        choices = [
            matcher.count_holders(graph, resource) - count for resource, count in held if isinstance(resource, Vertex)
        ]
    except TooComplex:
        return 0
    return min(choices, default=graph.root.vertices)


def _share(graph: ClusterGraph, request: ResourceRequest) -> Fraction:
    """The parts of what is free that a request takes, of all types together."""
    below = graph.root.below
    parts = (Fraction(amount, below[type_]) for type_, amount in Prune.of(request).totals.items() if below.get(type_))
    return sum(parts, Fraction(0))
