"""What counts of a cluster's amounts: its definition, its agent's report, and what its description has."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.fleet.clusters import Cluster, ClusterState, build_cluster
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.report_checks import doubts_of
from admin.core.graph.descriptions import read_description
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from tests.support.descriptions import pooled


def described(report: dict[str, Any], **payload: Any) -> Cluster:
    """A cluster whose description has two nodes of eight cores."""
    machine = Machines(MemoryBackend()).add("a", read_description(pooled(2, 8)))
    definition = Definition(kind=FleetKind.CLUSTER, name="a", payload=payload, source=Source.MANAGED)
    return build_cluster(definition, ClusterState(name="a", report=report, description="a"), machine)


@pytest.mark.parametrize(
    ("report", "doubts"),
    [
        (
            {"free": {"cpu": "500", "nodes": 70, "gpu": "5"}},
            [
                "500 cpu free, of 16 in all: 16 count.",
                "70 nodes free, of 2 in all: 2 count.",
                "5 gpu free, of 0 in all: 0 count.",
            ],
        ),
        (
            {"capacity": {"cpu": "99"}, "free": {"cpu": "99"}},
            ["99 cpu free, of 16 in all: 16 count.", "99 cpu in all, and the description has 16: 16 count."],
        ),
        ({}, []),
        ({"nodes": {"n1": {"gpu": "3"}}}, ["'n1' with 3 gpus free, of 0: what a node does not have does not count."]),
    ],
)
def test_no_more_counts_than_the_description_has(report: dict[str, Any], doubts: list[str]) -> None:
    cluster = described(report)
    assert cluster.capacity is not None
    assert cluster.unused is not None
    assert (cluster.capacity["cpu"], cluster.capacity["nodes"]) == (16_000, 2)
    assert (cluster.unused["cpu"], cluster.unused["nodes"], cluster.unused.get("gpu", 0)) == (16_000, 2, 0)
    assert doubts_of(cluster) == doubts


def test_what_the_description_does_not_tell_of_and_less_than_it_has_counts_as_it_is_said() -> None:
    report = {"capacity": {"cpu": "12", "memory": "4Gi", "executions": 3}, "free": {"cpu": "5", "memory": "1Gi"}}
    cluster = described(report, capacity={"nodes": 1, "cpu": "3"})
    assert cluster.capacity == {"cpu": 12_000, "nodes": 1, "memory": 4 * 2**30, "executions": 3}
    assert cluster.unused == {"cpu": 5_000, "nodes": 1, "memory": 2**30, "executions": 3}
    assert doubts_of(cluster) == []


def test_memory_that_is_rounded_over_all_nodes_is_not_warned_of() -> None:
    machine = Machines(MemoryBackend()).add("a", read_description(pooled(2, 8, memory=4)))
    definition = Definition(kind=FleetKind.CLUSTER, name="a", payload={}, source=Source.MANAGED)
    for memory, number in (("8193Mi", 0), ("8195Mi", 2)):
        report = {"capacity": {"memory": memory}, "free": {"memory": memory}}
        cluster = build_cluster(definition, ClusterState(name="a", report=report, description="a"), machine)
        assert (cluster.unused or {})["memory"] == 8 * 2**30
        assert len(doubts_of(cluster)) == number


def test_another_description_leaves_what_was_reported() -> None:
    cluster = described({"capacity": {"cpu": "99"}})
    anew = cluster.with_state(ClusterState(name="a", report={"capacity": {"cpu": "99"}}, description="b"))
    assert anew.capacity == {"cpu": 99_000}
    assert anew.machine is None


def test_how_full_a_described_cluster_is_of_which_nothing_is_told_is_not_known() -> None:
    assert described({"engine": "slurm", "problem": "slurmctld does not answer"}).utilization is None
    assert described({"free": {"cpu": "4"}}).utilization == 0.75
    assert described({}, capacity={"cpu": "4"}).utilization == 0


def test_a_description_without_nodes_leaves_those_that_are_reported() -> None:
    cores = {"c0": {"metadata": {"type": "cluster"}}, "c1": {"metadata": {"type": "core", "size": 4}}}
    graph = {"graph": {"nodes": cores, "edges": [{"source": "c0", "target": "c1", "relation": "contains"}]}}
    machine = Machines(MemoryBackend()).add("a", read_description(graph))
    definition = Definition(kind=FleetKind.CLUSTER, name="a", payload={}, source=Source.MANAGED)
    report = {"capacity": {"cpu": "8", "nodes": 1}, "free": {"cpu": "8", "nodes": 1}}
    cluster = build_cluster(definition, ClusterState(name="a", report=report, description="a"), machine)
    assert cluster.unused == {"cpu": 4_000, "nodes": 1}


def test_nodes_that_an_earlier_version_stored_as_null_are_left_out() -> None:
    definition = Definition(kind=FleetKind.CLUSTER, name="a", payload={"capacity": {"cpu": "4"}}, source=Source.MANAGED)
    assert build_cluster(definition, ClusterState(name="a", report={"nodes": {"n1": None}})).unused == {"cpu": 4_000}
