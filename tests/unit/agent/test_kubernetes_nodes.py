"""What a Kubernetes cluster has, as its agent describes it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from agent.engines.base import Task
from agent.engines.kubernetes.manifests import job_manifest
from agent.engines.kubernetes.nodes import Nodes, known_labels, node_selector
from agent.engines.kubernetes.options import read_options
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
        # What is no label, a range, and what is asked of a subsystem.
        ({"requires": [{"name": "cluster", "field": "properties.rack", "match": "c"}]}, {}),
        ({"requires": [{"name": "cluster", "field": "properties.generation", "min": 1}]}, {}),
        ({"requires": [{"name": "io", "field": "properties.zone", "match": "a"}]}, {}),
    ],
)
def test_required_labels_select_the_nodes(job: dict[str, Any], selector: dict[str, tuple[str, ...]]) -> None:
    nodes = [
        labelled("n1", zone="a", generation="2", ssd="true", size="3"),
        labelled("n2", zone="b", size="3.0"),
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


def manifest_of(tmp_path: Path, selector: dict[str, tuple[str, ...]], **options: Any) -> dict[str, Any]:
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path)
    manifest = job_manifest(task, "p-d", "alpha", read_options({"image": "busybox", **options}), selector)
    pod: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return pod


def test_pods_select_what_the_site_and_the_job_require(tmp_path: Path) -> None:
    pod = manifest_of(tmp_path, {"zone": ("a",)}, notInterruptible={"nodeSelector": {"pool": "batch"}})
    assert pod["nodeSelector"] == {"zone": "a", "pool": "batch"}
    assert "affinity" not in pod


def test_pods_select_one_of_several_values_beside_the_affinity_of_the_site(tmp_path: Path) -> None:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    pools = [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, {"matchFields": []}]
    affinity = {"nodeAffinity": {rule: {"nodeSelectorTerms": pools}}, "podAffinity": {}}
    pod = manifest_of(tmp_path, {"size": ("3", "3.0")}, notInterruptible={"affinity": affinity})
    size = {"key": "size", "operator": "In", "values": ["3", "3.0"]}
    assert pod["affinity"]["nodeAffinity"][rule]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "pool", "operator": "Exists"}, size]},
        {"matchFields": [], "matchExpressions": [size]},
    ]
    assert "nodeSelector" not in pod


@pytest.mark.parametrize(
    ("nodes", "tasks", "most"), [(1, 5, 5), (2, 2, 1), (2, 4, 2), (2, 5, 3), (4, 5, 1), (3, 8, 3), (4, 8, 2)]
)
def test_so_many_tasks_on_a_node_at_most_leave_none_of_the_nodes_empty(nodes: int, tasks: int, most: int) -> None:
    assert tasks_on_node({"resources": {"nodes": nodes, "tasks": tasks}}) == most
    assert math.ceil(tasks / most) >= nodes


def test_tasks_of_several_nodes_may_be_more_than_one_on_each(tmp_path: Path) -> None:
    job = {"command": ["true"], "resources": {"nodes": 2, "tasks": 4}}
    task = Task(key="rb-1", job=job, directory=tmp_path)
    spec = job_manifest(task, "p-d", "alpha", read_options({"image": "busybox"}))["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 4)
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["minDomains"], spread["nodeTaintsPolicy"]) == (2, 2, "Honor")


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


@pytest.mark.parametrize(("lease", "grace"), [(None, 30), (40.0, 13), (8.0, 2), (1.0, 1)])
def test_a_guarded_pod_gets_no_more_time_to_end_than_its_lease_leaves(
    tmp_path: Path, lease: float | None, grace: int
) -> None:
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path, lease_seconds=lease)
    pod = job_manifest(task, "p-d", "alpha", read_options({"image": "busybox"}))["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == grace
