"""Requests: what a job asks of a cluster, as a tree of needs.

Every need is entries inside the vertex that the need around it was given. Needs of one request never share a unit of
anything; what holds other vertices is shared between jobs unless it is asked for exclusively.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from admin.core.graph.requirements import Requirement
from admin.core.graph.units import CLUSTER, MEASURED, SUMMED_TYPES


@dataclass(frozen=True)
class Unit:
    """A unit of a resource of some type, of any vertex of that type that meets the requirements."""

    type: str
    requires: tuple[Requirement, ...] = ()
    is_default: bool = False  #: given by settings, and so not asked of nodes that do not describe it

    @property
    def is_optional(self) -> bool:
        """Whether a graph that says nothing of it may have enough: few describe memory and disks."""
        return self.type in MEASURED and not self.requires


@dataclass(frozen=True)
class Vertex:
    """A vertex of some type that meets the requirements and has the contents inside it; each is another vertex."""

    type: str
    contents: tuple[Need, ...] = ()
    requires: tuple[Requirement, ...] = ()
    is_exclusive: bool = False  #: with everything inside it, of which nothing may be taken


@dataclass(frozen=True)
class Slot:
    """Contents that are entries inside one node, which several slots may share; the requirements are the node's.

    Where no node is around or could hold them, they are entries inside the vertex around the slot.
    """

    contents: tuple[Need, ...]
    requires: tuple[Requirement, ...] = ()


Resource = Unit | Vertex | Slot


class Need(NamedTuple):
    """So many of a resource."""

    resource: Resource
    amount: int  #: of vertices and slots how many, of units as `units` counts them


@dataclass(frozen=True)
class SpreadTasks:
    """Tasks over distinct nodes, as evenly or unevenly as they fit; no node is without one if there are enough."""

    nodes: int
    tasks: int
    contents: tuple[Need, ...]  #: of each task, inside its node
    requires: tuple[Requirement, ...] = ()  #: of each node
    is_exclusive: bool = False


@dataclass(frozen=True)
class ResourceRequest:
    """What one job asks for: needs anywhere in the cluster, or tasks over several nodes."""

    needs: tuple[Need, ...] = ()
    spread: SpreadTasks | None = None

    @cached_property
    def requires(self) -> tuple[Requirement, ...]:
        """Every requirement in it, each once."""
        needs = [*self.needs, *(self.spread.contents if self.spread is not None else ())]
        entries = dict.fromkeys(self.spread.requires if self.spread is not None else ())
        while needs:
            resource = needs.pop(0).resource
            entries.update(dict.fromkeys(resource.requires))
            needs += () if isinstance(resource, Unit) else resource.contents
        return tuple(entries)


def vertex_need(
    type_: str,
    count: int,
    contents: Iterable[Need] = (),
    requires: tuple[Requirement, ...] = (),
    *,
    is_exclusive: bool = False,
) -> Need:
    """So many vertices; without contents, pools of several units count as often as they have units."""
    held = tuple(contents)
    if not held and not is_exclusive:
        return Need(Unit(type_, requires), count)
    return Need(Vertex(type_, held, requires, is_exclusive), count)


def merged(needs: Iterable[Need]) -> dict[Resource, int]:
    """The counts of needs by resource."""
    counts: dict[Resource, int] = {}
    for resource, count in needs:
        counts[resource] = counts.get(resource, 0) + count
    return counts


def types_in(needs: Iterable[Need]) -> Iterator[str]:
    """The types that needs name, at any depth."""
    for resource, _ in needs:
        if not isinstance(resource, Slot):
            yield resource.type
        if not isinstance(resource, Unit):
            yield from types_in(resource.contents)


def special_types(request: ResourceRequest) -> tuple[str, ...]:
    """The types that a request names and that only the graph of a cluster describes, in their order.

    One vertex of type `cluster` around all others is the cluster itself.
    """
    needs = request.needs if request.spread is None else (*request.needs, *request.spread.contents)
    while len(needs) == 1 and isinstance(around := needs[0].resource, Vertex):
        if around.type != CLUSTER or needs[0].amount != 1:
            break
        needs = around.contents
    return tuple(dict.fromkeys(type_ for type_ in types_in(needs) if type_ not in SUMMED_TYPES))


def has_requirements(request: ResourceRequest) -> bool:
    """Whether a request has requirements beside amounts, at any depth."""
    if request.spread is not None and (request.spread.requires or _any_requires(request.spread.contents)):
        return True
    return _any_requires(request.needs)


def _any_requires(needs: Iterable[Need]) -> bool:
    return any(
        resource.requires or (not isinstance(resource, Unit) and _any_requires(resource.contents))
        for resource, _ in needs
    )
