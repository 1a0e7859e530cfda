"""The backend that keeps graphs in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from admin.core.graph.backends import Fit
from admin.core.graph.frontiers import MOST_STEPS, TooComplex
from admin.core.graph.graphs import Amounts, ClusterGraph
from admin.core.graph.matching import Matcher
from admin.core.graph.packing import pack
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.shapes import Shape
from admin.core.graph.shortages import explain
from admin.core.graph.summaries import Prune, Shortage, Summary, summarize

#: Sets of requests of which it is kept what they leave.
_MOST_KEPT = 512


class _Kept(NamedTuple):
    graph: ClusterGraph
    summary: Summary


@dataclass
class MemoryBackend:
    """Graphs in memory."""

    most_steps: int = MOST_STEPS
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def put(self, digest: str, graph: ClusterGraph) -> Summary:
        summary = summarize(graph)
        self._kept[digest] = _Kept(graph, summary)
        return summary

    def remove(self, digest: str) -> None:
        self._kept.pop(digest, None)

    def match(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, Fit]:
        never, matcher = Prune.of(request).never, Matcher(request, self.most_steps)
        kept, fits = self._kept, {}
        by_shape: dict[Shape, Fit] = {}
        for digest in digests:
            entry = kept.get(digest)
            if entry is None:
                fits[digest] = Fit.UNKNOWN
                continue
            fit = by_shape.get(entry.graph.scope)
            if fit is None:
                if matcher.surely_fits(entry.graph):
                    fit = Fit.FITS
                else:
                    fit = Fit.NEVER if never(entry.summary) is not None else _fit(matcher, entry.graph)
                by_shape[entry.graph.scope] = fit
            fits[digest] = fit
        return fits

    def explain(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, tuple[Shortage, ...]]:
        prune, matcher = Prune.of(request), Matcher(request, self.most_steps)
        by_shape: dict[Shape, tuple[Shortage, ...]] = {}
        explained = {}
        for digest in digests:
            graph, summary = self._kept[digest]
            if graph.scope not in by_shape:
                by_shape[graph.scope] = _lacks(graph, list(prune.shortages(summary)), matcher)
            explained[digest] = by_shape[graph.scope]
        return explained

    def free(self, digest: str, amounts: Mapping[str, Amounts], closed: Collection[str]) -> MemoryFreeGraph:
        return MemoryFreeGraph(self._kept[digest].graph.with_free(amounts, closed))


def _lacks(graph: ClusterGraph, pruned: list[Shortage], matcher: Matcher) -> tuple[Shortage, ...]:
    """What a machine lacks: what its sums lack already, else what a search finds."""
    fit = Fit.NEVER if pruned else _fit(matcher, graph)
    if fit is Fit.FITS:
        return ()
    if fit is Fit.UNDECIDED:
        detail = "resources: whether they fit takes too long to tell; ask for fewer different ones"
        return (Shortage("resources", 1, 0, None, False, detail),)
    return explain(graph, matcher, pruned)


def _fit(matcher: Matcher, graph: ClusterGraph) -> Fit:
    try:
        return Fit.FITS if matcher.fits(graph) else Fit.NEVER
    except TooComplex:
        return Fit.UNDECIDED


class MemoryFreeGraph:
    """What is free of a graph, and what sets of requests leave of it."""

    def __init__(self, graph: ClusterGraph) -> None:
        self._free = graph
        #: What some requests leave of it, None where they have no place together.
        self._left: dict[frozenset[tuple[ResourceRequest, int]], ClusterGraph | None] = {frozenset(): graph}

    def shortages(self, request: ResourceRequest, beside: Mapping[ResourceRequest, int]) -> tuple[Shortage, ...]:
        if self._leave({**beside, request: beside.get(request, 0) + 1}) is not None:
            return ()
        left = self._leave(beside)
        if left is None:
            return (_free_shortage("what was assigned there since its last report takes all that is free"),)
        try:
            return explain(left, Matcher(request))
        except TooComplex:
            return (_free_shortage("whether it fits beside the others takes too long to tell"),)

    def _leave(self, requests: Mapping[ResourceRequest, int]) -> ClusterGraph | None:
        """What requests leave of what is free; None where no place was found for all of them together."""
        key = frozenset(requests.items())
        kept = self._left  # another thread may put an empty one in its place
        if key in kept:
            return kept[key]
        left = self._found(Counter(requests))
        if len(kept) >= _MOST_KEPT:
            kept = self._left = {frozenset(): self._free}
        kept[key] = left
        return left

    def _found(self, requests: Counter[ResourceRequest]) -> ClusterGraph | None:
        # Jobs come one by one: most often a place for all but one of them is known.
        for request in requests:
            fewer = frozenset((requests - Counter([request])).items())
            known = self._left.get(fewer)
            if known is not None:
                packing = pack(known, [request])
                if packing.is_complete:
                    return packing.left
        packing = pack(self._free, list(requests.elements()))
        return packing.left if packing.is_complete else None


def _free_shortage(detail: str) -> Shortage:
    return Shortage("resources", 1, 0, None, True, detail)
