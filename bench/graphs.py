"""Resource graphs: creations over HTTP with and without; reading a large one, its memory, and matches, in the core."""

from __future__ import annotations

import gc
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import requests

from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet, build_fleet
from admin.core.graph.backends import Fit
from admin.core.graph.compiled import read_folded
from admin.core.graph.descriptions import read_description
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.job_requests import request_of
from admin.core.graph.machines import Machines
from admin.core.graph.matching import Matcher
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.request_texts import write_request
from admin.core.graph.requests import ResourceRequest
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import Prune, summarize
from admin.core.json_text import json_text
from admin.core.placement.candidates import Workload
from admin.core.placement.decisions import decide
from admin.services.description_bodies import read_sent
from bench import stock
from bench.admins import API, admin_on, port_of
from bench.creations import create_call
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Call, Pace, measure_in_turns
from tests.support.small_fleets import NOW, definition, group, pool
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
DECISION, DECISION_OF_ONE, DECISION_AMONG_DIFFERENT = (
    "decision among 1,000 clusters of 44 vertices",
    "decision among 1,000 clusters of 44 vertices, of which one fits",
    "decision among 1,000 clusters of 44 vertices, no two alike",
)
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
        calls = {what: _create_call(port_of(admin)).measure for what, admin in ((FLAT, without), (GRAPHS, with_graphs))}
        rates = measure_in_turns(calls, pace)
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate)


def _create_call(port: int) -> Call:
    """Creations of jobs that ask for a thousand different amounts, so that most of them are not prepared already."""
    body = stock.job_body()
    body["spec"]["job"] = {**stock.JOB, "resources": {"requests": {"cpu": "<cpu>m"}}}
    call = create_call(port, body)
    return replace(call, draws={**call.draws, "cpu": tuple(str(cpu) for cpu in range(500, 1500))})


def _cluster(number: int) -> dict[str, Any]:
    """The description of a cluster of 44 vertices; those of different numbers have different nodes."""
    document = cluster_document(3, 13)  # and the gpus of the first node
    vertices, edges = document["graph"]["nodes"], document["graph"]["edges"]
    vertices["gpu"] = {"metadata": {"type": "gpu", "size": 1 + number}}
    edges.append({"source": "1", "target": "gpu", "relation": "contains"})
    for node, core in enumerate(("2", "17", "31")):  # the first core of each node stands for several
        vertices[core]["metadata"]["size"] = 1 + number // 10**node % 10
    return document


def _describe(url: str) -> None:
    with requests.Session() as session:
        for number in range(_FLEET):
            document = _cluster(number)
            path = f"{url}{API}/clusters/{stock.cluster_name(number)}/description"
            session.put(path, json=document, timeout=10).raise_for_status()


def _core(pace: Pace) -> Iterator[Figure]:
    # As an admin does it: hundreds of thousands of vertices are only ever in processes that do nothing else, and what
    # decides has the folded graph.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        sent = other.submit(_large_description, 100 if pace == QUICK else _NODES).result()
    before = _child_seconds()
    folded = read_sent(sent, None, 1_000_000).compiled.folded
    yield Figure(bench=NAME, what=READ, value=_child_seconds() - before, unit="s")
    del sent
    yield Figure(bench=NAME, what=MEMORY, value=_memory(folded), unit="MiB")
    yield from _matches(read_folded(folded, Shapes()))
    yield from _clusters()


def _large_description(nodes: int) -> bytes:
    return json_text(cluster_document(nodes, _CORES, _GPUS))


def _child_seconds() -> float:
    """The processor time of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory(folded: bytes) -> float:
    """Mebibytes that a graph takes for itself in an admin."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        graph = read_folded(folded, Shapes())
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        assert graph.positions
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
            name = f"{what} {number}"
            backend.put(name, read_description(_cluster(place), shapes=shapes))
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
            fits = backend.match(_job(1 + number % 2, 2 + number % 20, cpu=f"{500 + number}m"), clusters)
            assert set(fits.values()) == {Fit.FITS}

        yield _median(what, match)
    yield from _decisions()


def _decisions() -> Iterator[Figure]:
    """Decisions among clusters of which all fit, and of which one does; no job asks for what another one did."""
    for what, cores, able, places in (
        (DECISION, 1, CLUSTERS, [0] * CLUSTERS),
        (DECISION_OF_ONE, 20, 1, [0] * (CLUSTERS - 1) + [9]),  # whose first node has nine cores more
        (DECISION_AMONG_DIFFERENT, 1, CLUSTERS, list(range(CLUSTERS))),
    ):
        fleet = _described_fleet(places)
        gc.collect()
        gc.freeze()

        def decide_one(number: int, fleet: Fleet = fleet, cores: int = cores, able: int = able) -> None:
            job = {"resources": {"requests": {"cpu": f"{cores * 1000 + number}m"}}}
            demand = {"executions": 1, "cpu": cores * 1000 + number}
            workload = Workload(key=f"e{number}", demand=demand, asks=write_request(request_of(job)))
            decision = decide(pool("all"), fleet, workload, {})
            assert len(decision.evaluation.able) == able, decision.message

        yield _median(what, decide_one)


def _described_fleet(places: list[int]) -> Fleet:
    """A pool of clusters that have synced, with descriptions by these numbers."""
    machines = Machines(MemoryBackend())
    names = [f"cluster-{number}" for number in range(len(places))]
    described = {
        name: machines.add(name, read_description(_cluster(place), shapes=machines.shapes))
        for name, place in zip(names, places, strict=True)
    }
    definitions = [
        *(definition(FleetKind.CLUSTER, name, {}) for name in names),
        definition(FleetKind.POOL, "all", group(names)),
    ]
    states = {name: ClusterState(name=name, reported_at=NOW, health="ready") for name in names}
    return build_fleet(1, definitions, states, described)


def _median(what: str, call: Callable[[int], None]) -> Figure:
    taken = []
    for number in range(_TIMES):
        begin = time.process_time()
        call(number)
        taken.append((time.process_time() - begin) * 1000)
    taken.sort()
    middle = statistics.median(taken)
    return Figure(bench=NAME, what=what, value=middle, unit="ms", p50=middle, p99=taken[-1])


def _job(nodes: int, tasks: int, cpu: str = "1") -> ResourceRequest:
    requests = {"cpu": cpu, "memory": "1Gi"}
    return request_of({"resources": {"nodes": nodes, "tasks": tasks, "requests": requests}})


def _fits(graph: ClusterGraph, request: ResourceRequest) -> None:
    assert Matcher(request).fits(graph)


def _allocated(graph: ClusterGraph, request: ResourceRequest) -> None:
    assert Matcher(request).allocate(graph) is not None
