"""The search: what vertices provide of the resources of a request, shape by shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from admin.core.graph.frontiers import MOST_STEPS, Frontiers
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.points import Bag, Choice, Kind, Point, Vector, bag_of
from admin.core.graph.requests import Need, Resource, ResourceRequest, Slot, Unit, Vertex, merged, types_in
from admin.core.graph.requirements import Feature, Requirement
from admin.core.graph.shapes import Shape
from admin.core.graph.units import NODE


class Search(Frontiers):
    """What the vertices of graphs provide of one request; whatever it finds out serves all graphs with the shape."""

    def __init__(self, request: ResourceRequest, most_steps: int = MOST_STEPS) -> None:
        super().__init__(most_steps)
        self.request = request
        self._kinds: dict[Resource, Kind] = {}
        self._meets: dict[tuple[tuple[Feature, ...], tuple[Requirement, ...]], bool] = {}
        needs = _all_needs(request)
        self._optional = frozenset(_optional_types(needs, are_defaults=False))
        self._defaults = frozenset(_optional_types(needs, are_defaults=True))
        #: The optional types that a graph describes; of defaults it is looked at inside each vertex.
        self._described: frozenset[str] = frozenset()
        self._memos: dict[tuple[object, bool], dict[tuple[Shape, Bag], Sequence[Point]]] = {}
        self._memo: dict[tuple[Shape, Bag], Sequence[Point]] = {}
        #: How many tasks a node holds, None where it may hold none; of each set of described types.
        self._all_capacities: dict[object, dict[Shape, int | None]] = {}
        self._capacities: dict[Shape, int | None] = {}
        self._without_slots: dict[tuple[int, int, object, object], tuple[tuple[Need, ...], Mapping[Kind, int]]] = {}
        self._grains: dict[tuple[Shape, str], int] = {}
        self._root: Shape | None = None

    def capacity(self, shape: Shape, contents: tuple[Need, ...], most: int) -> int:
        """How many times the contents are inside a vertex at once, at most so many."""
        opened = self._opened(contents, shape)
        if opened is None:
            return 0
        below, is_plain, times = shape.below, True, most
        for kind, count in opened.items():
            if kind.is_named:
                is_plain = False
            else:
                times = min(times, below.get(kind.type, 0) // count)
        if is_plain or not times:
            return times
        self._begin_search(is_quick=False)
        bag = bag_of({kind: count * most for kind, count in opened.items()})
        return max(
            min((have // opened[kind] for (kind, _), have in zip(bag, point.vector, strict=True)), default=most)
            for point in self._inside(shape, bag)
        )

    def meets(self, shape: Shape, requires: tuple[Requirement, ...]) -> bool:
        """Whether a vertex meets all requirements, each by any of its features."""
        if not requires:
            return True
        key = (shape.features, requires)
        answer = self._meets.get(key)
        if answer is None:
            answer = self._meets[key] = all(requirement.holds(shape.features) for requirement in requires)
        return answer

    def holds(self, shape: Shape, resource: Vertex) -> bool:
        """Whether a vertex could be taken for a resource, by itself."""
        is_free = shape.amount > 0 and (shape.is_untouched or not resource.is_exclusive)
        able = is_free and self.meets(shape, resource.requires)
        return able and self.capacity(shape, resource.contents, 1) == 1

    def count_holders(self, graph: ClusterGraph, resource: Vertex) -> int:
        """How many vertices could be taken for a resource, each by itself."""
        occurrences = graph.root.occurrences().items()
        return sum(times for shape, times in occurrences if shape.type == resource.type and self.holds(shape, resource))

    def begin(self, graph: ClusterGraph) -> None:
        """Ask about a graph from now on."""
        root = self._root = graph.scope
        described = self._optional & root.holds
        if described != self._described or not self._all_capacities:
            self._described = described
            self._capacities = self._all_capacities.setdefault(described, {})

    def _begin_search(self, *, is_quick: bool) -> None:
        self._begin_steps(is_quick=is_quick)
        self._memo = self._memos.setdefault((self._described, is_quick), {})

    def _kind(self, resource: Resource) -> Kind:
        kind = self._kinds.get(resource)
        if kind is None:
            kind = self._kinds[resource] = Kind(resource, len(self._kinds))
        return kind

    def _opened(self, needs: tuple[Need, ...], shape: Shape, times: int = 1) -> Mapping[Kind, int] | None:
        """The needs to be found inside a vertex, without slots that can only be in this very vertex.

        None where such a slot requires what the vertex has not.
        """
        key = (id(needs), times, self._described, self._defaults and self._defaults & shape.in_all_nodes)
        known = self._without_slots.get(key)
        if known is not None:
            return known[1]
        opened = self._opened_anew(needs, shape, times)
        if opened is not None and not any(isinstance(need.resource, Slot) for need in needs):
            self._without_slots[key] = (needs, opened)  # with the needs, so that no others get their id
        return opened

    def _opened_anew(self, needs: tuple[Need, ...], shape: Shape, times: int) -> dict[Kind, int] | None:
        opened: dict[Kind, int] = {}
        for resource, count in merged(needs).items():
            kind = self._kind(resource)
            if kind.is_optional and kind.type not in (shape.in_all_nodes if kind.is_default else self._described):
                continue
            if isinstance(resource, Unit) and resource.is_default:  # where it counts, it is like what is asked for
                kind = self._kind(replace(resource, is_default=False))
            if isinstance(resource, Slot) and not goes_into_nodes(resource, shape):
                inner = self._opened(resource.contents, shape, count * times)
                if inner is None or not self.meets(shape, resource.requires):
                    return None
                for inner_kind, amount in inner.items():
                    opened[inner_kind] = opened.get(inner_kind, 0) + amount
            else:
                opened[kind] = opened.get(kind, 0) + count * times
        return opened

    def _inside(self, shape: Shape, bag: Bag) -> Sequence[Point]:
        """The frontier of what is inside a vertex."""
        below = shape.below
        if not any(kind.is_named for kind, _ in bag):  # amounts of different types, of which nothing competes
            return (Point(tuple([min(count, below.get(kind.type, 0)) for kind, count in bag]), None),)
        relevant = tuple(entry for entry in bag if below.get(entry[0].type))
        if len(relevant) == len(bag):
            return self._frontier(shape, bag)
        points = self._frontier(shape, relevant)
        numbers = {kind: index for index, (kind, _) in enumerate(relevant)}
        places = [numbers.get(kind) for kind, _ in bag]
        return [
            Point(tuple(0 if place is None else point.vector[place] for place in places), point.origin)
            for point in points
        ]

    def _frontier(self, shape: Shape, bag: Bag) -> Sequence[Point]:
        if not bag:
            return (Point((), None),)
        key = (shape, bag)
        points = self._memo.get(key)
        if points is None:
            points = self._memo[key] = self._frontier_anew(shape, bag)
        return points

    def _frontier_anew(self, shape: Shape, bag: Bag) -> Sequence[Point]:
        caps = tuple(count for _, count in bag)
        points: Sequence[Point] = (Point((0,) * len(bag), None),)
        types = {kind.type for kind, _ in bag}
        for child, times in shape.groups.items():
            if child.type not in types and types.isdisjoint(child.below):
                continue
            provided = self._of_vertex(child, bag, caps)
            if len(provided) == 1 and not any(provided[0].vector):
                continue
            points = self._sum(points, self._times(provided, times, caps), caps)
            if points[0].vector == caps:
                break
        return points

    def _of_vertex(self, shape: Shape, bag: Bag, caps: Vector) -> Sequence[Point]:
        """The frontier of a vertex with what is inside it."""
        is_free = shape.amount > 0
        own = [
            index
            for index, (kind, _) in enumerate(bag)
            if is_free and kind.type == shape.type and self.meets(shape, kind.requires)
        ]
        units = [index for index in own if isinstance(bag[index][0].resource, Unit)]
        if not shape.runs and len(units) == len(own):  # most vertices: a core, or a pool
            return self._of_units(shape, bag, caps, units)
        slots = [index for index in own if isinstance(bag[index][0].resource, Slot)]
        points = list(self._not_taken(shape, bag, caps, units, slots))
        for index in own:
            kind = bag[index][0]
            if not isinstance(kind.resource, Vertex) or (kind.is_exclusive and not shape.is_untouched):
                continue
            points.extend(self._taken(shape, bag, caps, index, slots))
        return self._best(points, caps)

    def _of_units(self, shape: Shape, bag: Bag, caps: Vector, units: list[int]) -> Sequence[Point]:
        return self._best(
            [
                Point(
                    tuple(shares.get(index, 0) for index in range(len(bag))),
                    Choice(shape, bag, shares, None, None, ()),
                )
                for shares in self._shares(shape, caps, units)
            ],
            caps,
        )

    def _not_taken(self, shape: Shape, bag: Bag, caps: Vector, units: list[int], slots: list[int]) -> Iterator[Point]:
        """What a vertex provides that is taken for no resource: its units and its contents."""
        for inner, inner_bag, vector in self._with_slots(shape, bag, slots, {}):
            for shares in self._shares(shape, caps, units):
                total = tuple(min(caps[index], have + shares.get(index, 0)) for index, have in enumerate(vector))
                yield Point(total, Choice(shape, bag, shares, None, inner, inner_bag))

    def _taken(self, shape: Shape, bag: Bag, caps: Vector, index: int, slots: list[int]) -> Iterator[Point]:
        """What a vertex provides that is taken for a resource: itself, and what its contents leave."""
        kind = bag[index][0]
        needs = self._opened(kind.contents, shape)
        if needs is None:
            return
        if kind.is_exclusive:
            inner_bag = bag_of(needs)
            wanted = tuple(count for _, count in inner_bag)
            for inner in self._inside(shape, inner_bag):
                if inner.vector == wanted:
                    vector = tuple(int(position == index) for position in range(len(bag)))
                    yield Point(vector, Choice(shape, bag, {}, index, inner, inner_bag))
                    return
            return
        for inner, inner_bag, vector in self._with_slots(shape, bag, slots, needs):
            total = tuple(min(caps[position], have + (position == index)) for position, have in enumerate(vector))
            yield Point(total, Choice(shape, bag, {}, index, inner, inner_bag))

    def _with_slots(
        self, shape: Shape, bag: Bag, slots: list[int], needs: Mapping[Kind, int]
    ) -> Iterator[tuple[Point, Bag, Vector]]:
        """Ways to fill a vertex beside some needs: the point inside it, its bag, and what it provides of the outer bag.

        The slots of the bag are opened here, since the vertex is a node.
        """
        held = []
        for index in slots:
            contents = self._opened(bag[index][0].contents, shape)
            if contents is not None:
                held.append((index, contents))
        caps: dict[Kind, int] = {kind: count for index, (kind, count) in enumerate(bag) if index not in slots}
        for kind, count in needs.items():
            caps[kind] = caps.get(kind, 0) + count
        for index, contents in held:
            for kind, count in contents.items():
                caps[kind] = caps.get(kind, 0) + count * bag[index][1]
        inner_bag = bag_of(caps)
        places = {kind: place for place, (kind, _) in enumerate(inner_bag)}
        for inner in self._inside(shape, inner_bag):
            left = list(inner.vector)
            for kind, count in needs.items():
                left[places[kind]] -= count
            if min(left, default=0) < 0:
                continue
            outer = {places[kind] for index, (kind, _) in enumerate(bag) if index not in slots}
            for rest, numbers in self._fillings(left, bag, held, places, outer, 0):
                yield (
                    inner,
                    inner_bag,
                    tuple(
                        numbers.get(index, 0) if index in slots else rest[places[kind]]
                        for index, (kind, _) in enumerate(bag)
                    ),
                )

    def _fillings(
        self,
        left: list[int],
        bag: Bag,
        held: list[tuple[int, Mapping[Kind, int]]],
        places: Mapping[Kind, int],
        outer: set[int],
        first: int,
    ) -> Iterator[tuple[list[int], dict[int, int]]]:
        """Numbers of slots of each kind that a node can hold of what is left, and what is left then."""
        if first == len(held):
            yield left, {}
            return
        index, contents = held[first]
        needed = {places[kind]: count for kind, count in contents.items()}
        most = min([bag[index][1], *(left[place] // count for place, count in needed.items())])
        others = outer.union(*({places[kind] for kind in kinds} for _, kinds in held[first + 1 :]))
        competes = not others.isdisjoint(needed)
        for number in range(most, -1, -1) if competes else (most,):
            self._count_steps(1)
            rest = list(left)
            for place, count in needed.items():
                rest[place] -= count * number
            for rest_of_all, numbers in self._fillings(rest, bag, held, places, outer, first + 1):
                yield rest_of_all, {index: number, **numbers}

    def _shares(self, shape: Shape, caps: Vector, units: list[int]) -> Iterator[dict[int, int]]:
        """Ways to divide the units of a vertex among the resources that they are good for."""
        if len(units) < 2:
            yield {index: min(shape.amount, caps[index]) for index in units}
            return
        grain = self._grain(shape.type, [caps[index] for index in units])
        yield from self._divisions(shape.amount, caps, units, grain)

    def _divisions(self, amount: int, caps: Vector, units: list[int], grain: int) -> Iterator[dict[int, int]]:
        index, others = units[0], units[1:]
        if not others:
            yield {index: min(amount, caps[index])}
            return
        most = min(amount, caps[index])
        for share in range(most, -1, -grain):
            self._count_steps(1)
            for shares in self._divisions(amount - share, caps, others, grain):
                yield {index: share, **shares}

    def _grain(self, type_: str, caps: Iterable[int]) -> int:
        """What every amount of a type is a multiple of, in the graph and the request: no finer division is needed."""
        assert self._root is not None
        key = (self._root, type_)
        if key not in self._grains:
            amounts = [shape.amount for shape in self._root.occurrences() if shape.type == type_]
            self._grains[key] = math.gcd(*amounts, *_amounts_of(type_, _all_needs(self.request)))
        return max(1, math.gcd(self._grains[key], *caps))


def goes_into_nodes(slot: Slot, shape: Shape) -> bool:
    """Whether a slot inside a vertex is found inside one of its nodes."""
    if NODE not in shape.holds:
        return False
    return not any(type_ == NODE or type_ in shape.containers for type_ in types_in(slot.contents))


def _optional_types(needs: Iterable[Need], *, are_defaults: bool) -> Iterator[str]:
    for resource, _ in needs:
        if not isinstance(resource, Unit):
            yield from _optional_types(resource.contents, are_defaults=are_defaults)
        elif resource.is_optional and resource.is_default == are_defaults:
            yield resource.type


def _all_needs(request: ResourceRequest) -> tuple[Need, ...]:
    return request.needs if request.spread is None else (*request.needs, *request.spread.contents)


def _amounts_of(type_: str, needs: Iterable[Need]) -> Iterator[int]:
    for resource, count in needs:
        if not isinstance(resource, Unit):
            yield from _amounts_of(type_, resource.contents)
        elif resource.type == type_:
            yield count
