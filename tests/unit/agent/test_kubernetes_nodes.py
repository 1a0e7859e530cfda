"""What a Kubernetes cluster has, as its agent describes it."""

from __future__ import annotations

from typing import Any

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from agent.engines.kubernetes.nodes import Nodes


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
