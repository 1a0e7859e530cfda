"""What a Kubernetes cluster has, as its agent describes it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from agent.engines.kubernetes.nodes import Nodes, known_labels, node_selector
from agent.quantities import tasks_on_node


def node(name: str, cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "7Gi"},
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_parts_of_cores_and_architectures_are_matched_as_jobs_ask_for_them() -> None:
    graph = read_description(Nodes([node("n1", "1930m"), node("n2", "1")], [], "nvidia.com/gpu").describe("k"))

    def fits(cpu: str, architecture: str) -> bool:
        job = {"resources": {"requests": {"cpu": cpu}}, "compatibility": {"architecture": architecture}}
        return Matcher(request_of(job)).fits(graph)

    assert fits("1930m", "amd64")
    assert fits("1.5", "x86_64")
    assert not fits("1931m", "amd64")
    assert not fits("1", "arm64")


def labelled(name: str, **labels: str) -> dict[str, Any]:
    made = node(name, "4")
    made["metadata"]["labels"] = {"kubernetes.io/arch": "amd64", **labels}
    return made


@pytest.mark.parametrize(
    ("job", "selector"),
    [
        ({"requires": [{"name": "cluster", "field": "properties.zone", "match": "a"}]}, {"zone": ("a",)}),
        ({"requires": [{"name": "containment", "field": "properties.generation", "match": 2}]}, {"generation": ("2",)}),
        ({"requires": [{"name": "cluster", "field": "properties.ssd", "match": True}]}, {"ssd": ("true",)}),
        ({"requires": [{"name": "cluster", "field": "arch", "match": "x86_64"}]}, {"kubernetes.io/arch": ("amd64",)}),
        ({"compatibility": {"architecture": "amd64"}}, {"kubernetes.io/arch": ("amd64",)}),
        # Several values that are the same number, and one that no node has now.
        ({"requires": [{"name": "cluster", "field": "properties.size", "match": 3}]}, {"size": ("3", "3.0")}),
        ({"requires": [{"name": "cluster", "field": "properties.zone", "match": "c"}]}, {"zone": ("c",)}),
        ({"requires": [{"name": "cluster", "field": "properties.ssd", "match": False}]}, {"ssd": ("false",)}),
        # A label without a value, which another node has with one.
        ({"requires": [{"name": "cluster", "field": "properties.worker", "match": ""}]}, {"worker": ("",)}),
        ({"requires": [{"name": "cluster", "field": "properties.worker", "match": True}]}, {"worker": ("", "true")}),
        ({"requires": [{"name": "cluster", "field": "properties.worker", "match": "true"}]}, {"worker": ("true",)}),
        # What is no label, a range, and what is asked of a subsystem.
        ({"requires": [{"name": "cluster", "field": "properties.rack", "match": "c"}]}, {}),
        ({"requires": [{"name": "cluster", "field": "properties.generation", "min": 1}]}, {}),
        ({"requires": [{"name": "io", "field": "properties.zone", "match": "a"}]}, {}),
    ],
)
def test_required_labels_select_the_nodes(job: dict[str, Any], selector: dict[str, tuple[str, ...]]) -> None:
    nodes = [
        labelled("n1", zone="a", generation="2", ssd="true", size="3", worker=""),
        labelled("n2", zone="b", size="3.0", worker="true"),
        labelled("n3", size="4"),
    ]
    assert node_selector(job, known_labels(nodes)) == selector


def test_only_the_nodes_that_a_job_requires_have_room_for_it() -> None:
    nodes = Nodes([labelled("n1", zone="a"), labelled("n2", zone="b")], [], "nvidia.com/gpu")
    tasks = {"resources": {"tasks": 2, "requests": {"cpu": "3"}}}
    assert nodes.fits(tasks, when_empty=True)
    zone = {"requires": [{"name": "cluster", "field": "properties.zone", "match": "a"}]}
    assert not nodes.fits(tasks | zone, when_empty=True)
    assert nodes.fits({"resources": {"requests": {"cpu": "3"}}} | zone, when_empty=False)


@pytest.mark.parametrize(
    ("nodes", "tasks", "most"), [(1, 5, 5), (2, 2, 1), (2, 4, 2), (2, 5, 3), (4, 5, 1), (3, 8, 3), (4, 8, 2)]
)
def test_so_many_tasks_on_a_node_at_most_leave_none_of_the_nodes_empty(nodes: int, tasks: int, most: int) -> None:
    assert tasks_on_node({"resources": {"nodes": nodes, "tasks": tasks}}) == most
    assert math.ceil(tasks / most) >= nodes


def test_tasks_are_divided_among_nodes_as_the_scheduler_would() -> None:
    nodes = Nodes([node("n1", "8"), node("n2", "2"), node("n3", "1")], [], "nvidia.com/gpu")

    def fits(**resources: Any) -> bool:
        return nodes.fits({"resources": {"requests": {"cpu": "1"}, **resources}}, when_empty=False)

    assert fits(nodes=2, tasks=5)  # three, two and none
    assert fits(nodes=3, tasks=5)  # two, two and one
    assert not fits(nodes=3, tasks=8)  # five on the first would be four more than on the last
    assert fits(nodes=1, tasks=11)


def test_nodes_that_jobs_are_not_sent_to_do_not_count() -> None:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]
    nodes = [labelled("n1", zone="a"), labelled("n2", zone="b"), labelled("n3", zone="c", size="5")]

    def counted(placing: dict[str, Any]) -> Any:
        return Nodes(nodes, [], "nvidia.com/gpu", [placing]).capacity()[0]["nodes"]

    assert counted({}) == 3
    assert counted({"nodeSelector": {"zone": "a"}}) == 1
    assert counted({"affinity": {"nodeAffinity": {rule: {"nodeSelectorTerms": terms}}}}) == 2
    terms[0]["matchExpressions"].append({"key": "size", "operator": "Gt", "values": ["4"]})
    assert counted({"affinity": {"nodeAffinity": {rule: {"nodeSelectorTerms": terms}}}}) == 1
    assert counted({"affinity": {"nodeAffinity": {rule: {"nodeSelectorTerms": [{}]}}}}) == 0
