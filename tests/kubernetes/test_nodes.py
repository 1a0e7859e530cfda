"""Real nodes as a resource graph: their labels, taints, architecture and gpus are matched."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.summaries import summarize
from agent.engines.base import NativePhase, Task
from agent.engines.kubernetes import KubernetesEngine, names
from agent.engines.kubernetes.api import Api
from tests.kubernetes.conftest import MakeEngine, MakeSite
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import admin_of_agents
from tests.support.kubernetes import NODE, KubernetesCluster
from tests.support.programs import run
from tests.support.waiting import wait_until

LABELS = {"disktype": "ssd", "topology.kubernetes.io/zone": "z1", "nvidia.com/gpu.product": "H100"}
_NODE = f"/api/v1/nodes/{NODE}"
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@pytest.fixture(scope="module")
def node(cluster: KubernetesCluster, api: Api) -> Iterator[str]:
    """A node with labels, a taint that keeps nothing away, and four gpus as a device plugin reports them."""
    taint = {"key": "team", "value": "blue", "effect": "PreferNoSchedule"}
    api.patch(_NODE, {"metadata": {"labels": LABELS}, "spec": {"taints": [taint]}})
    api.patch(f"{_NODE}/status", {"status": {"capacity": {"nvidia.com/gpu": "4"}}})
    wait_until(lambda: "nvidia.com/gpu" in api.get(_NODE)["status"]["allocatable"], 60)
    yield NODE
    api.patch(_NODE, {"metadata": {"labels": dict.fromkeys(LABELS)}, "spec": {"taints": None}})
    api.patch(f"{_NODE}/status", {"status": {"capacity": {"nvidia.com/gpu": None}}})


def requirement(field: str, match: Any) -> dict[str, Any]:
    return {"requires": [{"name": "cluster", "field": field, "match": match}]}


@pytest.mark.usefixtures("node")
def test_labels_taints_architecture_and_gpus_are_matched(make_engine: MakeEngine) -> None:
    engine = make_engine()
    wait_until(lambda: engine.capacity()[0]["gpu"] == "4")
    description = engine.graph()
    assert description is not None
    graph = read_description(description, {})
    capacity, _ = engine.capacity()
    assert summarize(graph).vertices["node"] == capacity["nodes"] == 1

    def fits(job: dict[str, Any]) -> bool:
        return bool(Matcher(request_of(job)).fits(graph))

    assert fits(requirement("properties.disktype", "ssd"))
    assert not fits(requirement("properties.disktype", "hdd"))
    assert fits(requirement("properties.topology.kubernetes.io/zone", "z1"))
    assert fits(requirement("properties.taint:team", "blue"))
    assert fits(requirement("arch", _ARCHITECTURE))
    assert not fits(requirement("arch", "s390x"))
    assert fits({"resources": {"requests": {"gpu": "4"}}})
    assert not fits({"resources": {"requests": {"gpu": "5"}}})


@pytest.mark.usefixtures("node")
def test_a_gpu_that_runs_is_not_free(make_engine: MakeEngine) -> None:
    engine: KubernetesEngine = make_engine()
    wait_until(lambda: engine.capacity()[1]["gpu"] == "4")
    key = "rb-a1b2c3-gpu-1"
    job = {"command": ["sleep", "600"], "resources": {"requests": {"gpu": "3"}}}
    task = Task(key=key, job=job, directory=engine.directory / key)
    assert engine.bid(task).answer == "yes"
    handle = engine.submit(task)
    wait_until(lambda: engine.capacity()[1]["gpu"] == "1")
    bid = engine.bid(task)
    assert (bid.answer, bid.reason) == ("not-now", "no node has room for it now")
    engine.cancel(handle)
    wait_until(lambda: engine.states([handle])[key].phase is NativePhase.ABORTED, interval=0.1)


@pytest.mark.usefixtures("node")
def test_a_pod_goes_to_the_nodes_that_its_job_requires_unless_the_site_sends_it_elsewhere(
    make_engine: MakeEngine, api: Api, namespace: str
) -> None:
    job = {"command": ["true"], **requirement("properties.disktype", "ssd")}
    engine: KubernetesEngine = make_engine()
    task = Task(key="rb-a1b2c4-ssd-1", job=job, directory=engine.directory / "ssd")
    handle = engine.submit(task)
    wait_until(lambda: engine.states([handle])[task.key].phase is NativePhase.SUCCEEDED, interval=0.1)
    pod = api.get(names.jobs_path(namespace, task.key))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disktype": "ssd"}
    elsewhere: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"disktype": "hdd"}})
    assert elsewhere.check(task) == "requires: the label 'disktype' must be 'ssd', and is 'hdd' by nodeSelector"
    agreeing: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"disktype": "ssd"}})
    assert agreeing.check(task) == ""


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin")) as admin:
        yield admin


@pytest.mark.usefixtures("node")
def test_what_an_execution_requires_is_found_on_a_node_or_refused(admin: RunningAdmin, make_site: MakeSite) -> None:
    site = make_site(admin)
    site.start()
    show = ("rainbowctl", "--endpoint", admin.url, "get", "cluster", site.cluster, "--graph", "-o", "json")
    wait_until(lambda: run(*show, env=site.variables()).returncode == 0, 60, interval=0.5, explain=lambda: site.log)
    site.create("fits", "true", **requirement("properties.disktype", "ssd"))
    assert site.ended("fits")["closure"]["phase"] == "SUCCEEDED"
    with pytest.raises(AssertionError, match=r"properties\.disktype"):
        site.create("never", "true", **requirement("properties.disktype", "tape"))
