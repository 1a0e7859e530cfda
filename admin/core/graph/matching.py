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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

from admin.core.graph.frontiers import MOST_STEPS, TooComplex
from admin.core.graph.graphs import ClusterGraph, Use
from admin.core.graph.points import Bag, Choice, Kind, Point, bag_of, parts_of
from admin.core.graph.requests import ResourceRequest, Slot, SpreadTasks, Unit, Vertex
from admin.core.graph.search import Search, goes_into_nodes
from admin.core.graph.shapes import Shape
from admin.core.graph.units import NODE


@dataclass(frozen=True)
class Allocation:
    """What a request gets of a graph, the vertices in their order."""

    uses: tuple[Use, ...]


class Matcher(Search):
    """The search for one request; whatever it finds out of a shape serves every graph that shares the shape."""

    def __init__(self, request: ResourceRequest, most_steps: int = MOST_STEPS) -> None:
        super().__init__(request, most_steps)
        self._answers: dict[Shape, bool | None] = {}  #: None where it is too complex to tell
        #: The slot or the node, and how many of it, that is all the request asks for; None where it asks for more.
        self._by_node, self._count = _sole_need(request)

    def fits(self, graph: ClusterGraph) -> bool:
        """Whether the request fits; TooComplex where that cannot be told in time."""
        root, answers = graph.scope, self._answers
        if root not in answers:
            self.begin(graph)
            spread = self.request.spread
            answers[root] = None
            if spread is not None:
                answers[root] = self._spread(root, spread) is not None
            else:
                answers[root] = self._fits_node_by_node(root) or self._whole_point(root) is not None
        answer = answers[root]
        if answer is None:
            raise TooComplex
        return answer

    def surely_fits(self, graph: ClusterGraph) -> bool:
        """Whether the request fits by nodes alone that were looked at for other graphs; at once, and often no."""
        root = graph.scope
        self.begin(graph)
        if self.request.spread is not None:
            return self._spread(root, self.request.spread, only_known=True) is not None
        return self._goes_by_node(root) and self._known_count(root) >= self._count

    def _fits_node_by_node(self, root: Shape) -> bool:
        """Whether the request fits when as many as can go into each node, where all it asks of nodes is amounts."""
        if not self._goes_by_node(root):
            return False  # which takes a search
        for shape in root.nodes:
            if shape not in self._capacities:
                self._capacities[shape] = self._node_capacity(shape)
        return self._known_count(root) >= self._count

    def _goes_by_node(self, root: Shape) -> bool:
        by_node = self._by_node
        return by_node is not None and (isinstance(by_node, Vertex) or goes_into_nodes(by_node, root))

    def _known_count(self, root: Shape) -> int:
        """How many slots or nodes of the request the nodes provide that were looked at, or enough of them."""
        count, capacities = 0, self._capacities
        for shape, times in root.nodes.items():
            count += times * (capacities.get(shape) or 0)
            if count >= self._count:
                break
        return count

    def _node_capacity(self, shape: Shape) -> int:
        """How many of the slot, or of the node that is asked for, a node is good for."""
        resource = self._by_node
        if not isinstance(resource, Slot):
            return int(resource is not None and self.holds(shape, resource))
        is_able = shape.amount > 0 and self.meets(shape, resource.requires)
        return self.capacity(shape, resource.contents, self._count) if is_able else 0

    def allocate(self, graph: ClusterGraph) -> Allocation | None:
        """What the request would get, None where it does not fit; TooComplex where that cannot be told in time."""
        root = graph.scope
        self.begin(graph)
        if self.request.spread is not None:
            tasks = self._spread(root, self.request.spread)
            return None if tasks is None else self._allocate_spread(root, self.request.spread, tasks)
        whole = self._whole_point(root)
        if whole is None:
            return None
        point, bag, needs = whole
        uses: list[Use] = []
        self._use_scope(root, -1, point, bag, needs, uses)
        placed = (use._replace(vertex=max(use.vertex, 0)) for use in uses)  # what may be anywhere is of the root
        return Allocation(tuple(sorted(placed, key=lambda use: use.vertex)))

    def _whole_point(self, root: Shape) -> tuple[Point, Bag, Mapping[Kind, int]] | None:
        """A point that provides everything the request needs."""
        needs = self._opened(self.request.needs, root)
        if needs is None:
            return None
        bag = bag_of(needs)
        wanted = tuple(count for _, count in bag)
        for is_quick in (True, False):
            self._begin_search(is_quick=is_quick)
            for point in self._inside(root, bag):
                if point.vector == wanted:
                    return point, bag, needs
            if not self._is_cut:
                return None
        return None

    def _spread(
        self, root: Shape, spread: SpreadTasks, *, only_known: bool = False
    ) -> list[tuple[Shape, int, int]] | None:
        """The nodes for tasks over several, by shape: how many of them, and how many tasks each could hold."""
        capacities = []
        for shape, count in root.nodes.items():
            if shape in self._capacities:
                capacity = self._capacities[shape]
            elif only_known:
                continue
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
        bag = bag_of(needs)
        wanted = tuple(count for _, count in bag)
        self._begin_search(is_quick=False)
        point = next(point for point in self._inside(shape, bag) if point.vector == wanted)
        uses.append(Use(position, {NODE: 1}))
        self._use_scope(shape, position, point, bag, needs, uses)

    def _use_scope(
        self,
        shape: Shape,
        start: int,
        point: Point,
        bag: Bag,
        needs: Mapping[Kind, int],
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
        point: Point,
        bag: Bag,
        targets: dict[Kind, int],
        uses: list[Use],
    ) -> None:
        """Use so many of some resources inside a vertex, as the point says how."""
        left = dict(targets)
        queues: dict[Shape, list[tuple[Point, dict[Kind, int]]]] = {}
        for part, times in parts_of(point):
            assert isinstance(part.origin, Choice)
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

    def _use_vertex(self, shape: Shape, start: int, point: Point, targets: Mapping[Kind, int], uses: list[Use]) -> None:
        choice = point.origin
        assert isinstance(choice, Choice)
        left = dict(targets)
        for index, amount in choice.own.items():
            kind = choice.bag[index][0]
            used = min(amount, left.get(kind, 0))
            if used:
                uses.append(Use(start, {shape.type: used}))
                left[kind] -= used
        needs: dict[Kind, int] = {}
        if choice.chosen is not None and left.get(choice.bag[choice.chosen][0]):
            kind = choice.bag[choice.chosen][0]
            left[kind] -= 1
            if kind.is_exclusive:
                uses.append(Use(start, {}, is_whole=True))
                return
            uses.append(Use(start, {shape.type: 1}))
            needs = dict(self._opened(kind.contents, shape) or {})
        outer: dict[Kind, int] = {}
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


def _sole_need(request: ResourceRequest) -> tuple[Slot | Vertex | None, int]:
    """The slot or node of amounts alone that is all a request needs, which is what most jobs ask for."""
    resource, count = request.needs[0] if len(request.needs) == 1 else (None, 0)
    if resource is None or isinstance(resource, Unit) or (isinstance(resource, Vertex) and resource.type != NODE):
        return None, 0
    is_plain = all(isinstance(need.resource, Unit) and not need.resource.requires for need in resource.contents)
    return (resource, count) if is_plain else (None, 0)


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
