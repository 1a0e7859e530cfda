"""Resource sets of Flux: one recorded from Flux 0.88, and some of larger instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import Task
from agent.engines.flux.descriptions import describe
from agent.engines.flux.resources import (
    Demand,
    Resources,
    expand_hosts,
    expand_ids,
    fits_ever,
    fits_now,
    hosts_of,
    read_nodes,
    required_properties,
    seconds_until_fit,
    seconds_until_over,
)

RECORDED = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "0-1"}}],
        "starttime": 0.0,
        "expiration": 0.0,
        "nodelist": ["vm"],
    },
}


def resource_set(*entries: tuple[str, str, str], hosts: str = "", **properties: str) -> dict[str, Any]:
    """A set of ranks with their cores and gpus."""
    lite = [
        {"rank": ranks, "children": {"core": cores, **({"gpu": gpus} if gpus else {})}}
        for ranks, cores, gpus in entries
    ]
    return {
        "version": 1,
        "execution": {"R_lite": lite, "nodelist": [hosts] if hosts else [], "properties": properties},
    }


#: Four nodes with four cores; the last two have gpus. The first is half full, and the last is down.
ANSWER = {
    "all": resource_set(("0-1", "0-3", ""), ("2-3", "0-3", "0-1"), hosts="n[08-11]", fast="1-2"),
    "down": resource_set(("3", "0-3", "0-1"), hosts="n11"),
    "allocated": resource_set(("0", "0-1", ""), ("2", "3", "0"), hosts="n[08,10]"),
}
RESOURCES = Resources.of(ANSWER)


def test_what_a_job_requires_of_nodes_are_properties_that_the_instance_has() -> None:
    def requires(field: str, name: str = "cluster", **condition: Any) -> dict[str, Any]:
        return {"name": name, "field": field, **condition}

    entries = [
        requires("properties.fast", match=True),
        requires("properties.fast", "containment", match=True),
        requires("properties.none", match=True),
        requires("properties.fast", "io", match=True),
        requires("properties.fast", match="ssd"),
        requires("arch", match="x86_64"),
    ]
    task = Task(key="rb-1", job={"command": ["true"], "requires": entries}, directory=Path("rb-1"))
    assert required_properties(task, RESOURCES.properties) == ["fast"]
    assert required_properties(task, ()) == []
    for match, expected in (("", ["fast"]), ("True", ["fast"]), (1, []), (False, [])):
        job = {"command": ["true"], "requires": [requires("properties.fast", match=match)]}
        task = Task(key="rb-1", job=job, directory=Path("rb-1"))
        assert required_properties(task, RESOURCES.properties) == expected


def demand(**resources: Any) -> Demand:
    return Demand.of(Task(key="rb-1", job={"command": ["true"], "resources": resources}, directory=Path("rb-1")))


def test_ids_and_host_lists_are_expanded() -> None:
    assert expand_ids("0-2,7") == [0, 1, 2, 7]
    assert expand_ids("") == []
    assert expand_hosts("login,n[08-10,12]-ib,r[1-2]c[3-4]") == [
        *("login", "n08-ib", "n09-ib", "n10-ib", "n12-ib"),
        *("r1c3", "r1c4", "r2c3", "r2c4"),
    ]


def test_a_recorded_set() -> None:
    (node,) = read_nodes(RECORDED).values()
    assert (node.name, node.cores, node.gpus) == ("vm", frozenset({0, 1}), frozenset())
    assert hosts_of(RECORDED) == ("vm",)
    assert read_nodes(None) == {}


def test_ranks_of_one_machine_have_names_of_their_own() -> None:
    nodes = read_nodes(resource_set(("0-1", "0-1", ""), hosts="vm,vm"))
    assert [node.name for node in nodes.values()] == ["vm-0", "vm-1"]


def test_capacity_counts_nodes_that_are_down_and_what_is_free_does_not() -> None:
    assert RESOURCES.capacity() == (
        {"cpu": "16", "gpu": "4", "nodes": 4},
        {"cpu": "9", "gpu": "1", "nodes": 1},
    )
    assert RESOURCES.room() == {
        "n08": {"cpu": "2", "gpu": "0"},
        "n10": {"cpu": "3", "gpu": "1"},
        "n11": {"closed": True},
    }


def test_what_has_started_since_is_taken() -> None:
    left = RESOURCES.taken([resource_set(("1", "0-3", ""), hosts="n09")])
    assert left.capacity()[1] == {"cpu": "5", "gpu": "1", "nodes": 0}


@pytest.mark.parametrize(
    ("resources", "now", "ever"),
    [
        ({"tasks": 9}, True, True),
        ({"tasks": 10}, False, True),
        ({"tasks": 17}, False, False),
        ({"requests": {"cpu": "3500m"}}, True, True),
        ({"requests": {"cpu": "5"}}, False, False),
        ({"nodes": 3, "tasks": 6}, True, True),
        ({"nodes": 3, "tasks": 9}, False, True),
        ({"nodes": 5}, False, False),
        ({"requests": {"gpu": "1"}}, True, True),
        ({"requests": {"gpu": "2"}}, False, True),
        ({"requests": {"gpu": "3"}}, False, False),
        ({"exclusive": True}, True, True),
        ({"nodes": 2, "tasks": 2, "exclusive": True}, False, True),
    ],
)
def test_which_jobs_fit(resources: dict[str, Any], now: bool, ever: bool) -> None:
    assert (fits_now(demand(**resources), RESOURCES), fits_ever(demand(**resources), RESOURCES)) == (now, ever)


def test_a_job_fits_when_enough_of_what_runs_has_ended() -> None:
    running = [
        {"expiration": 160.0, "ranks": "0", "ncores": 2},
        {"expiration": 130.0, "ranks": "2", "ncores": 1},
        {"expiration": 0.0, "ranks": "1", "ncores": 4},
    ]
    assert seconds_until_fit(demand(tasks=9), RESOURCES, running, 100.0) == 0.0
    assert seconds_until_fit(demand(tasks=10), RESOURCES, running, 100.0) == 30.0
    assert seconds_until_fit(demand(nodes=3, tasks=12), RESOURCES, running, 100.0) == 60.0
    assert seconds_until_fit(demand(nodes=4), RESOURCES, running, 100.0) is None
    assert seconds_until_fit(demand(requests={"gpu": "2"}), RESOURCES, running, 100.0) is None


def test_what_waits_is_over_by_the_schedulers_estimates_and_the_limits_of_jobs() -> None:
    def waiting(estimate: float | None, duration: float) -> dict[str, Any]:
        return {"annotations": {"sched": {"t_estimate": estimate}}, "duration": duration}

    assert seconds_until_over([], 100.0) == 0.0
    assert seconds_until_over([waiting(130.0, 60.0), waiting(160.0, 10.0)], 100.0) == 90.0
    assert seconds_until_over([waiting(90.0, 60.0)], 100.0) == 60.0  # expected by now, and late
    for unknown in ({}, waiting(None, 60.0), waiting(130.0, 0.0), {"annotations": {"sched": {}}, "duration": 60.0}):
        assert seconds_until_over([waiting(130.0, 60.0), unknown], 100.0) is None


def test_a_queue_has_the_nodes_with_its_properties() -> None:
    assert RESOURCES.having(["fast"]).capacity()[0] == {"cpu": "8", "gpu": "2", "nodes": 2}
    assert RESOURCES.having([]).all == RESOURCES.all


def test_the_description_of_a_plain_set_has_nodes_cores_gpus_and_queues() -> None:
    description = describe("c", ANSWER["all"], {"debug": {"requires": ["fast"]}, "batch": {}})
    assert description is not None
    nodes = description["graph"]["nodes"]
    assert nodes["node:n09"]["metadata"] == {"type": "node", "name": "n09", "properties": {"fast": True}}
    assert nodes["node:n10/gpu"]["metadata"] == {"type": "gpu", "size": 2}
    edges = description["subsystems"]["queue"]["graph"]["edges"]
    linked = {
        queue: [edge["source"] for edge in edges if edge["target"] == f"queue:{queue}"] for queue in ("debug", "batch")
    }
    assert linked["debug"] == ["node:n09", "node:n10"]
    assert len(linked["batch"]) == 4
    assert describe("c", {}, {}) is None


def test_the_description_of_fluxions_graph_has_its_sockets_and_memory() -> None:
    def vertex(id: str, type_: str, **metadata: Any) -> dict[str, Any]:
        return {"id": id, "metadata": {"type": type_, "rank": 0, **metadata}}

    vertices = [
        *(vertex("0", "cluster", rank=-1), vertex("1", "node"), vertex("2", "socket"), vertex("3", "socket")),
        *(vertex(str(number), "core", size=1) for number in range(4, 8)),
        vertex("8", "memory", size=16, unit="GB"),
    ]
    pairs = ("0", "1"), ("1", "2"), ("1", "3"), ("2", "4"), ("2", "5"), ("3", "6"), ("3", "7"), ("2", "8")
    edges = [{"source": source, "target": target} for source, target in pairs]
    scheduled = {**RECORDED, "scheduling": {"graph": {"nodes": vertices, "edges": edges}}}
    description = describe("c", scheduled, {})
    assert description is not None
    nodes = {id_: node["metadata"] for id_, node in description["graph"]["nodes"].items()}
    assert nodes["node:vm/socket0/core"] == {"type": "core", "size": 2}
    assert nodes["node:vm/socket0/memory"] == {"type": "memory", "size": 16, "unit": "GB"}
    assert nodes["node:vm/socket1/core"] == {"type": "core", "size": 2}
