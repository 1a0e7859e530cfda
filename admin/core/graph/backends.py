"""Backends: what keeps the graphs of all clusters and answers which of them a request fits, ever and now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Protocol

from admin.core.graph.graphs import Amounts, ClusterGraph
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.summaries import Shortage, Summary


class Fit(Enum):
    """Whether a request fits a machine."""

    FITS = "fits"
    NEVER = "never"
    UNDECIDED = "undecided"  #: too complex to tell
    UNKNOWN = "unknown"  #: nothing is kept under that name


class FreeGraph(Protocol):
    """What was free of a cluster at one report of it; asked by several threads, and never changed."""

    def shortages(self, request: ResourceRequest, beside: Mapping[ResourceRequest, int]) -> tuple[Shortage, ...]:
        """What is missing for a request beside so many of others, which are assigned; empty where all have a place.

        Empty only if there is a place for all of them together. A search that gives up says so by a shortage.
        """


class GraphBackend(Protocol):
    """All that placement asks of whatever keeps the graphs; several threads use it.

    A graph is kept by the digest of the description that it is of, which several clusters may share.
    """

    def put(self, digest: str, graph: ClusterGraph) -> Summary:
        """Keep a graph in place of any of that digest before."""

    def remove(self, digest: str) -> None:
        """Forget a graph; free parts of it go on."""

    def match(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, Fit]:
        """Whether a request fits each machine, whatever is free of it."""

    def explain(self, request: ResourceRequest, digests: Iterable[str]) -> dict[str, tuple[Shortage, ...]]:
        """What each machine lacks for a request; empty where it fits."""

    def free(self, digest: str, amounts: Mapping[str, Amounts], closed: Collection[str]) -> FreeGraph:
        """What is free of a machine, by vertex; vertices and types that are not named are free, unless closed.

        Vertices are given by id, nodes by name too; Invalid where there is none.
        """
