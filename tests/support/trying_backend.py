"""A second graph backend, which tries everything; what it packs are requests of amounts in nodes alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import NamedTuple

from admin.core.graph.backends import Fit
from admin.core.graph.graphs import Amounts, ClusterGraph
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, ResourceRequest, Slot, Unit, Vertex, merged
from admin.core.graph.shapes import Shape
from admin.core.graph.shortages import explain
from admin.core.graph.summaries import Shortage, Summary, summarize
from admin.core.graph.units import MEASURED, NODE
from tests.support.small_graphs import fits_by_trying, small_graph_of


@dataclass
class TryingBackend:
    """Tries every vertex for every unit, and every node for every part of a request."""

    graphs: dict[str, ClusterGraph] = field(default_factory=dict)

    def put(self, digest: str, graph: ClusterGraph) -> Summary:
        self.graphs[digest] = graph
        return summarize(graph)

    def remove(self, digest: str) -> None:
        self.graphs.pop(digest, None)

    def match(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, Fit]:
        return {digest: self._fit(request, digest) for digest in digests}

    def _fit(self, request: ResourceRequest, digest: str) -> Fit:
        if digest not in self.graphs:
            return Fit.UNKNOWN
        return Fit.FITS if fits_by_trying(small_graph_of(self.graphs[digest]), request) else Fit.NEVER

    def explain(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, tuple[Shortage, ...]]:
        return {
            digest: () if fit is Fit.FITS else explain(self.graphs[digest], Matcher(request))
            for digest, fit in self.match(request, digests).items()
        }

    def free(self, digest: str, amounts: Mapping[str, Amounts], closed: Collection[str]) -> TryingFreeGraph:
        return TryingFreeGraph(tuple(_nodes(self.graphs[digest].with_free(amounts, closed).root)))


class _Node(NamedTuple):
    free: Amounts
    is_untouched: bool


class _Part(NamedTuple):
    """What a request takes of one node."""

    amounts: Amounts
    is_distinct: bool  #: from the nodes of the other such parts of the request
    is_exclusive: bool


@dataclass
class TryingFreeGraph:
    """What is free of each node that is not closed."""

    nodes: tuple[_Node, ...]

    def shortages(self, request: ResourceRequest, beside: Mapping[ResourceRequest, int]) -> tuple[Shortage, ...]:
        requests = [other for other, count in beside.items() for _ in range(count)]
        if _have_places([*requests, request], self.nodes):
            return ()
        return (Shortage("resources", 1, 0, None, True, "no arrangement has a place for all of them"),)


def _nodes(shape: Shape) -> Iterator[_Node]:
    for child, times in ((shape, 1),) if shape.type == NODE else shape.runs:
        for _ in range(times):
            if child.type != NODE:
                yield from _nodes(child)
            elif child.amount > 0:
                yield _Node(child.below, child.is_untouched)


def _have_places(requests: list[ResourceRequest], nodes: tuple[_Node, ...]) -> bool:
    if not requests:
        return True
    return any(
        _have_places(requests[1:], left)
        for parts in _arrangements(requests[0])
        for left in _placed(parts, nodes, frozenset())
    )


def _placed(parts: list[_Part], nodes: tuple[_Node, ...], used: frozenset[int]) -> Iterator[tuple[_Node, ...]]:
    """What every way to place some parts leaves."""
    if not parts:
        yield nodes
        return
    part = parts[0]
    for number, node in enumerate(nodes):
        has_place = all(
            node.free.get(type_, 0) >= amount
            for type_, amount in part.amounts.items()
            if type_ in node.free or type_ not in MEASURED  # memory that nothing is said of may be enough
        )
        if not has_place or (part.is_distinct and number in used) or (part.is_exclusive and not node.is_untouched):
            continue
        left = {type_: amount - part.amounts.get(type_, 0) for type_, amount in node.free.items()}
        rest = _Node({} if part.is_exclusive else left, False)
        yield from _placed(parts[1:], (*nodes[:number], rest, *nodes[number + 1 :]), used | {number})


def _arrangements(request: ResourceRequest) -> Iterator[list[_Part]]:
    spread = request.spread
    if spread is None:
        yield [part for need in request.needs for part in _parts(need)]
        return
    for tasks in combinations_with_replacement(range(1, spread.tasks + 1), spread.nodes):
        if sum(tasks) == spread.tasks:
            yield [_Part(_amounts(spread.contents, number), True, spread.is_exclusive) for number in tasks]


def _parts(need: Need) -> list[_Part]:
    resource, count = need
    assert isinstance(resource, Slot | Vertex)
    is_exclusive = isinstance(resource, Vertex) and resource.is_exclusive
    return [_Part(_amounts(resource.contents, 1), isinstance(resource, Vertex), is_exclusive)] * count


def _amounts(contents: tuple[Need, ...], times: int) -> dict[str, int]:
    amounts = {}
    for resource, amount in merged(contents).items():
        assert isinstance(resource, Unit)
        amounts[resource.type] = amount * times
    return amounts
