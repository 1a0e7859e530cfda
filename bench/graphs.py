"""Resource graphs: creations over HTTP with and without; reading a large one, its memory, and matches, in the core."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import requests

from admin.core.graph.backends import Fit
from admin.core.graph.descriptions import read_description
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import Prune, summarize
from bench import stock
from bench.admins import API, admin_on, port_of
from bench.creations import create_call
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Pace, measure_in_turns
from tests.support.small_graphs import cluster_document

NAME = "graphs"
CLUSTERS = 1000
_FLEET = 101
_NODES, _CORES, _GPUS = 5000, 64, 8
_LARGE = f"{_NODES:,} nodes × {_CORES} cores × {_GPUS} gpus"
READ, MEMORY = f"read {_LARGE}", f"memory of {_LARGE}"
MATCH, MATCH_USED = f"match on {_LARGE}", f"match on {_LARGE}, every node in other use"
ALLOCATE = f"choose 100 nodes of {_LARGE}"
REPORT = f"note what is free of {_LARGE}, every node in other use"
PRUNE = "prune 1,000 summaries"
FLAT, GRAPHS = "create a job among 101 clusters", "create a job among 101 clusters with graphs"
EQUAL, DIFFERENT = "match 1,000 clusters of 44 vertices", "match 1,000 clusters of 44 vertices, no two alike"
_TIMES = 50


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures of creations over HTTP; and of the core, which knows no database, once."""
    yield from _created(backend, pace)
    if backend.name == "sqlite":
        yield from _core(pace)


def _created(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Creations among clusters without and with descriptions, no two alike."""
    flat, described = backend.create(), backend.create()
    for database in (flat, described):
        stock.fill(database, stock.THOUSAND)
    with admin_on(flat, _FLEET) as without, admin_on(described, _FLEET) as with_graphs:
        _describe(with_graphs.url)
        calls = {
            what: create_call(port_of(admin), stock.job_body()).measure
            for what, admin in ((FLAT, without), (GRAPHS, with_graphs))
        }
        rates = measure_in_turns(calls, pace)
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate)


def _describe(url: str) -> None:
    with requests.Session() as session:
        for number in range(_FLEET):
            document = cluster_document(3, 13)
            document["graph"]["nodes"]["1"]["metadata"]["serial"] = number
            path = f"{url}{API}/clusters/{stock.cluster_name(number)}/description"
            session.put(path, json=document, timeout=10).raise_for_status()


def _core(pace: Pace) -> Iterator[Figure]:
    document = cluster_document(100 if pace == QUICK else _NODES, _CORES, _GPUS)
    gc.collect()
    gc.freeze()  # as workers do
    begin = time.process_time()
    graph = read_description(document)
    yield Figure(bench=NAME, what=READ, value=time.process_time() - begin, unit="s")
    yield Figure(bench=NAME, what=MEMORY, value=_memory(document), unit="MiB")
    del document
    yield from _matches(graph)
    yield from _clusters()


def _memory(document: dict[str, Any]) -> float:
    """Mebibytes that a graph takes for itself."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        graph = read_description(document)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        assert len(graph.ids)
        return (after - before) / 2**20
    finally:
        tracemalloc.stop()


def _matches(graph: ClusterGraph) -> Iterator[Figure]:
    nodes = [f"node{number}" for number in range(graph.root.below["node"])]
    free = {
        name: {"core": number * 7 % (_CORES + 1) * 1000, "gpu": number * 5 % (_GPUS + 1)}
        for number, name in enumerate(nodes)
    }
    begin = time.process_time()
    used = graph.with_free(free)
    yield Figure(bench=NAME, what=REPORT, value=(time.process_time() - begin) * 1000, unit="ms")
    yield _median(MATCH, lambda number: _fits(graph, _job(100, 1600 + number)))
    yield _median(MATCH_USED, lambda number: _fits(used, _job(20, 100 + number)))
    yield _median(ALLOCATE, lambda number: _allocated(graph, _job(100, 1600 + number)))


def _clusters() -> Iterator[Figure]:
    backend, shapes = MemoryBackend(), Shapes()
    names: dict[str, list[str]] = {EQUAL: [], DIFFERENT: []}
    for number in range(CLUSTERS):
        for what, place in ((EQUAL, 0), (DIFFERENT, number)):
            document = cluster_document(3, 13)  # 43 vertices, and a socket's worth of cores
            document["graph"]["nodes"]["1"]["metadata"]["serial"] = place
            name = f"{what} {number}"
            backend.put(name, read_description(document, shapes=shapes))
            names[what].append(name)
    summaries = [
        summarize(read_description(cluster_document(3, 1 + number % 30), shapes=shapes)) for number in range(CLUSTERS)
    ]
    gc.collect()
    gc.freeze()

    def prune(number: int) -> None:
        never = Prune.of(_job(2, 20 + number)).never
        assert 0 < [never(summary) for summary in summaries].count(None) < CLUSTERS

    yield _median(PRUNE, prune)
    for what in (EQUAL, DIFFERENT):

        def match(number: int, clusters: list[str] = names[what]) -> None:
            fits = backend.match(_job(2, 2 + number % 20), clusters)
            assert set(fits.values()) == {Fit.FITS}

        yield _median(what, match)


def _median(what: str, call: Callable[[int], None]) -> Figure:
    taken = []
    for number in range(_TIMES):
        begin = time.process_time()
        call(number)
        taken.append((time.process_time() - begin) * 1000)
    taken.sort()
    middle = statistics.median(taken)
    return Figure(bench=NAME, what=what, value=middle, unit="ms", p50=middle, p99=taken[-1])


def _job(nodes: int, tasks: int) -> ResourceRequest:
    requests = {"cpu": "1", "memory": "1Gi"}
    return request_of({"resources": {"nodes": nodes, "tasks": tasks, "requests": requests}})


def _fits(graph: ClusterGraph, request: ResourceRequest) -> None:
    assert Matcher(request).fits(graph)


def _allocated(graph: ClusterGraph, request: ResourceRequest) -> None:
    assert Matcher(request).allocate(graph) is not None
