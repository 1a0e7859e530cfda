"""Small cluster graphs and requests at random, and a slow matcher that tries everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from admin.core.graph.graphs import ClusterGraph, Use
from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, Vertex, types_in
from admin.core.graph.requirements import CONTAINMENT, Feature, Requirement
from admin.core.graph.shapes import Shape
from admin.core.graph.units import MEASURED, unit_amount

_INNER = ("rack", "node", "node", "socket")
_LEAVES = ("core", "core", "core", "gpu", "socket", "node", "memory", "storage")
_FEATURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("io", {"type": "shm", "capacity": 10}),
    ("io", {"type": "nvme", "capacity": 20}),
    ("software", {"version": "0.5.2"}),
    ("software", {"version": "0.7.1", "type": "shm"}),
)
_REQUIREMENTS = (
    Requirement("io", "type", match="shm"),
    Requirement("io", "capacity", lowest=15),
    Requirement("software", "version", lowest="0.5", highest="0.6"),
    Requirement("software", "version", lowest="0.7"),
    Requirement(CONTAINMENT, "colour", match="red"),
)


ANYWHERE = -1  #: what is around the root


@dataclass
class SmallVertex:
    """A vertex that knows the one around it."""

    id: str
    type: str
    parent: int | None
    size: int
    features: list[Feature]
    children: list[int]


@dataclass
class SmallGraph:
    """A graph with every vertex at hand, and what is free of each."""

    vertices: list[SmallVertex]
    free: list[int]

    def below(self, vertex: int) -> Iterator[int]:
        if vertex == ANYWHERE:
            yield from range(len(self.vertices))
            return
        for child in self.vertices[vertex].children:
            yield child
            yield from self.below(child)

    def is_full(self, vertex: int) -> bool:
        return self.free[vertex] == self.vertices[vertex].size * unit_amount(self.vertices[vertex].type)

    def documents(self, random: Random) -> tuple[dict[str, Any], dict[str, Any]]:
        """The description and the subsystems, in either of the shapes in which they are found."""
        order = list(range(len(self.vertices)))
        random.shuffle(order)
        nodes: dict[str, Any] = {}
        edges: list[dict[str, Any]] = []
        subsystems: dict[str, Any] = {}
        is_list = random.random() < 0.5
        for number in order:
            vertex = self.vertices[number]
            own = next((dict(f.fields) for f in vertex.features if f.subsystem == CONTAINMENT), {})
            unit = {"unit": "B"} if vertex.type in MEASURED else {}
            metadata = {"type": vertex.type, "size": vertex.size, "uniq_id": number, **unit, **own}
            nodes[vertex.id] = {"metadata": metadata}
            if vertex.parent is not None:
                parent = self.vertices[vertex.parent].id
                edges.append(_edge(parent, vertex.id, "contains", is_list=is_list))
                edges.append(_edge(vertex.id, parent, "in", is_list=is_list))
            for feature in vertex.features:
                if feature.subsystem == CONTAINMENT:
                    continue
                subsystem = subsystems.setdefault(feature.subsystem, {"graph": {"nodes": {}, "edges": []}})["graph"]
                id_ = f"{feature.subsystem}{len(subsystem['nodes'])}"
                subsystem["nodes"][id_] = {"metadata": {"type": "thing", **feature.fields}}
                subsystem["edges"].append({"source": vertex.id, "target": id_, "relation": "contains"})
        random.shuffle(edges)
        listed = [{"id": id_, **vertex} for id_, vertex in nodes.items()]
        return {"graph": {"nodes": listed if is_list else nodes, "edges": edges}}, subsystems

    def take(self, graph: ClusterGraph, random: Random) -> ClusterGraph:
        """The graph when something is taken of vertices that hold nothing, which is taken here too."""
        uses = []
        for number, vertex in enumerate(self.vertices):
            if not vertex.children and random.random() < 0.3:
                taken = random.randrange(vertex.size + 1) * unit_amount(vertex.type)
                self.free[number] -= taken
                position = next(place for place, id_ in enumerate(graph.ids) if id_ == vertex.id)
                uses.append(Use(position, {vertex.type: taken}))
        return graph.without(uses)


def _edge(source: str, target: str, relation: str, *, is_list: bool) -> dict[str, Any]:
    if not is_list:
        return {"source": source, "target": target, "relation": relation}
    return {"source": source, "target": target, "metadata": {"subsystem": "containment", "relationship": relation}}


def cluster_document(nodes: int, cores: int, gpus: int = 0) -> dict[str, Any]:
    """The description of a cluster of equal nodes, vertex by vertex."""
    vertices: dict[str, Any] = {}
    edges: list[dict[str, str]] = []

    def add(name: str, type_: str, parent: str | None) -> None:
        vertices[str(len(vertices))] = {
            "metadata": {"type": type_, "name": name, "size": 1, "unit": "", "rank": -1, "exclusive": False}
        }
        if parent is not None:
            id_ = str(len(vertices) - 1)
            edges.append({"source": parent, "target": id_, "relation": "contains"})
            edges.append({"source": id_, "target": parent, "relation": "in"})

    add("cluster0", "cluster", None)
    for node in range(nodes):
        id_ = str(len(vertices))
        add(f"node{node}", "node", "0")
        for core in range(cores):
            add(f"core{core}", "core", id_)
        for gpu in range(gpus):
            add(f"gpu{gpu}", "gpu", id_)
    return {"graph": {"nodes": vertices, "edges": edges}}


def random_graph(random: Random, most: int = 12) -> SmallGraph:
    """A tree in which nodes hold no nodes, and only what holds nothing is a pool."""
    root_type = random.choice(("cluster", "cluster", "cluster", "node", "rack"))
    vertices = [SmallVertex("root", root_type, None, 1, [], [])]
    inner, has_node = [0], [root_type == "node"]
    for number in range(1, random.randint(most // 2, most)):
        place = random.randrange(len(inner))
        parent, is_inside = inner[place], has_node[place]
        holds = random.random() < 0.45 and number < most - 1
        type_ = random.choice(_INNER if holds else _LEAVES)
        while type_ == "node" and is_inside:
            type_ = random.choice(_INNER if holds else _LEAVES)
        features = [Feature(*feature) for feature in _FEATURES if random.random() < 0.6]
        if random.random() < 0.3:
            features.append(Feature(CONTAINMENT, {"colour": random.choice(("red", "blue"))}))
        vertices.append(
            SmallVertex(f"v{number}", type_, parent, 1 if holds else random.choice((0, 1, 1, 2, 3)), features, [])
        )
        vertices[parent].children.append(number)
        if holds:
            inner.append(number)
            has_node.append(is_inside or type_ == "node")
    for vertex in vertices[1:]:  # what was to hold others and holds none may be a pool
        if vertex.children:
            vertex.size = 1
    return SmallGraph(vertices, [vertex.size * unit_amount(vertex.type) for vertex in vertices])


def random_request(random: Random) -> ResourceRequest:
    """A request of a few needs, or of tasks over nodes."""
    if random.random() < 0.2:
        contents = tuple(_random_needs(random, 1, 2, units_only=True))
        nodes = random.randint(1, 3)
        tasks = random.randint(1, 4)
        spread = SpreadTasks(nodes, tasks, contents, _random_requires(random), random.random() < 0.2)
        return ResourceRequest(spread=spread)
    return ResourceRequest(tuple(_random_needs(random, 2, 2)))


def likely_request(graph: SmallGraph, random: Random) -> ResourceRequest:
    """A request made after the graph, so that it may well fit."""
    if random.random() < 0.2:
        nodes = [number for number, vertex in enumerate(graph.vertices) if vertex.type == "node"]
        if nodes:
            node = random.choice(nodes)
            contents = tuple(need for need in _likely_needs(graph, random, node) if isinstance(need.resource, Unit))
            requires = _likely_requires(graph, random, node)
            tasks, count = random.randint(1, 4), random.randint(1, 2)
            return ResourceRequest(spread=SpreadTasks(count, tasks, contents, requires, random.random() < 0.2))
    return ResourceRequest(tuple(_likely_needs(graph, random, ANYWHERE)))


def _likely_needs(graph: SmallGraph, random: Random, scope: int) -> Iterator[Need]:
    inside = list(graph.below(scope))
    for number in random.sample(inside, min(len(inside), random.choice((1, 1, 2, 3)))):
        vertex = graph.vertices[number]
        requires = _likely_requires(graph, random, number)
        count = random.choice((1, 1, 1, 2))
        if vertex.children and random.random() < 0.8:
            contents = tuple(_likely_needs(graph, random, number))
            if vertex.type == "node" and random.random() < 0.5:
                yield Need(Slot(contents, requires), count)
            else:
                yield Need(Vertex(vertex.type, contents, requires, random.random() < 0.2), count)
        else:
            is_default = vertex.type in MEASURED and random.random() < 0.5
            yield Need(Unit(vertex.type, requires, is_default), random.randint(1, 3) * unit_amount(vertex.type))


def _likely_requires(graph: SmallGraph, random: Random, number: int) -> tuple[Requirement, ...]:
    met = [requirement for requirement in _REQUIREMENTS if requirement.holds(graph.vertices[number].features)]
    return tuple(random.sample(met, min(len(met), random.choice((0, 0, 1, 2)))))


def _random_needs(random: Random, depth: int, most: int, *, units_only: bool = False) -> Iterator[Need]:
    for _ in range(random.randint(1, most)):
        kind = "unit" if depth == 0 or units_only else random.choice(("unit", "vertex", "vertex", "slot"))
        if kind == "unit":
            type_ = random.choice(("core", "core", "core", "gpu", "socket", "node", "memory", "storage"))
            is_default = type_ in MEASURED and random.random() < 0.5
            yield Need(Unit(type_, _random_requires(random), is_default), random.randint(1, 2) * unit_amount(type_))
            continue
        contents = tuple(_random_needs(random, depth - 1, 2))
        if kind == "slot":
            yield Need(Slot(contents, _random_requires(random)), random.randint(1, 2))
        else:
            is_exclusive = random.random() < 0.2
            vertex = Vertex(random.choice(_INNER), contents, _random_requires(random), is_exclusive)
            yield Need(vertex, random.randint(1, 2))


def _random_requires(random: Random) -> tuple[Requirement, ...]:
    if random.random() < 0.7:
        return ()
    return tuple(random.sample(_REQUIREMENTS, random.randint(1, 2)))


def small_graph_of(graph: ClusterGraph) -> SmallGraph:
    """A graph with every vertex at hand."""
    vertices: list[SmallVertex] = []

    def add(shape: Shape, parent: int | None) -> None:
        number = len(vertices)
        size = shape.amount // unit_amount(shape.type)
        vertices.append(SmallVertex(str(number), shape.type, parent, size, list(shape.features), []))
        if parent is not None:
            vertices[parent].children.append(number)
        for child, times in shape.runs:
            for _ in range(times):
                add(child, number)

    add(graph.root, None)
    return SmallGraph(vertices, [vertex.size * unit_amount(vertex.type) for vertex in vertices])


def fits_by_trying(graph: SmallGraph, request: ResourceRequest) -> bool:
    """Whether a request fits, by trying every vertex for every unit."""
    trial = _Trial(graph)
    if request.spread is not None:
        return trial.spread(request.spread)
    return trial.place([(need, ANYWHERE) for need in request.needs], list(graph.free), frozenset())


_Item = tuple[Need, int]  #: and the vertex inside which it is found
_State = tuple[list[_Item], list[int], frozenset[int]]


class _Trial:
    def __init__(self, graph: SmallGraph) -> None:
        self.graph = graph
        self.types = {vertex.type for vertex in graph.vertices}
        self.failed: set[tuple[Any, ...]] = set()

    def place(self, items: list[_Item], free: list[int], shared: frozenset[int]) -> bool:
        """Whether the items have places; -1 is free of what was taken exclusively, and `shared` nodes have slots."""
        if not items:
            return True
        key = (tuple(items), tuple(free), shared)
        if key in self.failed:
            return False
        if any(self.place(*step) for step in self.steps(items, free, shared)):
            return True
        self.failed.add(key)
        return False

    def steps(self, items: list[_Item], free: list[int], shared: frozenset[int]) -> Iterator[_State]:
        """Every way to place one more of the first item."""
        ((resource, count), scope), rest = items[0], items[1:]
        vertices = self.graph.vertices
        if isinstance(resource, Unit):
            if count == 0 or (resource.is_optional and not self.describes(resource, scope)):
                yield rest, free, shared
                return
            grain = unit_amount(resource.type)
            for number in self.graph.below(scope):
                if vertices[number].type == resource.type and free[number] >= grain and self.meets(number, resource):
                    left = _less(free, number, grain)
                    yield [(Need(resource, count - grain), scope), *rest], left, shared
            return
        if count == 0:
            yield rest, free, shared
            return
        fewer = [(Need(resource, count - 1), scope), *rest]
        if isinstance(resource, Slot):
            if not self.goes_into_nodes(resource, scope):
                if self.meets(scope, resource):
                    yield [*((need, scope) for need in resource.contents), *fewer], free, shared
                return
            for number in self.graph.below(scope):
                is_free = self.graph.free[number] > 0 and free[number] >= 0
                if vertices[number].type == "node" and is_free and self.meets(number, resource):
                    yield [*((need, number) for need in resource.contents), *fewer], free, shared | {number}
            return
        for number in self.graph.below(scope):
            is_unused = free[number] > 0 and free[number] == self.graph.free[number]
            if vertices[number].type != resource.type or not is_unused or not self.meets(number, resource):
                continue
            contents = [(need, number) for need in resource.contents]
            if not resource.is_exclusive:
                yield [*contents, *fewer], _less(free, number, free[number]), shared
                continue
            inside = {number, *self.graph.below(number)}
            whole = shared.isdisjoint(inside) and all(
                self.graph.is_full(place) and free[place] == self.graph.free[place] for place in inside
            )
            if whole and self.place(contents, list(free), frozenset()):
                emptied = [-1 if place in inside else amount for place, amount in enumerate(free)]
                yield fewer, emptied, shared

    def describes(self, unit: Unit, scope: int) -> bool:
        """Whether the graph describes a type; of a default, whether what is around it does, and all nodes in that."""
        if not unit.is_default:
            return unit.type in self.types
        vertices = self.graph.vertices
        nodes = [number for number in self.graph.below(scope) if vertices[number].type == "node"]
        return all(
            any(vertices[number].type == unit.type for number in self.graph.below(place)) for place in nodes or [scope]
        )

    def meets(self, number: int, resource: Unit | Vertex | Slot | SpreadTasks) -> bool:
        features = self.graph.vertices[max(number, 0)].features
        return all(requirement.holds(features) for requirement in resource.requires)

    def goes_into_nodes(self, slot: Slot, scope: int) -> bool:
        vertices = self.graph.vertices
        inside = list(self.graph.below(scope))
        if not any(vertices[number].type == "node" for number in inside):
            return False
        above = {
            vertices[number].type
            for number in inside
            if any(vertices[deeper].type == "node" for deeper in self.graph.below(number))
        }
        return set(types_in(slot.contents)).isdisjoint(above | {"node"})

    def spread(self, spread: SpreadTasks) -> bool:
        able = [
            number
            for number, vertex in enumerate(self.graph.vertices)
            if vertex.type == "node"
            and self.graph.free[number]
            and self.meets(number, spread)
            and (not spread.is_exclusive or all(map(self.graph.is_full, [number, *self.graph.below(number)])))
        ]
        least = 1 if spread.tasks >= spread.nodes else 0
        for nodes in itertools.combinations(able, spread.nodes):
            for tasks in itertools.product(range(least, spread.tasks + 1), repeat=spread.nodes):
                if sum(tasks) == spread.tasks and all(
                    self.place([(need, node) for need in spread.contents] * number, list(self.graph.free), frozenset())
                    for node, number in zip(nodes, tasks, strict=True)
                ):
                    return True
        return False


def _less(free: list[int], number: int, amount: int) -> list[int]:
    return [left - amount if place == number else left for place, left in enumerate(free)]


def has_exclusive(request: ResourceRequest) -> bool:
    """Whether anything is asked for exclusively."""
    spread = request.spread
    return (spread is not None and spread.is_exclusive) or _any_exclusive(request.needs)


def _any_exclusive(needs: Iterable[Need]) -> bool:
    return any(
        (isinstance(need.resource, Vertex) and need.resource.is_exclusive) or _any_exclusive(need.resource.contents)
        for need in needs
        if not isinstance(need.resource, Unit)
    )
