"""Summaries: counts by type that tell without a search that a cluster can never run a job.

A summary that finds nothing wrong says nothing: only the search knows whether the job fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.requests import Need, ResourceRequest, Slot, Unit, Vertex, types_in
from admin.core.graph.requirements import Requirement
from admin.core.graph.units import NODE, plural, show_amount


class Summary(NamedTuple):
    """What a cluster has, counted."""

    vertices: Mapping[str, int]  #: by type
    totals: Mapping[str, int]  #: amounts by type
    largest: Mapping[str, Mapping[str, int]]  #: by type of vertex, the most that one of them has inside, by type
    containers: frozenset[str]  #: types that hold nodes
    fields: frozenset[tuple[str, str]]  #: subsystems and the fields that some vertex of each has
    is_free_part: bool = False


class Shortage(NamedTuple):
    """What a cluster has too little of."""

    type: str
    needed: int
    available: int
    inside: str | None = None  #: the type of vertex that must have it, None for the whole cluster
    is_free_part: bool = False  #: of what is free now
    detail: str = ""  #: what is missing that is no amount
    #: A requirement on a field that nothing has, and the subsystems and fields that there are.
    unknown: tuple[Requirement, frozenset[tuple[str, str]]] | None = None

    def __str__(self) -> str:
        if self.detail:
            return self.detail
        has = show_amount(self.type, self.available) if self.available else "none"
        needs = f"{plural(self.type)}: needs {show_amount(self.type, self.needed)}"
        if self.inside is None:
            return f"{needs}, the cluster has {has}{' free' if self.is_free_part else ''}"
        if self.is_free_part:
            return f"{needs} on one {self.inside}, the most free on one {self.inside} is {has}"
        return f"{needs} on one {self.inside}, largest {self.inside} has {has}"


def describe_shortages(shortages: Iterable[Shortage]) -> str:
    """What is missing, as a part of a message in which a semicolon stands between clusters."""
    return ", and ".join(dict.fromkeys(map(str, shortages))).replace("; ", ", ")


def summarize(graph: ClusterGraph) -> Summary:
    """The counts of a graph; of one of which something is taken, those of what is free."""
    root = graph.root
    largest: dict[str, dict[str, int]] = {}
    fields: set[tuple[str, str]] = set()
    counts: dict[str, int] = {}
    for shape, count in root.occurrences().items():
        counts[shape.type] = counts.get(shape.type, 0) + count
        most = largest.setdefault(shape.type, {})
        for type_, amount in shape.below.items():
            if amount > most.get(type_, 0):
                most[type_] = amount
        for feature in shape.features:
            fields.update((feature.subsystem, name) for name in feature.fields)
    totals = {**root.below, root.type: root.below.get(root.type, 0) + root.amount}
    return Summary(counts, totals, largest, graph.scope.containers, frozenset(fields), graph.is_free_part)


@dataclass
class Prune:
    """What a request needs at least, for a comparison with summaries."""

    totals: dict[str, int] = field(default_factory=dict)
    vertices: dict[str, int] = field(default_factory=dict)  #: distinct ones, by type
    inside: dict[tuple[str, str], int] = field(default_factory=dict)  #: of a type in one vertex of another
    in_node: list[tuple[frozenset[str], dict[str, int]]] = field(default_factory=list)  #: types and amounts of slots
    requires: dict[Requirement, None] = field(default_factory=dict)  #: in their order
    optional: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: ResourceRequest) -> Prune:
        """What a request needs at least."""
        prune = cls(optional=frozenset(_optional_types(request.needs)))
        prune.totals = prune._amounts(request.needs, 1)
        spread = request.spread
        if spread is not None:
            prune.optional |= frozenset(_optional_types(spread.contents))
            amounts = prune._amounts(spread.contents, 0)
            prune._raise_inside(NODE, amounts)
            prune.totals = {type_: amount * spread.tasks for type_, amount in amounts.items()}
            prune.vertices[NODE] = spread.nodes
            prune.requires.update(dict.fromkeys(spread.requires))
        for resource, _ in request.needs:
            if isinstance(resource, Slot):
                types = frozenset(types_in(resource.contents))
                prune.in_node.append((types, prune._amounts(resource.contents, 0)))
        return prune

    def never(self, summary: Summary) -> Shortage | None:
        """What a cluster can never provide; None where only a search can tell."""
        return next(self.shortages(summary), None)

    def shortages(self, summary: Summary) -> Iterator[Shortage]:
        """Everything that a cluster can never provide by itself."""
        totals = summary.totals
        for (holder, type_), amount in self.inside.items():
            has = summary.largest.get(holder, {}).get(type_, 0)
            if has < amount and not self._may_be_unknown(type_, totals) and holder in summary.vertices:
                yield Shortage(type_, amount, has, holder, summary.is_free_part)
        if self.in_node and NODE in summary.largest:
            nodes = summary.largest[NODE]
            for types, amounts in self.in_node:
                if NODE in types or not types.isdisjoint(summary.containers):
                    continue
                for type_, amount in amounts.items():
                    if nodes.get(type_, 0) < amount and not self._may_be_unknown(type_, totals):
                        yield Shortage(type_, amount, nodes.get(type_, 0), NODE, summary.is_free_part)
        for type_, amount in self.totals.items():
            if totals.get(type_, 0) < amount and not self._may_be_unknown(type_, totals):
                yield Shortage(type_, amount, totals.get(type_, 0), None, summary.is_free_part)
        for type_, count in self.vertices.items():
            if summary.vertices.get(type_, 0) < count:
                has = summary.vertices.get(type_, 0)
                detail = f"{plural(type_)}: needs {count}, the cluster has {has or 'none'}"
                yield Shortage(type_, count, has, None, summary.is_free_part, detail)
        for requirement in self.requires:
            if (requirement.subsystem, requirement.field) not in summary.fields:
                detail = f"{requirement.subsystem}: needs {requirement}, no vertex has the field '{requirement.field}'"
                unknown = requirement, summary.fields
                yield Shortage(requirement.subsystem, 1, 0, None, summary.is_free_part, detail, unknown)

    def _may_be_unknown(self, type_: str, totals: Mapping[str, int]) -> bool:
        return type_ in self.optional and type_ not in totals

    def _amounts(self, needs: Iterable[Need], outermost: int) -> dict[str, int]:
        """The amounts by type that needs take of the vertex around them, theirs and those of their contents.

        Vertices are counted where they are all distinct: over the whole request, which is what `outermost` says.
        """
        amounts: dict[str, int] = {}
        for resource, count in needs:
            self.requires.update(dict.fromkeys(resource.requires))
            if isinstance(resource, Unit):
                if not resource.is_default:  # which only counts in the nodes that describe it
                    amounts[resource.type] = amounts.get(resource.type, 0) + count
                continue
            inner = self._amounts(resource.contents, outermost * count)
            if isinstance(resource, Vertex):
                self._raise_inside(resource.type, inner)
                self.vertices[resource.type] = self.vertices.get(resource.type, 0) + count * outermost
            for type_, amount in inner.items():
                amounts[type_] = amounts.get(type_, 0) + amount * count
        return amounts

    def _raise_inside(self, holder: str, amounts: Mapping[str, int]) -> None:
        for type_, amount in amounts.items():
            self.inside[holder, type_] = max(amount, self.inside.get((holder, type_), 0))


def _optional_types(needs: Iterable[Need]) -> Iterator[str]:
    for resource, _ in needs:
        if not isinstance(resource, Unit):
            yield from _optional_types(resource.contents)
        elif resource.is_optional:
            yield resource.type
