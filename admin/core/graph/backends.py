"""Backends: what keeps the graphs of all clusters and answers which of them a request fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from admin.core.graph.frontiers import MOST_STEPS, TooComplex
from admin.core.graph.graphs import Amounts, ClusterGraph
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.shapes import Shapes
from admin.core.graph.shortages import explain
from admin.core.graph.summaries import Prune, Shortage, Summary, summarize


class Fit(Enum):
    """Whether a request fits a cluster."""

    FITS = "fits"
    NOT_NOW = "not now"  #: the machine, but not what is free of it
    NEVER = "never"
    UNDECIDED = "undecided"  #: too complex to tell
    UNKNOWN = "unknown"  #: the cluster has no graph


class GraphBackend(Protocol):
    """What matching needs of whatever keeps the graphs."""

    def put(self, cluster: str, graph: ClusterGraph) -> Summary:
        """Keep the graph of a cluster in place of any before, all of it free."""

    def set_free(self, cluster: str, free: Mapping[str, Amounts], closed: Iterable[str] = ()) -> None:
        """Keep what is free of a cluster, by vertex; vertices and types that are not named are free, unless closed."""

    def remove(self, cluster: str) -> None:
        """Forget a cluster."""

    def match(self, request: ResourceRequest, clusters: Iterable[str], *, now: bool) -> dict[str, Fit]:
        """Whether a request fits each cluster; by what is free now, or by the machine alone."""

    def explain(self, request: ResourceRequest, cluster: str, *, now: bool) -> tuple[Shortage, ...]:
        """What a cluster lacks for a request that does not fit it."""


@dataclass
class _Kept:
    graph: ClusterGraph
    free: ClusterGraph
    summary: Summary


@dataclass
class MemoryBackend:
    """Graphs in memory; equal parts of all of them are kept once."""

    shapes: Shapes = field(default_factory=Shapes)
    most_steps: int = MOST_STEPS
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def put(self, cluster: str, graph: ClusterGraph) -> Summary:
        summary = summarize(graph)
        self._kept[cluster] = _Kept(graph, graph, summary)
        return summary

    def set_free(self, cluster: str, free: Mapping[str, Amounts], closed: Iterable[str] = ()) -> None:
        kept = self._kept[cluster]
        self._kept[cluster] = _Kept(kept.graph, kept.graph.with_free(free, closed), kept.summary)

    def remove(self, cluster: str) -> None:
        self._kept.pop(cluster, None)

    def match(self, request: ResourceRequest, clusters: Iterable[str], *, now: bool) -> dict[str, Fit]:
        never, matcher = Prune.of(request).never, Matcher(request, self.most_steps)
        kept, fits = self._kept, {}
        for cluster in clusters:
            entry = kept.get(cluster)
            if entry is None:
                fits[cluster] = Fit.UNKNOWN
            elif never(entry.summary) is not None:
                fits[cluster] = Fit.NEVER
            else:
                fits[cluster] = _fit(matcher, entry, now=now)
        return fits

    def explain(self, request: ResourceRequest, cluster: str, *, now: bool) -> tuple[Shortage, ...]:
        entry = self._kept[cluster]
        matcher = Matcher(request, self.most_steps)
        fit = _fit(matcher, entry, now=now)
        if fit is Fit.FITS:
            return ()
        if fit is Fit.UNDECIDED:
            detail = "resources: whether they fit takes too long to tell; ask for fewer different ones"
            return (Shortage("resources", 1, 0, None, now, detail),)
        return explain(entry.graph if fit is Fit.NEVER else entry.free, matcher)


def _fit(matcher: Matcher, kept: _Kept, *, now: bool) -> Fit:
    try:
        if now and matcher.fits(kept.free):
            return Fit.FITS
        if not matcher.fits(kept.graph):
            return Fit.NEVER
        return Fit.NOT_NOW if now else Fit.FITS
    except TooComplex:
        return Fit.UNDECIDED
