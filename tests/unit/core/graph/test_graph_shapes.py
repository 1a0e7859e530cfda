"""Descriptions of shapes that are found in the wild, and what fits them."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.job_requests import asked_resources, request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.packing import pack
from admin.core.graph.request_texts import read_request, write_request
from admin.core.graph.requests import Need, ResourceRequest, Slot, Unit
from admin.core.graph.shortages import explain

#: Types of a vertex by id, each inside the one before the last dot of its id.
TREE = {
    "0": "cluster",
    "0.1": "node",
    "0.1.2": "socket",
    "0.1.2.3": "core",
    "0.1.2.4": "core",
    "0.1.2.5": "gpu",
    "0.6": "node",
    "0.6.7": "socket",
    "0.6.7.8": "core",
    "0.6.7.9": "core",
}


def fluxion(*, edges: str, ids: type = str) -> dict[str, Any]:
    """A list of vertices as Flux's scheduler writes it, with edges in one of the forms that it has had."""
    numbers = {path: ids(path.rsplit(".", 1)[-1]) for path in TREE}
    nodes = [
        {
            "id": numbers[path],
            "metadata": {
                "type": type_,
                "basename": type_,
                "name": f"{type_}{numbers[path]}",
                "id": 0,
                "uniq_id": int(numbers[path]),
                "rank": -1,
                "exclusive": False,
                "unit": "",
                "size": 1,
                "paths": {"containment": "/" + path.replace(".", "/")},
            },
        }
        for path, type_ in TREE.items()
    ]
    listed: list[dict[str, Any]] = []
    for path in TREE:
        parent = path.rpartition(".")[0]
        if not parent:
            continue
        ends = {"source": numbers[parent], "target": numbers[path]}
        back = {"source": numbers[path], "target": numbers[parent]}
        if edges == "relationship":
            listed.append({**ends, "metadata": {"subsystem": "containment", "relationship": "contains"}})
        elif edges == "name":
            listed.append({**ends, "metadata": {"name": {"containment": "contains"}}})
            listed.append({**back, "metadata": {"name": {"containment": "in"}}})
        elif edges == "subsystem":
            listed.append({**ends, "metadata": {"subsystem": "containment"}})
            listed.append({**back, "metadata": {"subsystem": "containment"}})
        else:
            listed.append(ends)
    return {"graph": {"nodes": nodes, "edges": listed}}


def fits(graph: ClusterGraph, **requests: str) -> bool:
    return Matcher(request_of({"resources": {"requests": requests}})).fits(graph)


@pytest.mark.parametrize("ids", [str, int])
@pytest.mark.parametrize("edges", ["relationship", "name", "subsystem", "plain"])
def test_what_fluxs_scheduler_writes(edges: str, ids: type) -> None:
    document = fluxion(edges=edges, ids=ids)
    for whole in (document, {"version": 1, "execution": {}, "scheduling": document}):
        graph = read_description(whole)
        assert graph.root.type == "cluster"
        assert graph.root.below == {"node": 2, "socket": 2, "core": 4000, "gpu": 1}
        assert fits(graph, cpu="2", gpu="1")
        assert not fits(graph, cpu="3")


def mapped(vertices: dict[str, dict[str, Any]], *edges: tuple[str, str, str], **graph: Any) -> ClusterGraph:
    listed = [{"source": source, "target": target, "relation": relation} for source, relation, target in edges]
    nodes = {id_: {"metadata": metadata} for id_, metadata in vertices.items()}
    return read_description({"graph": {"nodes": nodes, "edges": listed, **graph}})


@pytest.mark.parametrize("document", [{}, {"edges": []}], ids=["no edges", "empty edges"])
def test_a_single_vertex(document: dict[str, Any]) -> None:
    for type_ in ("node", "cluster", "core"):
        nodes = {"only": {"metadata": {"type": type_, "size": 4 if type_ == "core" else 1}}}
        graph = read_description({"graph": {"nodes": nodes, **document}})
        assert graph.root.type == type_
        assert fits(graph, cpu="4") == (type_ == "core")
    listed = {"graph": {"nodes": [{"id": "only", "metadata": {"type": "node"}}], **document}}
    assert Matcher(request_of({"resources": {"nodes": 1}})).fits(read_description(listed))


