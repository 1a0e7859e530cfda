"""The example files of Rainbow's first scheduler match as their documentation intends."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from admin.core.graph.descriptions import read_description
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, ResourceRequest, Slot, Unit, Vertex
from admin.core.graph.requirements import Requirement
from admin.core.graph.shortages import explain
from admin.core.graph.summaries import summarize
from admin.core.jobs.jobspecs import read_jobspec

DATA = Path(__file__).parents[3] / "data"


def document(name: str) -> Any:
    return json.loads((DATA / "graphs" / name).read_text())


def example(*, with_subsystems: bool = True) -> ClusterGraph:
    subsystems = {"io": document("cluster-io-subsystem.json"), "spack": document("spack-subsystem.json")}
    return read_description(document("cluster-nodes.json"), subsystems if with_subsystems else {})


def request_in(name: str) -> ResourceRequest:
    jobspec = yaml.safe_load((DATA / "jobspecs" / name).read_text())
    return request_of(read_jobspec(jobspec, ("jobspec",)))


def fits(request: ResourceRequest, graph: ClusterGraph) -> bool:
    return Matcher(request).fits(graph)


def reasons(request: ResourceRequest, graph: ClusterGraph) -> list[str]:
    return [str(shortage) for shortage in explain(graph, Matcher(request))]


def job(cpu: str = "1", **resources: Any) -> ResourceRequest:
    return request_of({"resources": {**resources, "requests": {"cpu": cpu}}})


def test_the_example_cluster_is_counted() -> None:
    summary = summarize(example())
    assert summary.vertices == {"cluster": 1, "rack": 1, "node": 3, "socket": 3, "core": 36}
    assert summary.largest["node"]["core"] == 12_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("next-constraint.yaml", True),
        ("next-io.yaml", True),
        ("next-valid-range.yaml", True),
        ("next-invalid-range.yaml", False),
        ("flux-v1.json", True),
    ],
)
def test_every_jobspec_matches_as_documented_every_time(name: str, expected: bool) -> None:
    request = request_in(name)
    assert {fits(request, example()) for _ in range(5)} == {expected}
    graph = example()
    assert {fits(request, graph) for _ in range(1000)} == {expected}


def test_a_requirement_of_a_missing_subsystem_is_not_met() -> None:
    graph = example(with_subsystems=False)
    assert not fits(request_in("next-io.yaml"), graph)
    assert reasons(request_in("next-io.yaml"), graph) == ["io: needs io type = shm, there is no subsystem 'io'"]


@pytest.mark.parametrize(
    ("subsystem", "field", "missing"),
    [
        ("iox", "type", "there is no subsystem 'iox' (did you mean 'io'?)"),
        ("lustre", "type", "there is no subsystem 'lustre' (there are io, spack)"),
        ("spack", "verion", "no vertex has the field 'verion' (did you mean 'version'?)"),
        ("spack", "colour", "no vertex has the field 'colour'"),
    ],
)
def test_a_requirement_that_nothing_has_names_what_may_be_meant(subsystem: str, field: str, missing: str) -> None:
    request = request_of({"requires": [{"name": subsystem, "field": field, "match": "x"}]})
    assert reasons(request, example()) == [f"{subsystem}: needs {subsystem} {field} = x, {missing}"]


def test_where_too_few_nodes_meet_a_requirement_that_is_the_reason() -> None:
    """Two of three nodes are fast."""
    described = document("cluster-nodes.json")
    for node in ("2", "16"):
        described["graph"]["nodes"][node]["metadata"]["fast"] = True
    graph = read_description(described)
    fast = [{"name": "cluster", "field": "fast", "match": True}]

    def missing(cpu: str = "1", **resources: int) -> list[str]:
        return reasons(request_of({"requires": fast, "resources": {**resources, "requests": {"cpu": cpu}}}), graph)

    assert missing(nodes=3, tasks=3) == ["nodes: needs 3 with containment fast = true, 2 have that"]
    assert missing(tasks=25) == [
        "slots: needs 25 of 1 core on nodes with containment fast = true, there is room for 24"
    ]
    assert missing(nodes=2, tasks=25) == [
        "tasks: needs 25 of 1 core on 2 nodes with containment fast = true, there is room for 24"
    ]
    holder = Vertex("node", (Need(Unit("core"), 1000),), (Requirement("containment", "fast", True),))
    assert reasons(ResourceRequest((Need(holder, 3),)), graph) == [
        "nodes: needs 3 with containment fast = true, 2 have that"
    ]
    slow = Requirement("containment", "fast", match=False)
    assert reasons(ResourceRequest((Need(Vertex("node", (), (slow,)), 1),)), graph) == [
        "node: none has containment fast = false, they have true"
    ]


def test_a_version_out_of_range_says_which_there_are() -> None:
    assert reasons(request_in("next-invalid-range.yaml"), example()) == [
        "node: none has spack version from 0.7.1 to 0.7.5, they have 0.5.2"
    ]


CORE = Unit("core")


def slots(count: int, cores: int) -> ResourceRequest:
    return ResourceRequest((Need(Slot((Need(CORE, cores * 1000),)), count),))


def node_slots(count: int, cores: int) -> ResourceRequest:
    return ResourceRequest((Need(Vertex("node", (Need(CORE, cores * 1000),)), count),))


SOCKET = Vertex("socket", (Need(CORE, 6000),))


def holder(type_: str, resource: Slot | Vertex, count: int) -> ResourceRequest:
    return ResourceRequest((Need(Vertex(type_, (Need(resource, count),)), 1),))


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        (slots(36, 1), None),
        (slots(37, 1), "cores: needs 37, the cluster has 36"),
        (slots(1, 13), "cores: needs 13 on one node, largest node has 12"),
        (slots(6, 5), None),
        (slots(7, 5), "slots: needs 7 of 5 cores, there is room for 6"),
        (node_slots(3, 12), None),
        (node_slots(4, 12), "cores: needs 48, the cluster has 36"),
        (node_slots(4, 1), "nodes: needs 4, the cluster has 3"),
        (node_slots(1, 13), "cores: needs 13 on one node, largest node has 12"),
        (job(nodes=2, tasks=24), None),
        (job(nodes=2, tasks=25), "tasks: needs 25 of 1 core on 2 nodes, there is room for 24"),
        (job(nodes=1, tasks=13), "cores: needs 13 on one node, largest node has 12"),
        (job(nodes=1, tasks=12), None),
        (job(nodes=3, tasks=36), None),
        (job(nodes=4, tasks=4), "nodes: needs 4, the cluster has 3"),
        (job(tasks=36), None),
        (job(tasks=37), "cores: needs 37, the cluster has 36"),
        (job("500m", nodes=1, tasks=24), None),
        (job("500m", nodes=1, tasks=25), "cores: needs 12500m on one node, largest node has 12"),
        (holder("node", SOCKET, 1), None),
        (holder("node", SOCKET, 2), "sockets with 6 cores: needs 2 on one node, the most on one node is 1"),
        (ResourceRequest((Need(Unit("node"), 5),)), "nodes: needs 5, the cluster has 3"),
        (ResourceRequest((Need(Unit("gpu"), 1),)), "gpus: needs 1, the cluster has none"),
    ],
)
def test_three_nodes_of_twelve_cores(request_: ResourceRequest, missing: str | None) -> None:
    graph = example()
    assert fits(request_, graph) == (missing is None)
    if missing is not None:
        assert reasons(request_, graph)[0] == missing


def test_slots_that_no_single_rack_has_room_for() -> None:
    """Two racks of two nodes with five cores each: together they would have room."""
    nodes: dict[str, Any] = {"all": {"metadata": {"type": "cluster"}}}
    edges = []
    for rack, node in [(0, 0), (0, 1), (1, 2), (1, 3)]:
        ids = {"rack": f"rack{rack}", "node": f"node{node}", "core": f"cores{node}"}
        nodes |= {id_: {"metadata": {"type": type_, "size": 5 if type_ == "core" else 1}} for type_, id_ in ids.items()}
        edges += [{"source": outer, "target": id_} for outer, id_ in pairwise(["all", *ids.values()])]
    graph = read_description({"graph": {"nodes": nodes, "edges": [{**edge, "relation": "contains"} for edge in edges]}})
    slot = Slot((Need(CORE, 3000),))
    assert fits(holder("rack", slot, 2), graph)
    assert not fits(holder("rack", slot, 3), graph)
    assert reasons(holder("rack", slot, 3), graph) == [
        "slots of 3 cores: needs 3 on one rack, the most on one rack is 2"
    ]


def test_all_requirements_of_a_resource_hold_for_the_same_vertex() -> None:
    """Each by any subsystem vertex that is linked to it."""
    shm = Requirement("io", "type", match="shm")
    fast = Requirement("io", "bw_mbps_max", lowest=50_000)
    package = Requirement("spack", "version", highest="0.6")
    slow = Requirement("io", "bw_mbps_max", lowest=100_000)
    graph = example()
    needs = (Need(CORE, 1000),)
    assert fits(ResourceRequest((Need(Vertex("node", needs, (shm, fast, package)), 3),)), graph)
    refused = ResourceRequest((Need(Vertex("node", needs, (shm, slow)), 1),))
    assert not fits(refused, graph)
    assert reasons(refused, graph) == [
        "node: none has io bw_mbps_max at least 100000, they have 1024, 1600, 4094, 4096, 61440"
    ]


def test_a_requirement_around_a_slot_counts() -> None:
    impossible = (Requirement("io", "type", match="tape"),)
    slot = Need(Slot((Need(CORE, 1000),)), 1)
    assert not fits(ResourceRequest((Need(Vertex("node", (slot,), impossible), 1),)), example())


def test_memory_that_the_graph_does_not_describe_may_be_enough() -> None:
    """Defaults give every job some memory; what agents report of it is compared elsewhere."""
    request = request_of({"resources": {"nodes": 1, "requests": {"cpu": "1", "memory": "1Gi"}}})
    assert fits(request, example())
    described = document("cluster-nodes.json")
    described["graph"]["nodes"]["m"] = {"metadata": {"type": "memory", "size": 512, "unit": "MiB"}}
    described["graph"]["edges"].append({"source": "2", "target": "m", "relation": "contains"})
    graph = read_description(described)
    assert reasons(request, graph) == ["memory: needs 1Gi on one node, largest node has 512Mi"]


def test_a_machine_may_be_the_whole_graph() -> None:
    edges = [{"source": "here", "target": "cores", "relation": "contains"}]
    nodes = {"here": {"metadata": {"type": "node"}}, "cores": {"metadata": {"type": "core", "size": 8}}}
    graph = read_description({"graph": {"nodes": nodes, "edges": edges}})
    assert fits(job(nodes=1, tasks=8), graph)
    assert fits(job(tasks=8), graph)
    assert not fits(job(nodes=1, tasks=9), graph)
    assert not fits(job(nodes=2, tasks=2), graph)
    allocation = Matcher(job(nodes=1, tasks=5)).allocate(graph)
    assert allocation is not None
    assert graph.without(allocation.uses).root.below["core"] == 3000


def test_an_allocation_names_the_nodes() -> None:
    graph = example()
    allocation = Matcher(job(nodes=2, tasks=24)).allocate(graph)
    assert allocation is not None
    assert {graph.ids[use.vertex] for use in allocation.uses} == {"2", "16"}
    left = graph.without(allocation.uses)
    assert left.root.below["core"] == 12_000
    assert fits(job(nodes=1, tasks=12), left)
    assert not fits(job(nodes=1, tasks=13), left)
    assert not fits(job(nodes=2, tasks=2), left)


def test_an_exclusive_node_has_nothing_else_on_it() -> None:
    graph = example()
    exclusive = job(nodes=1, tasks=1, exclusive=True)
    used = graph.with_free({"node0": {"core": 11_000}, "16": {"core": 11_000}})
    allocation = Matcher(exclusive).allocate(used)
    assert allocation is not None
    assert [graph.ids[use.vertex] for use in allocation.uses] == ["30"]
    left = used.without(allocation.uses)
    assert left.root.below["core"] == 22_000
    assert not fits(exclusive, left)
    assert reasons(exclusive, left) == ["nodes: needs 1 with 1 core with nothing else on it, none can give that now"]
    assert fits(job(nodes=2, tasks=22), left)
    assert not fits(job(nodes=3, tasks=3), left)


def test_what_is_free_by_node() -> None:
    graph = example().with_free({"node0": {"core": 5000}, "node1": {"core": 3000}, "node2": {"core": 0}})
    assert fits(job(nodes=1, tasks=5), graph)
    assert not fits(job(nodes=1, tasks=6), graph)
    assert reasons(job(nodes=1, tasks=6), graph) == ["cores: needs 6 on one node, the most free on one node is 5"]
    assert fits(job(nodes=2, tasks=8), graph)
    assert not fits(job(nodes=3, tasks=3), graph)
