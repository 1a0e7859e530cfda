"""The search against one that tries everything, on small graphs at random."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin.core.graph import frontiers
from admin.core.graph.backends import Fit
from admin.core.graph.descriptions import read_description
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.matching import Matcher
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.packing import pack
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.shapes import Shapes
from admin.core.graph.shortages import explain
from admin.core.graph.summaries import Prune, summarize
from tests.support.small_graphs import (
    SmallGraph,
    fits_by_trying,
    has_exclusive,
    likely_request,
    random_graph,
    random_request,
)

SEEDS = st.integers(0, 2**64)


def drawn(random: Random) -> tuple[SmallGraph, ClusterGraph]:
    """A graph in both forms, of which something may be taken."""
    small = random_graph(random)
    graph = read_description(*small.documents(random))
    return small, small.take(graph, random) if random.random() < 0.5 else graph


def drawn_request(small: SmallGraph, random: Random) -> ResourceRequest:
    return random_request(random) if random.random() < 0.2 else likely_request(small, random)


@settings(max_examples=500, deadline=None)
@given(SEEDS)
def test_a_request_fits_exactly_if_trying_everything_finds_a_place(seed: int) -> None:
    random = Random(seed)
    small, graph = drawn(random)
    request = drawn_request(small, random)
    matcher = Matcher(request)
    fits = fits_by_trying(small, request)
    assert matcher.fits(graph) == fits
    assert (matcher.allocate(graph) is not None) == fits
    never = Prune.of(request).never(summarize(graph))
    if fits:
        assert never is None
    else:
        assert all(map(str, explain(graph, matcher)))


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_graphs_with_nodes_alike_are_matched_together_as_each_alone(seed: int) -> None:
    """What was found out of the nodes of one graph is right for those of the next."""
    random, shapes, backend = Random(seed), Shapes(), MemoryBackend()
    smalls = [random_graph(random) for _ in range(4)]
    for number, small in enumerate(smalls):
        backend.put(str(number), read_description(*small.documents(random), shapes=shapes))
    request = drawn_request(smalls[0], random)
    fits = {
        str(number): Fit.FITS if fits_by_trying(small, request) else Fit.NEVER for number, small in enumerate(smalls)
    }
    assert backend.match(request, fits) == fits


def test_the_quick_search_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves out, the second search looks at."""
    monkeypatch.setattr(frontiers, "_KEPT", 2)
    for seed in range(300):
        random = Random(seed)
        small, graph = drawn(random)
        request = drawn_request(small, random)
        assert Matcher(request).fits(graph) == fits_by_trying(small, request), seed


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_an_allocation_takes_exactly_what_is_asked_for(seed: int) -> None:
    random = Random(seed)
    small, graph = drawn(random)
    request = drawn_request(small, random)
    allocation = Matcher(request).allocate(graph)
    if allocation is None or has_exclusive(request):
        return
    left = graph.without(allocation.uses)
    asked = Prune.of(request).totals
    before, after = graph.root.below, left.root.below
    for type_ in ("core", "gpu"):  # which hold nothing, so that they are consumed
        assert before.get(type_, 0) - after.get(type_, 0) == asked.get(type_, 0)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_packed_requests_fit_together(seed: int) -> None:
    random = Random(seed)
    small, graph = drawn(random)
    requests = [drawn_request(small, random) for _ in range(3)]
    packing = pack(graph, requests)
    asked = [
        Prune.of(request).totals
        for request, allocation in zip(requests, packing.allocations, strict=True)
        if allocation is not None
    ]
    if not any(map(has_exclusive, requests)):
        for type_ in ("core", "gpu"):
            taken = graph.root.below.get(type_, 0) - packing.left.root.below.get(type_, 0)
            assert taken == sum(amounts.get(type_, 0) for amounts in asked)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_graph_is_the_same_in_both_shapes_and_any_order(seed: int) -> None:
    small = random_graph(Random(seed))
    graphs = [read_description(*small.documents(Random(order))) for order in range(4)]
    summaries = [summarize(graph) for graph in graphs]
    assert all(summary == summaries[0] for summary in summaries)
    assert {frozenset(graph.ids) for graph in graphs} == {frozenset(vertex.id for vertex in small.vertices)}
    for graph in graphs:
        for position, id_ in enumerate(graph.ids):
            vertex = next(vertex for vertex in small.vertices if vertex.id == id_)
            assert graph.shape_at(position).type == vertex.type
            assert graph.ids[position] == id_