@pytest.mark.parametrize("directed", [True, False, None])
def test_a_root_of_any_name_with_edges_of_either_direction(directed: bool | None) -> None:
    vertices: dict[str, dict[str, Any]] = {
        "machine room": {"type": "site"},
        "hut-7": {"type": "node"},
        "c": {"type": "core", "size": 48},
        "m": {"type": "memory", "size": 192, "unit": "GB"},
    }
    more = {} if directed is None else {"directed": directed}
    edges = [("machine room", "contains", "hut-7"), ("c", "in", "hut-7"), ("hut-7", "contains", "m")]
    graph = mapped(vertices, *edges, ("m", "in", "hut-7"), **more)
    assert fits(graph, cpu="48", memory="192G")
    assert not fits(graph, cpu="48", memory="192Gi")
    assert not fits(graph, cpu="49")


@pytest.mark.parametrize(
    ("unit", "largest"),
    [
        *(("B", "192"), ("KB", "192k"), ("kB", "192k"), ("k", "192k"), ("MiB", "192Mi"), ("Mi", "192Mi")),
        *(("GB", "192G"), ("G", "192G"), ("GiB", "192Gi"), ("TB", "192T")),
    ],
)
def test_units_of_memory(unit: str, largest: str) -> None:
    graph = mapped({"n": {"type": "node"}, "m": {"type": "memory", "size": 192, "unit": unit}}, ("n", "contains", "m"))
    assert fits(graph, memory=largest)
    assert not fits(graph, memory=largest.replace("192", "193"))


def test_several_subsystems_in_one_list() -> None:
    """Vertices of power and network that stand among those of the main graph."""
    document = fluxion(edges="relationship")
    document["graph"]["nodes"] += [
        {"id": "p", "metadata": {"type": "pdu", "watts": 1500, "paths": {"power": "/p"}}},
        {"id": "s", "metadata": {"type": "switch", "speed": 200, "paths": {"network": "/s"}}},
    ]
    document["graph"]["edges"] += [
        {"source": "p", "target": "1", "metadata": {"subsystem": "power", "relationship": "supplies_to"}},
        {"source": "s", "target": "1", "metadata": {"subsystem": "network", "relationship": "connects"}},
        {"source": "s", "target": "6", "metadata": {"subsystem": "network", "relationship": "connects"}},
    ]
    graph = read_description(document)

    def nodes(*requires: dict[str, Any]) -> int:
        return max(
            number
            for number in range(4)
            if not number
            or Matcher(request_of({"requires": list(requires), "resources": {"nodes": number}})).fits(graph)
        )

    fast = {"name": "network", "field": "speed", "min": 200}
    powered = {"name": "power", "field": "watts", "min": 1000}
    assert (nodes(), nodes(fast), nodes(powered), nodes(fast, powered)) == (2, 2, 1, 1)
    assert nodes({"name": "power", "field": "watts", "min": 2000}) == 0


def test_a_lone_node_with_a_subsystem_beside_it() -> None:
    """No edge says which of them belongs to the main graph; their paths do."""
    nodes = [
        {"id": "0", "metadata": {"type": "node", "paths": {"containment": "/node0"}}},
        {"id": "1", "metadata": {"type": "nvme", "speed": 7, "paths": {"storage": "/nvme0"}}},
    ]
    edges = [{"source": "0", "target": "1", "metadata": {"subsystem": "storage", "relationship": "has"}}]
    graph = read_description({"graph": {"nodes": nodes, "edges": edges}})
    assert (graph.root.type, graph.root.below) == ("node", {})
    fast = {"name": "storage", "field": "speed", "match": 7}
    assert Matcher(request_of({"requires": [fast], "resources": {"nodes": 1}})).fits(graph)


