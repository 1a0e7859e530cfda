"""Schedulers that estimate when jobs will start, among them Fluxion, which has a graph."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.engines.base import Bid, NativePhase
from agent.engines.flux import FluxEngine
from tests.flux.test_engine import finished, printed, printing, task_of
from tests.support.flux import NODES, PROPERTY, FluxInstance, running_flux
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=["sched-fifo", "sched-backfill", "sched-fluxion-qmanager"])
def estimating(instance: FluxInstance, request: pytest.FixtureRequest) -> Iterator[FluxInstance]:
    """An instance with a scheduler that estimates when jobs will start."""
    done = subprocess.run(["flux", "config", "builtin", "module_path"], check=True, capture_output=True, text=True)
    directories = [Path(path) for path in done.stdout.strip().split(":")]
    if not any(list(directory.glob(f"{request.param}.*")) for directory in directories):
        pytest.skip(f"this Flux has no scheduler {request.param}")
    with running_flux(scheduler=request.param) as estimating:
        yield estimating


@pytest.fixture
def engine(estimating: FluxInstance, tmp_path: Path) -> Iterator[FluxEngine]:
    engine = FluxEngine({"uri": estimating.uri, "graceSeconds": 1}, tmp_path)
    yield engine
    engine.close()
    estimating.run("cancel", "--all", "--quiet")


def test_a_bid_counts_what_waits_by_when_it_is_expected_to_start(engine: FluxEngine) -> None:
    everything = {"tasks": int(engine.capacity()[0]["cpu"])}

    def bid() -> Bid:
        return engine.bid(task_of(engine, "true"))

    running = engine.submit(task_of(engine, "echo ready; exec sleep 600", everything, time_limit_seconds=300.0))
    printing(engine, running, "ready")
    engine.submit(task_of(engine, "true", everything, time_limit_seconds=100.0))
    wait_until(lambda: bid().answer == "yes" and (bid().start_seconds or 0) > 300, 60, explain=lambda: str(bid()))
    start_seconds = bid().start_seconds
    assert start_seconds is not None
    assert 300 < start_seconds <= 410
    engine.submit(task_of(engine, "true", everything))  # nobody knows when this one will have ended
    wait_until(lambda: bid().answer == "not-now", 60, explain=lambda: str(bid()))
    assert bid().reason == "2 jobs wait in Flux before it"


def test_what_a_scheduler_knows_of_nodes_is_described_and_its_jobs_run(
    engine: FluxEngine, estimating: FluxInstance
) -> None:
    cores = int(engine.capacity()[0]["cpu"]) // NODES
    description = engine.graph()
    assert description is not None
    vertices = [vertex["metadata"] for vertex in description["graph"]["nodes"].values()]
    nodes = [vertex for vertex in vertices if vertex["type"] == "node"]
    assert [bool(vertex.get("properties", {}).get(PROPERTY)) for vertex in nodes] == [False, True]
    assert [vertex["size"] for vertex in vertices if vertex["type"] == "core"] == [cores] * NODES
    resource_set = json.loads(estimating.run("kvs", "get", "resource.R"))
    assert ("graph" in resource_set.get("scheduling", {})) == estimating.is_fluxion
    handle = engine.submit(task_of(engine, "echo $RAINBOW_TASK", {"nodes": NODES, "tasks": NODES}))
    assert finished(engine, handle).phase is NativePhase.SUCCEEDED
    assert sorted(printed(engine, handle).split()) == ["0", "1"]
    bid = engine.bid(task_of(engine, "true", {"tasks": 1000}))
    assert bid.answer == "never", bid
