"""What a Kubernetes cluster has, as its agent describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from agent.engines.base import Task
from agent.engines.kubernetes.manifests import job_manifest
from agent.engines.kubernetes.nodes import Nodes, node_selector
from agent.engines.kubernetes.options import read_options


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
        ({"requires": [{"name": "cluster", "field": "properties.zone", "match": "a"}]}, {"zone": "a"}),
        ({"requires": [{"name": "containment", "field": "properties.generation", "match": 2}]}, {"generation": "2"}),
        ({"requires": [{"name": "cluster", "field": "properties.ssd", "match": True}]}, {"ssd": "true"}),
        ({"requires": [{"name": "cluster", "field": "arch", "match": "x86_64"}]}, {"kubernetes.io/arch": "amd64"}),
        ({"compatibility": {"architecture": "amd64"}}, {"kubernetes.io/arch": "amd64"}),
        # What no label says, a range, and what is asked of a subsystem.
        ({"requires": [{"name": "cluster", "field": "properties.zone", "match": "c"}]}, {}),
        ({"requires": [{"name": "cluster", "field": "properties.generation", "min": 1}]}, {}),
        ({"requires": [{"name": "io", "field": "properties.zone", "match": "a"}]}, {}),
    ],
)
def test_required_labels_select_the_nodes(job: dict[str, Any], selector: dict[str, str]) -> None:
    nodes = [labelled("n1", zone="a", generation="2", ssd="true"), labelled("n2", zone="b")]
    assert node_selector(job, nodes) == selector


def test_only_the_nodes_that_a_job_requires_have_room_for_it() -> None:
    nodes = Nodes([labelled("n1", zone="a"), labelled("n2", zone="b")], [], "nvidia.com/gpu")
    tasks = {"resources": {"tasks": 2, "requests": {"cpu": "3"}}}
    assert nodes.fits(tasks, when_empty=True)
    zone = {"requires": [{"name": "cluster", "field": "properties.zone", "match": "a"}]}
    assert not nodes.fits(tasks | zone, when_empty=True)
    assert nodes.fits({"resources": {"requests": {"cpu": "3"}}} | zone, when_empty=False)


def test_pods_select_what_the_site_and_the_job_require(tmp_path: Path) -> None:
    options = read_options({"image": "busybox", "notInterruptible": {"nodeSelector": {"pool": "batch"}}})
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path)
    pod = job_manifest(task, "p-d", "alpha", options, {"zone": "a"})["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"zone": "a", "pool": "batch"}
