"""The Job of a task, and what cannot be written as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import Task
from agent.engines.kubernetes.manifests import job_manifest, why_no_node, why_not
from agent.engines.kubernetes.options import Options, read_options


def options_of(**options: Any) -> Options:
    return read_options({"image": "busybox", "namespace": "p-d", "cluster": "alpha", **options})


def manifest_of(tmp_path: Path, selector: dict[str, tuple[str, ...]], **options: Any) -> dict[str, Any]:
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path)
    manifest = job_manifest(task, options_of(**options), selector)
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


def test_tasks_of_several_nodes_may_be_more_than_one_on_each(tmp_path: Path) -> None:
    job = {"command": ["true"], "resources": {"nodes": 2, "tasks": 4}}
    task = Task(key="rb-1", job=job, directory=tmp_path)
    spec = job_manifest(task, options_of())["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 4)
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["minDomains"], spread["nodeTaintsPolicy"]) == (2, 2, "Honor")


@pytest.mark.parametrize(("lease", "grace"), [(None, 30), (40.0, 13), (8.0, 2), (1.0, 1)])
def test_a_guarded_pod_gets_no_more_time_to_end_than_its_lease_leaves(
    tmp_path: Path, lease: float | None, grace: int
) -> None:
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path, lease_seconds=lease)
    pod = job_manifest(task, options_of())["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == grace


ENVIRONMENT = {"RAINBOW_PROJECT": "p" * 60, "RAINBOW_DOMAIN": "development"}


@pytest.mark.parametrize(
    ("more", "options", "reason"),
    [
        ({}, {}, ""),
        ({}, {"image": ""}, "name one in the job, or set engineOptions.image"),
        ({"image": "alpine"}, {"image": ""}, ""),
        ({"resources": {"exclusive": True}}, {}, "resources.exclusive: "),
        ({"resources": {"nodes": 3, "tasks": 2}}, {}, "resources.nodes: 3 nodes for fewer tasks (2)"),
        ({"outputs": ["result"], "working_directory": "/data"}, {}, "outputs: files in /data"),
        ({"outputs": ["result"], "working_directory": "data"}, {}, ""),
        ({}, {"namespace": "{{ project }}-{{ domain }}"}, "at most 63 of a-z, 0-9 and '-'"),
        (
            {},
            {"queues": {"gold": {"priorityClass": "gold"}}},
            "engineOptions.queues has no 'glod'. Did you mean gold?",
        ),
    ],
)
def test_what_cannot_be_written_as_a_job_is_said(
    tmp_path: Path, more: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    job = {"command": ["true"], **more}
    task = Task(key="rb-1", job=job, directory=tmp_path, environment=ENVIRONMENT, queue="glod")
    refusal = why_not(task, options_of(**options))
    assert reason in refusal
    assert bool(refusal) == bool(reason)


def test_a_node_must_be_able_to_have_what_the_site_and_the_job_require(tmp_path: Path) -> None:
    task = Task(key="rb-1", job={"command": ["true"]}, directory=tmp_path)
    options = options_of(notInterruptible={"nodeSelector": {"disk": "hdd"}})
    assert why_no_node(task, options, {"zone": ("a",), "disk": ("hdd", "ssd")}) == ""
    refusal = "requires: the label 'disk' must be 'ssd', and is 'hdd' by nodeSelector"
    assert why_no_node(task, options, {"disk": ("ssd",)}) == refusal
