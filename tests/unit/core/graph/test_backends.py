from __future__ import annotations

from typing import Any

import pytest

from admin.core.graph.backends import Fit, GraphBackend, MemoryBackend
from admin.core.graph.descriptions import read_description
from admin.core.graph.frontiers import TooComplex
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.packing import pack
from admin.core.graph.requests import Need, ResourceRequest, Unit, Vertex
from admin.core.graph.shapes import Shapes
from admin.core.problems import Invalid
from tests.support.small_graphs import cluster_document


def job(tasks: int, nodes: int = 1, cpu: str = "1", **resources: Any) -> ResourceRequest:
    return request_of({"resources": {"nodes": nodes, "tasks": tasks, "requests": {"cpu": cpu}, **resources}})


@pytest.fixture
def backend() -> GraphBackend:
    backend = MemoryBackend()
    for name, nodes, cores in (("small", 1, 4), ("large", 3, 12)):
        backend.put(name, read_description(cluster_document(nodes, cores), shapes=backend.shapes))
    return backend


def test_the_machine_and_what_is_free_of_it(backend: GraphBackend) -> None:
    clusters = ("small", "large", "other")
    assert backend.match(job(8), clusters, now=False) == {
        "small": Fit.NEVER,
        "large": Fit.FITS,
        "other": Fit.UNKNOWN,
    }
    backend.set_free("large", {f"node{number}": {"core": 5000} for number in range(3)})
    assert backend.match(job(8), clusters, now=True)["large"] is Fit.NOT_NOW
    assert backend.match(job(8), clusters, now=False)["large"] is Fit.FITS
    assert backend.match(job(5), clusters, now=True)["large"] is Fit.FITS
    assert [str(shortage) for shortage in backend.explain(job(8), "large", now=True)] == [
        "cores: needs 8 on one node, the most free on one node is 5"
    ]
    assert [str(shortage) for shortage in backend.explain(job(13), "large", now=True)] == [
        "cores: needs 13 on one node, largest node has 12"
    ]
    assert backend.explain(job(5), "large", now=True) == ()


def test_closed_nodes_take_nothing(backend: GraphBackend) -> None:
    backend.set_free("large", {"node1": {"core": 5000}}, closed=["node0", "node1"])
    assert backend.match(job(12), ["large"], now=True) == {"large": Fit.FITS}
    assert backend.match(job(2, nodes=2), ["large"], now=True) == {"large": Fit.NOT_NOW}
    with pytest.raises(Invalid, match="'node7' is no vertex of the graph"):
        backend.set_free("large", {"node7": {"core": 5000}})


def test_a_new_graph_takes_the_place_of_the_old(backend: GraphBackend) -> None:
    backend.set_free("small", {"node0": {"core": 0}})
    assert backend.match(job(1), ["small"], now=True) == {"small": Fit.NOT_NOW}
    backend.put("small", read_description(cluster_document(1, 16)))
    assert backend.match(job(8), ["small"], now=True) == {"small": Fit.FITS}
    backend.remove("small")
    assert backend.match(job(1), ["small"], now=True) == {"small": Fit.UNKNOWN}


def many_kinds() -> ResourceRequest:
    """Nodes of many kinds, which compete for the same cores."""
    return ResourceRequest(tuple(Need(Vertex("node", (Need(Unit("core"), n * 1000),)), 5) for n in range(1, 9)))


def test_a_search_that_takes_too_long_is_given_up() -> None:
    backend = MemoryBackend(most_steps=1000)
    shapes = Shapes()
    backend.put("east", read_description(cluster_document(40, 8), shapes=shapes))
    assert backend.match(many_kinds(), ["east"], now=False) == {"east": Fit.UNDECIDED}
    [shortage] = backend.explain(many_kinds(), "east", now=False)
    assert "takes too long to tell" in str(shortage)
    matcher = Matcher(many_kinds(), 1000)
    graph = read_description(cluster_document(40, 8))
    for _ in range(2):
        with pytest.raises(TooComplex):
            matcher.fits(graph)
    with pytest.raises(TooComplex):
        Matcher(many_kinds(), 1000).allocate(read_description(cluster_document(40, 8)))


def test_many_searches_that_take_too_long_end_together() -> None:
    matcher = Matcher(many_kinds(), 1000)
    for nodes in range(40, 60):
        with pytest.raises(TooComplex):
            matcher.fits(read_description(cluster_document(nodes, 8)))
    assert matcher._steps_in_all < 0
    assert Matcher(many_kinds(), 1000)._steps_in_all == 3000


def test_many_nodes_of_several_kinds_are_found_in_time() -> None:
    graph = read_description(cluster_document(1000, 3))
    three = tuple(Need(Vertex("node", (Need(Unit("core"), n * 1000),)), 300) for n in (1, 2, 3))
    allocation = Matcher(ResourceRequest(three)).allocate(graph)
    assert allocation is not None
    assert graph.without(allocation.uses).root.below["core"] == (3000 - 1800) * 1000


def test_nodes_of_two_kinds() -> None:
    graph = read_description(cluster_document(5, 8))

    def kinds(large: int, small: int) -> ResourceRequest:
        return ResourceRequest(
            (
                Need(Vertex("node", (Need(Unit("core"), 8000),)), large),
                Need(Vertex("node", (Need(Unit("core"), 1000),)), small),
            )
        )

    assert Matcher(kinds(2, 3)).fits(graph)
    assert not Matcher(kinds(3, 3)).fits(graph)
    allocation = Matcher(kinds(2, 3)).allocate(graph)
    assert allocation is not None
    assert graph.without(allocation.uses).root.below["core"] == (40 - 16 - 3) * 1000


def test_jobs_are_packed_side_by_side() -> None:
    graph = read_description(cluster_document(3, 12))
    assert pack(graph, [job(12), job(12), job(6), job(6)]).is_complete
    packing = pack(graph, [job(12), job(12), job(6), job(7)])
    assert not packing.is_complete
    assert packing.left.root.below["core"] < 12_000
    assert pack(graph, [job(1)] * 36).is_complete
    assert not pack(graph, [job(1)] * 37).is_complete
    assert pack(graph, []).is_complete


def test_small_jobs_fill_a_node_before_they_begin_another() -> None:
    graph = read_description(cluster_document(3, 12))
    assert pack(graph, [job(2), job(2), job(2), job(12), job(12)]).is_complete


def test_the_largest_are_packed_first_where_their_order_leaves_no_room() -> None:
    graph = read_description(cluster_document(2, 10))
    assert pack(graph, [job(4), job(4), job(6), job(6)]).is_complete


def test_exclusive_jobs_are_alone_on_their_nodes() -> None:
    graph = read_description(cluster_document(2, 4))
    assert pack(graph, [job(1, exclusive=True), job(1, exclusive=True)]).is_complete
    assert not pack(graph, [job(1, exclusive=True), job(1, exclusive=True), job(1)]).is_complete
    assert pack(graph, [job(1, exclusive=True), job(4)]).is_complete
    assert not pack(graph, [job(1, exclusive=True), job(5)]).is_complete
