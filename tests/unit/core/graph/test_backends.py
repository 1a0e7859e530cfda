"""What every backend must do, and what the one in memory does beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from admin.core.graph import memory
from admin.core.graph.backends import Fit, FreeGraph, GraphBackend
from admin.core.graph.descriptions import read_description
from admin.core.graph.frontiers import TooComplex
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.packing import pack
from admin.core.graph.requests import Need, ResourceRequest, Unit, Vertex
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import summarize
from admin.core.problems import Invalid
from tests.support.descriptions import pooled
from tests.support.small_graphs import cluster_document
from tests.support.trying_backend import TryingBackend


def job(tasks: int, nodes: int = 1, cpu: str = "1", **resources: Any) -> ResourceRequest:
    return request_of({"resources": {"nodes": nodes, "tasks": tasks, "requests": {"cpu": cpu}, **resources}})


BACKENDS: dict[str, Callable[[], GraphBackend]] = {"memory": MemoryBackend, "trying": TryingBackend}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> GraphBackend:
    """Each backend, with a machine of one node of four cores and one of three nodes of twelve."""
    backend = BACKENDS[request.param]()
    for name, nodes, cores in (("small", 1, 4), ("large", 3, 12)):
        backend.put(name, read_description(pooled(nodes, cores)))
    return backend


def lacks(free: FreeGraph, request: ResourceRequest, *beside: tuple[ResourceRequest, int]) -> bool:
    return bool(free.shortages(request, dict(beside)))


def test_the_machine_counts_whatever_is_free(backend: GraphBackend) -> None:
    backend.free("large", {f"n{number}": {"core": 0} for number in (1, 2, 3)}, ())
    assert backend.match(job(8), ("small", "large", "other")) == {
        "small": Fit.NEVER,
        "large": Fit.FITS,
        "other": Fit.UNKNOWN,
    }
    explained = backend.explain(job(13), ("small", "large"))
    assert {name: list(map(str, shortages)) for name, shortages in explained.items()} == {
        "small": ["cores: needs 13 on one node, largest node has 4"],
        "large": ["cores: needs 13 on one node, largest node has 12"],
    }
    assert backend.explain(job(5), ("large",)) == {"large": ()}


def test_a_backend_gives_the_summary_of_a_graph(backend: GraphBackend) -> None:
    graph = read_description(pooled(2, 3))
    assert backend.put("another", graph) == summarize(graph)


def test_a_request_fits_what_is_free(backend: GraphBackend) -> None:
    free = backend.free("large", {f"n{number}": {"core": 5000} for number in (1, 2, 3)}, ())
    assert not lacks(free, job(5))
    assert lacks(free, job(8))
    assert not lacks(free, job(15, nodes=3))
    assert lacks(free, job(16, nodes=3))


def test_a_request_fits_beside_those_that_are_assigned(backend: GraphBackend) -> None:
    free = backend.free("large", {"n2": {"core": 4000}, "n3": {"core": 2000}}, ())
    assert not lacks(free, job(12))
    assert not lacks(free, job(4), (job(12), 1))
    assert lacks(free, job(4), (job(12), 1), (job(3), 1))
    assert not lacks(free, job(2), (job(12), 1), (job(4), 1))
    assert lacks(free, job(1), (job(12), 1), (job(4), 1), (job(2), 1))
    assert lacks(free, job(1), (job(12), 2))
    # Answers depend on nothing that was asked before.
    assert not lacks(free, job(12))


def test_assigned_requests_may_be_arranged_anew(backend: GraphBackend) -> None:
    """In the order in which they came, two of 2 might lie on two nodes; 12 needs one of these."""
    free = backend.free("large", {"n3": {"core": 4000}}, ["n2"])
    assert not lacks(free, job(12), (job(2), 2))
    assert lacks(free, job(1), (job(2), 2), (job(12), 1))


def test_closed_nodes_take_nothing(backend: GraphBackend) -> None:
    free = backend.free("large", {"n2": {"core": 5000}}, ["n1", "n2"])
    assert not lacks(free, job(12))
    assert lacks(free, job(2, nodes=2))
    with pytest.raises(Invalid, match="'node7' is no vertex of the graph"):
        backend.free("large", {"node7": {"core": 5000}}, ())


def test_exclusive_requests_share_no_node(backend: GraphBackend) -> None:
    free = backend.free("large", {}, ["n3"])
    alone = job(1, exclusive=True)
    assert not lacks(free, alone, (alone, 1))
    assert lacks(free, alone, (alone, 2))
    assert lacks(free, job(1), (alone, 2))
    assert not lacks(free, job(12), (alone, 1))


def test_a_new_graph_takes_the_place_of_the_old(backend: GraphBackend) -> None:
    before = backend.free("small", {"n1": {"core": 1000}}, ())
    backend.put("small", read_description(pooled(1, 16)))
    assert backend.match(job(8), ["small"]) == {"small": Fit.FITS}
    assert not lacks(backend.free("small", {}, ()), job(16))
    backend.remove("small")
    assert backend.match(job(1), ["small"]) == {"small": Fit.UNKNOWN}
    backend.remove("small")
    # A decision by an older fleet goes on.
    assert not lacks(before, job(1))
    assert lacks(before, job(2))


def test_what_is_free_says_what_is_missing() -> None:
    backend = MemoryBackend()
    backend.put("large", read_description(pooled(3, 12)))
    free = backend.free("large", {f"n{number}": {"core": 5000} for number in (1, 2, 3)}, ())
    assert [str(shortage) for shortage in free.shortages(job(8), {})] == [
        "cores: needs 8 on one node, the most free on one node is 5"
    ]
    assert "takes all that is free" in str(free.shortages(job(1), {job(5): 4})[0])


def test_few_sets_of_requests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_KEPT", 2)
    backend = MemoryBackend()
    backend.put("a", read_description(pooled(2, 8)))
    free = backend.free("a", {}, ())
    for number in range(15):
        assert not lacks(free, job(1), *([(job(1), number)] if number else []))
    assert lacks(free, job(1), (job(1), 16))


def many_kinds() -> ResourceRequest:
    """Nodes of many kinds, which compete for the same cores."""
    return ResourceRequest(tuple(Need(Vertex("node", (Need(Unit("core"), n * 1000),)), 5) for n in range(1, 9)))


def test_a_search_that_takes_too_long_is_given_up() -> None:
    backend = MemoryBackend(most_steps=1000)
    shapes = Shapes()
    backend.put("east", read_description(cluster_document(40, 8), shapes=shapes))
    assert backend.match(many_kinds(), ["east"]) == {"east": Fit.UNDECIDED}
    [shortage] = backend.explain(many_kinds(), ["east"])["east"]
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
