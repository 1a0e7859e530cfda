"""Points: the ways in which vertices provide the resources of a request, and how each comes about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from admin.core.graph.requests import Resource, Slot, Unit, Vertex
from admin.core.graph.shapes import Shape
from admin.core.graph.units import NODE


class Kind:
    """A resource of the request, with what the search asks of it at every vertex."""

    __slots__ = (
        "contents",
        "is_default",
        "is_exclusive",
        "is_named",
        "is_optional",
        "number",
        "requires",
        "resource",
        "type",
    )

    def __init__(self, resource: Resource, number: int) -> None:
        self.resource = resource
        self.number = number
        self.type = NODE if isinstance(resource, Slot) else resource.type
        self.requires = resource.requires
        self.contents = () if isinstance(resource, Unit) else resource.contents
        self.is_exclusive = isinstance(resource, Vertex) and resource.is_exclusive
        self.is_optional = isinstance(resource, Unit) and resource.is_optional
        self.is_default = isinstance(resource, Unit) and resource.is_default
        #: Whether an allocation names the vertices, and not only an amount inside the vertex around them.
        self.is_named = not isinstance(resource, Unit) or bool(resource.requires) or resource.type == NODE


Vector = tuple[int, ...]
Bag = tuple[tuple[Kind, int], ...]  #: resources in the order of their numbers, and the most that is needed of each


class Sum(NamedTuple):
    """Two points of different children together."""

    first: Point
    second: Point


class Product(NamedTuple):
    """The same point for several equal children."""

    point: Point
    times: int


class Choice(NamedTuple):
    """What one vertex does for a point."""

    shape: Shape
    bag: Bag
    own: Mapping[int, int]  #: amounts of the vertex itself, by position in the bag
    chosen: int | None  #: position of the resource that the vertex is taken for
    inner: Point | None  #: of what is inside it
    inner_bag: Bag


class Point(NamedTuple):
    """One way to provide resources: how many of each, and how."""

    vector: Vector
    origin: Sum | Product | Choice | None


def bag_of(counts: Mapping[Kind, int]) -> Bag:
    """The counts of resources in the order of their numbers, without those of which none is needed."""
    return tuple(sorted(((kind, count) for kind, count in counts.items() if count), key=lambda entry: entry[0].number))


def parts_of(point: Point) -> Iterator[tuple[Point, int]]:
    """The points of single vertices that a point of several is made of, in their order."""
    waiting = [(point, 1)]
    while waiting:
        part, times = waiting.pop()
        match part.origin:
            case None:
                continue
            case Sum():
                assert times == 1
                waiting += [(part.origin.second, 1), (part.origin.first, 1)]
            case Product():
                waiting.append((part.origin.point, times * part.origin.times))
            case Choice():
                yield part, times
