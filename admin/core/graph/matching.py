"""Matching: whether a request fits a graph, and which vertices it would get.

For a shape and some resources the search computes the frontier: every way to provide them together that no other way
outdoes. Resources that do not compete have a single such way, and equal vertices are computed once, so that the usual
request costs one step for each different shape, however large the cluster. Only a request whose needs compete for the
same units (nodes of two kinds, or two requirements on one type) has more, in the worst case as many as the product of
their counts, and to pack them is hard in general. A first search keeps a few of them, which finds most places; only
where it finds none does a second one look at all, in a bounded number of steps: beyond it the answer is `TooComplex`,
never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, truediv
from typing import NamedTuple

from admin.core.graph.graphs import ClusterGraph, Use
from admin.core.graph.requests import (
    Need,
    Resource,
    ResourceRequest,
    Slot,
    SpreadTasks,
    Unit,
    Vertex,
    merged,
    types_in,
)
from admin.core.graph.requirements import Feature, Requirement
from admin.core.graph.shapes import Shape
from admin.core.graph.units import NODE

#: Steps of the search in one graph; a matcher takes a few times as many in all the graphs that it is asked about.
MOST_STEPS = 50_000
_MOST_GRAPHS = 3
#: Ways that the first, quick search keeps of each frontier.
_KEPT = 64


class TooComplex(Exception):
    """A request whose needs compete in more ways than are tried."""


@dataclass(frozen=True)
class Allocation:
    """What a request gets of a graph, the vertices in their order."""

    uses: tuple[Use, ...]


class _Kind:
    """A resource of the request, with what the search asks of it at every vertex."""

    __slots__ = ("contents", "is_exclusive", "is_named", "is_optional", "number", "requires", "resource", "type")

    def __init__(self, resource: Resource, number: int) -> None:
        self.resource = resource
        self.number = number
        self.type = NODE if isinstance(resource, Slot) else resource.type
        self.requires = resource.requires
        self.contents = () if isinstance(resource, Unit) else resource.contents
        self.is_exclusive = isinstance(resource, Vertex) and resource.is_exclusive
        self.is_optional = isinstance(resource, Unit) and resource.is_optional
        #: Whether an allocation names the vertices, and not only an amount inside the vertex around them.
        self.is_named = not isinstance(resource, Unit) or bool(resource.requires) or resource.type == NODE


_Vector = tuple[int, ...]
_Bag = tuple[tuple[_Kind, int], ...]  #: resources in the order of their numbers, and the most that is needed of each


class _Sum(NamedTuple):
    """Two points of different children together."""

    first: _Point
    second: _Point


class _Product(NamedTuple):
    """The same point for several equal children."""

    point: _Point
    times: int


class _Choice(NamedTuple):
    """What one vertex does for a point."""

    shape: Shape
    bag: _Bag
    own: Mapping[int, int]  #: amounts of the vertex itself, by position in the bag
    chosen: int | None  #: position of the resource that the vertex is taken for
    inner: _Point | None  #: of what is inside it
    inner_bag: _Bag


class _Point(NamedTuple):
    """One way to provide resources: how many of each, and how."""

    vector: _Vector
    origin: _Sum | _Product | _Choice | None


class Matcher:
    """The search for one request; whatever it finds out of a shape serves every graph that shares the shape."""

    def __init__(self, request: ResourceRequest, most_steps: int = MOST_STEPS) -> None:
        self.request = request
        self._steps_left = self._most_steps = most_steps
        self._steps_in_all = most_steps * _MOST_GRAPHS
        self._kinds: dict[Resource, _Kind] = {}
        self._meets: dict[tuple[tuple[Feature, ...], tuple[Requirement, ...]], bool] = {}
        self._described: frozenset[str] = frozenset()
        self._optional = frozenset(self._optional_types(_all_needs(request)))
        self._memos: dict[tuple[frozenset[str], bool], dict[tuple[Shape, _Bag], Sequence[_Point]]] = {}
        self._memo: dict[tuple[Shape, _Bag], Sequence[_Point]] = {}
        self._answers: dict[Shape, bool | None] = {}  #: None where it is too complex to tell
        #: How many tasks a node holds, None where it may hold none; of each set of described types.
        self._all_capacities: dict[frozenset[str], dict[Shape, int | None]] = {}
        self._capacities: dict[Shape, int | None] = {}
        self._without_slots: dict[tuple[int, int, frozenset[str]], tuple[tuple[Need, ...], Mapping[_Kind, int]]] = {}
        self._is_quick = False
        self._is_cut = False  #: a quick search has left something out
        self._grains: dict[tuple[Shape, str], int] = {}
        self._root: Shape | None = None

    def fits(self, graph: ClusterGraph) -> bool:
        """Whether the request fits; TooComplex where that cannot be told in time."""
        root, answers = graph.scope, self._answers
        if root not in answers:
            self.begin(graph)
            spread = self.request.spread
            answers[root] = None
            found = self._whole_point(root) if spread is None else self._spread(root, spread)
            answers[root] = found is not None
        answer = answers[root]
        if answer is None:
            raise TooComplex
        return answer

    def allocate(self, graph: ClusterGraph) -> Allocation | None:
        """What the request would get, None where it does not fit; TooComplex where that cannot be told in time."""
        root = graph.scope
        self.begin(graph)
        if self.request.spread is not None:
            tasks = self._spread(root, self.request.spread)
            return None if tasks is None else self._allocate_spread(root, self.request.spread, tasks)
        found = self._whole_point(root)
        if found is None:
            return None
        point, bag, needs = found
        uses: list[Use] = []
        self._use_scope(root, -1, point, bag, needs, uses)
        placed = (use._replace(vertex=max(use.vertex, 0)) for use in uses)  # what may be anywhere is of the root
        return Allocation(tuple(sorted(placed, key=lambda use: use.vertex)))

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
        bag = _bag({kind: count * most for kind, count in opened.items()})
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

    def begin(self, graph: ClusterGraph) -> None:
        """Ask about a graph from now on."""
        root = self._root = graph.scope
        described = self._optional & root.holds
        if described != self._described or not self._all_capacities:
            self._described = described
            self._capacities = self._all_capacities.setdefault(described, {})

    def _begin_search(self, *, is_quick: bool) -> None:
        self._steps_left = min(self._most_steps, self._steps_in_all)
        self._is_quick = is_quick
        self._memo = self._memos.setdefault((self._described, is_quick), {})

    @staticmethod
    def _optional_types(needs: Iterable[Need]) -> Iterator[str]:
        for resource, _ in needs:
            if isinstance(resource, Unit):
                if resource.is_optional:
                    yield resource.type
            else:
                yield from Matcher._optional_types(resource.contents)

    def _whole_point(self, root: Shape) -> tuple[_Point, _Bag, Mapping[_Kind, int]] | None:
        """A point that provides everything the request needs."""
        needs = self._opened(self.request.needs, root)
        if needs is None:
            return None
        bag = _bag(needs)
        wanted = tuple(count for _, count in bag)
        for is_quick in (True, False):
            self._begin_search(is_quick=is_quick)
            for point in self._inside(root, bag):
                if point.vector == wanted:
                    return point, bag, needs
            if not self._is_cut:
                return None
        return None

    def _kind(self, resource: Resource) -> _Kind:
        kind = self._kinds.get(resource)
        if kind is None:
            kind = self._kinds[resource] = _Kind(resource, len(self._kinds))
        return kind

    def _opened(self, needs: tuple[Need, ...], shape: Shape, times: int = 1) -> Mapping[_Kind, int] | None:
        """The needs to be found inside a vertex, without slots that can only be in this very vertex.

        None where such a slot requires what the vertex has not.
        """
        key = (id(needs), times, self._described)
        known = self._without_slots.get(key)
        if known is not None:
            return known[1]
        opened = self._opened_anew(needs, shape, times)
        if opened is not None and not any(isinstance(need.resource, Slot) for need in needs):
            self._without_slots[key] = (needs, opened)  # with the needs, so that no others get their id
        return opened

    def _opened_anew(self, needs: tuple[Need, ...], shape: Shape, times: int) -> dict[_Kind, int] | None:
        opened: dict[_Kind, int] = {}
        for resource, count in merged(needs).items():
            kind = self._kind(resource)
            if kind.is_optional and kind.type not in self._described:
                continue
            if isinstance(resource, Slot) and not _goes_into_nodes(resource, shape):
                inner = self._opened(resource.contents, shape, count * times)
                if inner is None or not self.meets(shape, resource.requires):
                    return None
                for inner_kind, amount in inner.items():
                    opened[inner_kind] = opened.get(inner_kind, 0) + amount
            else:
                opened[kind] = opened.get(kind, 0) + count * times
        return opened

    def _inside(self, shape: Shape, bag: _Bag) -> Sequence[_Point]:
        """The frontier of what is inside a vertex."""
        below = shape.below
        if not any(kind.is_named for kind, _ in bag):  # amounts of different types, of which nothing competes
            return (_Point(tuple([min(count, below.get(kind.type, 0)) for kind, count in bag]), None),)
        relevant = tuple(entry for entry in bag if below.get(entry[0].type))
        if len(relevant) == len(bag):
            return self._frontier(shape, bag)
        points = self._frontier(shape, relevant)
        numbers = {kind: index for index, (kind, _) in enumerate(relevant)}
        places = [numbers.get(kind) for kind, _ in bag]
        return [
            _Point(tuple(0 if place is None else point.vector[place] for place in places), point.origin)
            for point in points
        ]

    def _frontier(self, shape: Shape, bag: _Bag) -> Sequence[_Point]:
        if not bag:
            return (_Point((), None),)
        key = (shape, bag)
        points = self._memo.get(key)
        if points is None:
            points = self._memo[key] = self._frontier_anew(shape, bag)
        return points

    def _frontier_anew(self, shape: Shape, bag: _Bag) -> Sequence[_Point]:
        caps = tuple(count for _, count in bag)
        points: Sequence[_Point] = (_Point((0,) * len(bag), None),)
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

    def _of_vertex(self, shape: Shape, bag: _Bag, caps: _Vector) -> Sequence[_Point]:
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

    def _of_units(self, shape: Shape, bag: _Bag, caps: _Vector, units: list[int]) -> Sequence[_Point]:
        return self._best(
            [
                _Point(
                    tuple(shares.get(index, 0) for index in range(len(bag))),
                    _Choice(shape, bag, shares, None, None, ()),
                )
                for shares in self._shares(shape, caps, units)
            ],
            caps,
        )

    def _not_taken(
        self, shape: Shape, bag: _Bag, caps: _Vector, units: list[int], slots: list[int]
    ) -> Iterator[_Point]:
        """What a vertex provides that is taken for no resource: its units and its contents."""
        for inner, inner_bag, vector in self._with_slots(shape, bag, slots, {}):
            for shares in self._shares(shape, caps, units):
                total = tuple(min(caps[index], have + shares.get(index, 0)) for index, have in enumerate(vector))
                yield _Point(total, _Choice(shape, bag, shares, None, inner, inner_bag))

    def _taken(self, shape: Shape, bag: _Bag, caps: _Vector, index: int, slots: list[int]) -> Iterator[_Point]:
        """What a vertex provides that is taken for a resource: itself, and what its contents leave."""
        kind = bag[index][0]
        needs = self._opened(kind.contents, shape)
        if needs is None:
            return
        if kind.is_exclusive:
            inner_bag = _bag(needs)
            wanted = tuple(count for _, count in inner_bag)
            for inner in self._inside(shape, inner_bag):
                if inner.vector == wanted:
                    vector = tuple(int(position == index) for position in range(len(bag)))
                    yield _Point(vector, _Choice(shape, bag, {}, index, inner, inner_bag))
                    return
            return
        for inner, inner_bag, vector in self._with_slots(shape, bag, slots, needs):
            total = tuple(min(caps[position], have + (position == index)) for position, have in enumerate(vector))
            yield _Point(total, _Choice(shape, bag, {}, index, inner, inner_bag))

    def _with_slots(
        self, shape: Shape, bag: _Bag, slots: list[int], needs: Mapping[_Kind, int]
    ) -> Iterator[tuple[_Point, _Bag, _Vector]]:
        """Ways to fill a vertex beside some needs: the point inside it, its bag, and what it provides of the outer bag.

        The slots of the bag are opened here, since the vertex is a node.
        """
        held = []
        for index in slots:
            contents = self._opened(bag[index][0].contents, shape)
            if contents is not None:
                held.append((index, contents))
        caps: dict[_Kind, int] = {kind: count for index, (kind, count) in enumerate(bag) if index not in slots}
        for kind, count in needs.items():
            caps[kind] = caps.get(kind, 0) + count
        for index, contents in held:
            for kind, count in contents.items():
                caps[kind] = caps.get(kind, 0) + count * bag[index][1]
        inner_bag = _bag(caps)
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
        bag: _Bag,
        held: list[tuple[int, Mapping[_Kind, int]]],
        places: Mapping[_Kind, int],
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

    def _shares(self, shape: Shape, caps: _Vector, units: list[int]) -> Iterator[dict[int, int]]:
        """Ways to divide the units of a vertex among the resources that they are good for."""
        if len(units) < 2:
            yield {index: min(shape.amount, caps[index]) for index in units}
            return
        grain = self._grain(shape.type, [caps[index] for index in units])
        yield from self._divisions(shape.amount, caps, units, grain)

    def _divisions(self, amount: int, caps: _Vector, units: list[int], grain: int) -> Iterator[dict[int, int]]:
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

    def _times(self, points: Sequence[_Point], times: int, caps: _Vector) -> Sequence[_Point]:
        """The frontier of several equal vertices."""
        if times == 1:
            return points
        if len(points) == 1:
            point = points[0]
            vector = tuple(min(cap, have * times) for cap, have in zip(caps, point.vector, strict=True))
            return (_Point(vector, _Product(point, times)),)
        result: Sequence[_Point] | None = None
        power = points
        while True:
            if times & 1:
                result = power if result is None else self._sum(result, power, caps)
            times >>= 1
            if not times:
                return result or ()
            power = self._sum(power, power, caps)

    def _sum(self, first: Sequence[_Point], second: Sequence[_Point], caps: _Vector) -> Sequence[_Point]:
        """The frontier of two groups of vertices together."""
        sums = []
        for one in first:
            for other in second:
                vector = tuple(
                    [min(cap, have + more) for cap, have, more in zip(caps, one.vector, other.vector, strict=True)]
                )
                point = _Point(vector, _Product(other, 1) if one.origin is None else _Sum(one, other))
                if vector == caps:  # nothing outdoes it
                    return (point,)
                sums.append(point)
            self._count_steps(len(second) - 1)
        return sums if len(sums) == 1 else self._best(sums, caps)

    def _best(self, points: Sequence[_Point], caps: _Vector) -> Sequence[_Point]:
        """The points that no other point outdoes."""
        if len(points) < 2:
            return points
        if self._is_quick and len(points) > 4 * _KEPT:
            points = self._cut(points, caps, 4 * _KEPT)
        by_vector = {point.vector: point for point in reversed(points)}
        highest = tuple(map(max, zip(*by_vector, strict=True)))
        if highest in by_vector:
            return [by_vector[highest]]
        ordered = sorted(by_vector, reverse=True)  # what outdoes another comes before it
        best: list[_Vector] = []
        if len(highest) == 2:
            for vector in ordered:
                if not best or vector[1] > best[-1][1]:
                    best.append(vector)
        else:
            for vector in ordered:
                self._count_steps(1 + len(best) // 4)
                if not any(all(map(int.__ge__, other, vector)) for other in best):
                    best.append(vector)
        best_points = [by_vector[vector] for vector in best]
        return self._cut(best_points, caps, _KEPT) if self._is_quick and len(best) > _KEPT else best_points

    def _cut(self, points: Sequence[_Point], caps: _Vector, most: int) -> Sequence[_Point]:
        """A few of many points: those that provide the most of what they provide least of, and some of all others."""
        self._is_cut = True
        half = most // 2
        even = sorted(points, key=lambda point: -min(map(truediv, point.vector, caps)))[:half]
        return [*even, *points[:: 1 + len(points) // half]]

    def _count_steps(self, steps: int) -> None:
        self._steps_left -= steps
        self._steps_in_all -= steps
        if self._steps_left < 0:
            raise TooComplex

    def _spread(self, root: Shape, spread: SpreadTasks) -> list[tuple[Shape, int, int]] | None:
        """The nodes for tasks over several, by shape: how many of them, and how many tasks each could hold."""
        capacities = []
        for shape, count in root.nodes.items():
            if shape in self._capacities:
                capacity = self._capacities[shape]
            else:
                may_hold = self._may_hold(shape, spread)
                capacity = self.capacity(shape, spread.contents, spread.tasks) if may_hold else None
                self._capacities[shape] = capacity
            if capacity is not None:
                capacities.append((capacity, count, shape))
        if len(capacities) > 1:
            capacities.sort(key=itemgetter(0), reverse=True)
        nodes, tasks = spread.nodes, spread.tasks
        chosen = []
        for capacity, count, shape in capacities:
            taken = min(nodes, count)
            if not taken or (capacity == 0 and spread.tasks >= spread.nodes):
                break
            chosen.append((shape, taken, capacity))
            nodes -= taken
            tasks -= taken * capacity
        return chosen if not nodes and tasks <= 0 else None

    def _may_hold(self, shape: Shape, spread: SpreadTasks) -> bool:
        is_free = shape.amount > 0 and (shape.is_untouched or not spread.is_exclusive)
        return is_free and self.meets(shape, spread.requires)

    def _allocate_spread(self, root: Shape, spread: SpreadTasks, chosen: list[tuple[Shape, int, int]]) -> Allocation:
        """Every node gets a task, then as many more as it holds, in order."""
        wanted = {shape: [taken, capacity] for shape, taken, capacity in chosen}
        least = 1 if spread.tasks >= spread.nodes else 0
        extra = spread.tasks - least * spread.nodes
        uses: list[Use] = []
        for position, shape in _nodes_in(root, -1, {shape: entry[0] for shape, entry in wanted.items()}):
            more = min(extra, wanted[shape][1] - least)
            extra -= more
            self._use_contents(shape, position, spread, least + more, uses)
        return Allocation(tuple(uses))

    def _use_contents(self, shape: Shape, position: int, spread: SpreadTasks, tasks: int, uses: list[Use]) -> None:
        if spread.is_exclusive:
            uses.append(Use(position, {}, is_whole=True))
            return
        opened = self._opened(spread.contents, shape, tasks) or {}
        needs = {kind: count for kind, count in opened.items() if count}
        bag = _bag(needs)
        wanted = tuple(count for _, count in bag)
        self._begin_search(is_quick=False)
        point = next(point for point in self._inside(shape, bag) if point.vector == wanted)
        uses.append(Use(position, {NODE: 1}))
        self._use_scope(shape, position, point, bag, needs, uses)

    def _use_scope(
        self,
        shape: Shape,
        start: int,
        point: _Point,
        bag: _Bag,
        needs: Mapping[_Kind, int],
        uses: list[Use],
    ) -> None:
        """Use what is needed inside a vertex: amounts as a whole, and vertices that are named."""
        amounts: dict[str, int] = {}
        for kind, count in needs.items():
            if not kind.is_named and count:
                amounts[kind.type] = amounts.get(kind.type, 0) + count
        if amounts:
            uses.append(Use(start, amounts))
        targets = {kind: count for kind, count in needs.items() if kind.is_named and count}
        if targets:
            self._use_inside(shape, start, point, bag, targets, uses)

    def _use_inside(
        self,
        shape: Shape,
        start: int,
        point: _Point,
        bag: _Bag,
        targets: dict[_Kind, int],
        uses: list[Use],
    ) -> None:
        """Use so many of some resources inside a vertex, as the point says how."""
        left = dict(targets)
        queues: dict[Shape, list[tuple[_Point, dict[_Kind, int]]]] = {}
        for part, times in _parts(point):
            assert isinstance(part.origin, _Choice)
            for _ in range(times):
                taken = {
                    kind: min(left[kind], have)
                    for (kind, _), have in zip(part.origin.bag, part.vector, strict=True)
                    if have and left.get(kind)
                }
                if not taken:
                    break
                for kind, count in taken.items():
                    left[kind] -= count
                queues.setdefault(part.origin.shape, []).append((part, taken))
        assert not any(left.values())
        position = start + 1
        for child, times in shape.runs:
            queue = queues.get(child)
            if queue:
                for number, (part, taken) in enumerate(queue[:times]):
                    self._use_vertex(child, position + number * child.vertices, part, taken, uses)
                del queue[:times]
            position += child.vertices * times

    def _use_vertex(
        self, shape: Shape, start: int, point: _Point, targets: Mapping[_Kind, int], uses: list[Use]
    ) -> None:
        choice = point.origin
        assert isinstance(choice, _Choice)
        left = dict(targets)
        for index, amount in choice.own.items():
            kind = choice.bag[index][0]
            used = min(amount, left.get(kind, 0))
            if used:
                uses.append(Use(start, {shape.type: used}))
                left[kind] -= used
        needs: dict[_Kind, int] = {}
        if choice.chosen is not None and left.get(choice.bag[choice.chosen][0]):
            kind = choice.bag[choice.chosen][0]
            left[kind] -= 1
            if kind.is_exclusive:
                uses.append(Use(start, {}, is_whole=True))
                return
            uses.append(Use(start, {shape.type: 1}))
            needs = dict(self._opened(kind.contents, shape) or {})
        outer: dict[_Kind, int] = {}
        for kind, count in left.items():
            if not count:
                continue
            if isinstance(kind.resource, Slot) and shape.type == NODE:
                for inner_kind, amount in (self._opened(kind.contents, shape, count) or {}).items():
                    needs[inner_kind] = needs.get(inner_kind, 0) + amount
            else:
                outer[kind] = count
        if choice.inner is None:
            return
        for kind, count in outer.items():
            needs[kind] = needs.get(kind, 0) + count
        self._use_scope(shape, start, choice.inner, choice.inner_bag, needs, uses)


def _goes_into_nodes(slot: Slot, shape: Shape) -> bool:
    """Whether a slot inside a vertex is found inside one of its nodes."""
    if NODE not in shape.holds:
        return False
    return not any(type_ == NODE or type_ in shape.containers for type_ in types_in(slot.contents))


def _bag(counts: Mapping[_Kind, int]) -> _Bag:
    return tuple(sorted(((kind, count) for kind, count in counts.items() if count), key=lambda entry: entry[0].number))


def _parts(point: _Point) -> Iterator[tuple[_Point, int]]:
    """The points of single vertices that a point of several is made of, in their order."""
    waiting = [(point, 1)]
    while waiting:
        part, times = waiting.pop()
        match part.origin:
            case None:
                continue
            case _Sum():
                assert times == 1
                waiting += [(part.origin.second, 1), (part.origin.first, 1)]
            case _Product():
                waiting.append((part.origin.point, times * part.origin.times))
            case _Choice():
                yield part, times


def _nodes_in(shape: Shape, start: int, wanted: dict[Shape, int]) -> Iterator[tuple[int, Shape]]:
    """The positions of so many nodes of each wanted shape, the first ones."""
    position = start + 1
    for child, times in shape.runs:
        for number in range(times):
            if child.type == NODE:
                if not wanted.get(child):
                    break
                wanted[child] -= 1
                yield position + number * child.vertices, child
            elif any(wanted.get(node) for node in child.nodes):
                yield from _nodes_in(child, position + number * child.vertices, wanted)
            else:
                break
        position += child.vertices * times


def _all_needs(request: ResourceRequest) -> tuple[Need, ...]:
    return request.needs if request.spread is None else (*request.needs, *request.spread.contents)


def _amounts_of(type_: str, needs: Iterable[Need]) -> Iterator[int]:
    for resource, count in needs:
        if not isinstance(resource, Unit):
            yield from _amounts_of(type_, resource.contents)
        elif resource.type == type_:
            yield count
