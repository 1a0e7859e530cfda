"""The forms of a job mean the same, whatever shape the description has: against sums that are counted node by node."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.jobspec_requests import layered_request
from admin.core.graph.matching import Matcher
from admin.core.jobs.jobspecs import read_jobspec

Document = dict[str, Any]
FEATURES: dict[str, Document] = {
    "shm": {"type": "shm", "capacity": 10},
    "fast": {"type": "nvme", "firmware": "2.10.1", "capacity": 20},
    "slow": {"type": "nvme", "firmware": "2.9", "capacity": 5},
}
#: Requirements, and the features of which a node has one that meets it; None for those on the node itself.
REQUIREMENTS: list[tuple[Document, set[str] | None]] = [
    ({"name": "io", "field": "type", "match": "nvme"}, {"fast", "slow"}),
    ({"name": "io", "field": "firmware", "min": "2.10"}, {"fast"}),
    ({"name": "io", "field": "firmware", "min": "2.8", "max": "2.9.5"}, {"slow"}),
    ({"name": "io", "field": "capacity", "min": 8, "max": 12}, {"shm"}),
    ({"name": "cluster", "field": "properties.spot", "match": True}, None),
]


@dataclass
class Node:
    rack: int
    sockets: list[tuple[int, int]]  #: the cores and gpus of each
    gigabytes: int
    is_spot: bool
    features: list[str]

    def holds(self, cores: int, gpus: int, gigabytes: int) -> int:
        """How many slots of that size it has room for."""
        has = (sum(count for count, _ in self.sockets), sum(count for _, count in self.sockets), self.gigabytes)
        return min(have // need for have, need in zip(has, (cores, gpus, gigabytes), strict=True) if need)

    def meets(self, requirements: list[int]) -> bool:
        wanted = [REQUIREMENTS[number][1] for number in requirements]
        return all(self.is_spot if names is None else not names.isdisjoint(self.features) for names in wanted)


def random_node(random: Random) -> Node:
    sockets = [(random.randint(0, 6), random.randint(0, 2)) for _ in range(random.randint(1, 2))]
    features = [name for name in FEATURES if random.random() < 0.4]
    return Node(random.randrange(2), sockets, random.randint(0, 8), random.random() < 0.5, features)


def described(nodes: list[Node], random: Random) -> tuple[Document, Document]:
    """The description of nodes in two racks, and its subsystems: of any shape, order, ids, pools and units."""
    numbers = itertools.count(random.randrange(100))
    vertices: dict[str, Document] = {}
    edges: list[tuple[str, str, str]] = []

    def add(parent: str | None, type_: str, **fields: Any) -> str:
        id_ = f"{random.choice(('', 'v', 'x/y', 'é'))}{next(numbers)}"
        vertices[id_] = {"metadata": {"type": type_, **fields}}
        if parent is not None:
            edges.append((parent, id_, "containment"))
        return id_

    def add_units(parent: str, type_: str, number: int) -> None:
        while number:
            size = random.randint(1, number)
            add(parent, type_, size=size)
            number -= size

    root = add(None, "cluster")
    racks = [add(root, "rack") for _ in range(2)]
    links = []
    for number, node in enumerate(nodes):
        fields = {"properties": {"spot": True}} if node.is_spot else {}
        id_ = add(racks[node.rack], "node", name=f"n{number}", **fields)
        for cores, gpus in node.sockets:
            socket = add(id_, "socket")
            add_units(socket, "core", cores)
            add_units(socket, "gpu", gpus)
        unit, factor = random.choice((("GiB", 1), ("MiB", 2**10), ("KiB", 2**20)))
        add(id_, "memory", size=node.gigabytes * factor, unit=unit)
        links += [(id_, f"io-{name}", "io") for name in node.features]
    linked = {id_: {"metadata": FEATURES[id_.removeprefix("io-")]} for _, id_, _ in links}
    shape = random.choice(("by id", "listed", "listed", "resource set"))
    is_inline = shape != "by id" and random.random() < 0.5
    if is_inline:
        vertices |= linked
        edges += links
    order = random.sample(list(vertices), len(vertices))
    random.shuffle(edges)
    if shape == "by id":
        graph: Document = {
            "nodes": {id_: vertices[id_] for id_ in order},
            "edges": [{"source": outer, "target": inner, "relation": "contains"} for outer, inner, _ in edges],
        }
    else:
        graph = {
            "nodes": [{"id": id_, **vertices[id_]} for id_ in order],
            "edges": [
                {"source": outer, "target": inner, "metadata": {"subsystem": name, "relationship": "contains"}}
                for outer, inner, name in edges
            ],
        }
    document = {"graph": graph}
    io = {"nodes": linked, "edges": [{"source": a, "target": b, "relation": "contains"} for a, b, _ in links]}
    subsystems = {"io": {"graph": io}} if linked and not is_inline else {}
    return {"version": 1, "scheduling": document} if shape == "resource set" else document, subsystems


def next_generation(resource: Document) -> Document:
    return {"version": 1, "task": {"command": ["x"], "resources": "all"}, "resources": {"all": resource}}


def flux(resource: Document) -> Document:
    task = {"command": ["x"], "slot": "task", "count": {"per_slot": 1}}
    return {"version": 1, "resources": [resource], "tasks": [task], "attributes": {"system": {"duration": 0}}}


def asked(nodes: list[Node], random: Random) -> list[tuple[str, Document, bool]]:
    """The same work in every form that can say it, and whether there is a place for it."""
    cores, gpus, gigabytes = random.randint(1, 4), random.choice((0, 0, 1, 2)), random.choice((0, 0, 1, 3))
    slots, number = random.randint(1, 3), random.randint(1, 3)
    requirements = random.sample(range(len(REQUIREMENTS)), random.choice((0, 0, 1, 2)))
    rooms = [(node, node.holds(cores, gpus, gigabytes)) for node in nodes if node.meets(requirements)]
    enough = sum(room >= slots for _, room in rooms) >= number
    contents: list[Document] = [{"type": "core", "count": cores}]
    contents += [{"type": "gpu", "count": gpus}] if gpus else []
    contents += [{"type": "memory", "count": gigabytes, "unit": "GiB"}] if gigabytes else []
    simple = {"command": ["x"], "cpu": cores, "gpu": gpus, "memory": f"{gigabytes}Gi"}
    simple = {name: value for name, value in simple.items() if value not in (0, "0Gi")}
    requires = {"requires": [REQUIREMENTS[entry][0] for entry in requirements]} if requirements else {}
    slot = {"type": "slot", "label": "task", "count": slots, "with": contents}
    node = {"type": "node", "count": number, "with": [slot]}
    anywhere = sum(room for _, room in rooms) >= slots
    racks = Counter(place.rack for place, room in rooms if room >= slots)
    enough_racks = sum(count >= number for count in racks.values()) >= 2
    forms = [
        ("simple, anywhere", {**simple, "tasks": slots, **requires}, anywhere),
        ("next-gen, anywhere", next_generation({**slot, **requires}), anywhere),
        ("next-gen, nodes", next_generation({**node, **requires}), enough),
        ("racks", next_generation({"type": "rack", "count": 2, "with": [{**node, **requires}]}), enough_racks),
    ]
    if not requirements:
        forms += [("flux, anywhere", flux(slot), anywhere), ("flux, nodes", flux(node), enough)]
    if number == 1:
        forms.append(("simple, one node", {**simple, "nodes": 1, "tasks": slots, **requires}, enough))
    if slots == 1:
        held = {"type": "slot", "count": number, "with": [{"type": "node", **requires, "with": contents}]}
        forms += [
            ("simple, nodes", {**simple, "nodes": number, "tasks": number, **requires}, enough),
            ("next-gen, slots that are nodes", next_generation(held), enough),
        ]
    return forms


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_every_form_of_a_job_is_matched_as_counted_node_by_node(start: int) -> None:
    answers: Counter[tuple[str, bool]] = Counter()
    for seed in range(start, start + 100):
        random = Random(seed)
        nodes = [random_node(random) for _ in range(random.randint(1, 5))]
        graph = read_description(*described(nodes, random))
        for _ in range(5):
            for form, jobspec, is_fitting in asked(nodes, random):
                job = read_jobspec(jobspec, ("jobspec",))
                request = layered_request(jobspec, ("jobspec",)) or request_of(job)
                assert Matcher(request).fits(graph) == is_fitting, (seed, form, jobspec)
                answers[form, is_fitting] += 1
    assert all(answers[form, is_fitting] for form, _ in answers for is_fitting in (True, False)), answers