def test_what_settings_give_counts_in_the_nodes_that_describe_it() -> None:
    """One of two nodes has memory: a job that asks for some is for that one, and others may run on both."""
    nodes = {"all": {"type": "cluster"}, "a": {"type": "node"}, "b": {"type": "node"}}
    cores = {f"{node}-cores": {"type": "core", "size": 4} for node in "ab"}
    memory = {f"{node}-memory": {"type": "memory", "size": 2, "unit": "GiB"} for node in "ab"}
    edges = [("all", "contains", node) for node in "ab"] + [(f"{node}-cores", "in", node) for node in "ab"]
    some = mapped(nodes | cores | {"b-memory": memory["b-memory"]}, *edges, ("b-memory", "in", "b"))
    every = mapped(nodes | cores | memory, *edges, *((f"{node}-memory", "in", node) for node in "ab"))
    for resources in ({"nodes": 2, "tasks": 2}, {"tasks": 6}, {"nodes": 2, "tasks": 2, "exclusive": True}):
        requests = {"cpu": "1", "memory": "1Gi"}
        job = {"resources": {**resources, "requests": requests}}
        given, asked = request_of(job, asked=["cpu"]), request_of(job)
        assert read_request(write_request(given)) == given != asked
        assert Matcher(given).fits(some)
        assert not Matcher(asked).fits(some)
        assert Matcher(given).fits(every) == Matcher(asked).fits(every) == (resources != {"tasks": 6})
    more = {"cpu": "3", "memory": "4Gi"}  # a describes no memory and b too little, which is all that is free of it
    assert Matcher(request_of({"resources": {"requests": more}}, asked=["cpu"])).fits(some)
    large = request_of({"resources": {"requests": more | {"cpu": "4"}, "nodes": 2, "tasks": 2}}, asked=["cpu"])
    assert not Matcher(large).fits(some)
    [shortage] = explain(every, Matcher(request_of({"resources": {"requests": more}}, asked=["cpu"])))
    assert (shortage.type, shortage.needed, shortage.available) == ("memory", 4 * 2**30, 2 * 2**30)
    given = request_of({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "nodes": 1}}, asked=["cpu"])
    packing = pack(some, [given] * 7)
    assert packing.allocations.count(None) == 1


def test_what_settings_give_competes_with_what_is_asked_for() -> None:
    vertices: dict[str, dict[str, Any]] = {"n": {"type": "node"}, "m": {"type": "memory", "size": 3, "unit": "B"}}
    graph = mapped(vertices, ("n", "contains", "m"))
    for given, is_fitting in ((1, True), (2, False)):
        needs = (Need(Unit("memory", is_default=True), given), Need(Unit("memory"), 2))
        assert Matcher(ResourceRequest(needs)).fits(graph) == is_fitting
        assert Matcher(ResourceRequest((Need(Slot(needs), 1),))).fits(graph) == is_fitting


def test_a_limit_alone_is_asked_for() -> None:
    """The large node describes its memory, and the small one nothing of it."""
    vertices: dict[str, dict[str, Any]] = {"all": {"type": "cluster"}, "a": {"type": "node"}, "b": {"type": "node"}}
    vertices |= {"a-cores": {"type": "core", "size": 4}, "b-cores": {"type": "core"}}
    vertices["a-memory"] = {"type": "memory", "size": 16, "unit": "GiB"}
    edges = [(name.partition("-")[0], "contains", name) for name in vertices if "-" in name]
    graph = mapped(vertices, *edges, ("all", "contains", "a"), ("all", "contains", "b"))
    for cpu in ("1", "4"):
        job = {"resources": {"requests": {"cpu": cpu, "memory": "64Gi"}, "limits": {"memory": "64Gi"}}}
        for part in ("requests", "limits"):
            given = {"resources": {"requests": {"cpu": cpu}}}
            given["resources"].setdefault(part, {})["memory"] = "64Gi"
            assert not Matcher(request_of(job, asked=asked_resources(given))).fits(graph)
        # What settings give counts in the node that describes its memory.
        assert Matcher(request_of(job, asked=["cpu"])).fits(graph) == (cpu == "1")


def test_a_whole_number_may_be_written_as_a_float() -> None:
    graph = mapped({"n": {"type": "node"}, "c": {"type": "core", "size": 12.0}}, ("n", "contains", "c"))
    assert graph.root.below == {"core": 12_000}
