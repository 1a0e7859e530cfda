"""Where the scheduler puts the pods of several tasks, on nodes without a kubelet: nothing runs on them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.engines.base import NativePhase, Task
from agent.engines.kubernetes import KubernetesEngine, names
from agent.engines.kubernetes.api import Api
from tests.kubernetes.conftest import MakeEngine
from tests.support.waiting import wait_until

MakeNodes = Callable[..., str]
_NODES = "/api/v1/nodes"


@pytest.fixture
def make_nodes(api: Api, namespace: str) -> Iterator[MakeNodes]:
    """Makes nodes that take pods, and returns the label that they all have."""
    made: list[str] = []
    mark = f"m{secrets.token_hex(4)}"

    def make(*cpus: str, taints: tuple[dict[str, str], ...] = (), **labels: str) -> str:
        for cpu in cpus:
            name = f"{mark}-{len(made)}"
            metadata = {"name": name, "labels": {"mark": mark, "kubernetes.io/hostname": name, **labels}}
            api.create(_NODES, {"metadata": metadata, "spec": {"taints": list(taints)}})
            made.append(name)
            has = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": has, "allocatable": has, "conditions": [ready]}
            api.patch(f"{_NODES}/{name}/status", {"status": status})

            def takes_pods(name: str = name) -> bool:
                # The controller manager takes this taint away when it sees the condition.
                left = api.get(f"{_NODES}/{name}")["spec"].get("taints") or []
                return not any(taint["key"].startswith("node.kubernetes.io/") for taint in left)

            wait_until(takes_pods, 60)
        return mark

    yield make
    for name in made:
        api.delete(f"{_NODES}/{name}", gracePeriodSeconds=0)
    for pod in pods_in(api, namespace):
        api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", gracePeriodSeconds=0)


def pods_in(api: Api, namespace: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return pods


def task_of(engine: KubernetesEngine, **resources: Any) -> Task:
    key = f"rb-{secrets.token_hex(6)}-job-1"
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}, **resources}}
    return Task(key=key, job=job, directory=engine.directory / key)


def placed(api: Api, namespace: str, count: int) -> Counter[str]:
    """How many of so many pods each node has, once all have one."""

    def nodes() -> list[str]:
        return [pod["spec"]["nodeName"] for pod in pods_in(api, namespace) if pod["spec"].get("nodeName")]

    wait_until(lambda: len(nodes()) == count, 60, explain=lambda: str(nodes()))
    return Counter(nodes())


CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def test_four_tasks_on_two_nodes_start_beside_a_node_that_takes_none(
    make_engine: MakeEngine, make_nodes: MakeNodes, api: Api, namespace: str
) -> None:
    mark = make_nodes("4", "4")
    make_nodes("4", taints=(CONTROL_PLANE,))
    engine: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"mark": mark}})
    wait_until(lambda: engine.capacity()[0]["nodes"] == 3)
    task = task_of(engine, nodes=2, tasks=4)
    assert engine.bid(task).answer == "yes"
    handle = engine.submit(task)
    assert set(placed(api, namespace, 4)) == {f"{mark}-0", f"{mark}-1"}
    job = api.get(names.jobs_path(namespace, task.key))
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 4)
    assert engine.states([handle])[task.key].phase is NativePhase.QUEUED  # nothing runs there


def test_tasks_of_two_nodes_take_no_more_of_a_larger_cluster(
    make_engine: MakeEngine, make_nodes: MakeNodes, api: Api, namespace: str
) -> None:
    mark = make_nodes("4", "4", "4", "4")
    engine: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"mark": mark}})
    wait_until(lambda: engine.capacity()[0]["nodes"] == 4)
    engine.submit(task_of(engine, nodes=2, tasks=4))
    assert sorted(placed(api, namespace, 4).values()) == [2, 2]


def test_tasks_of_more_nodes_than_there_are_wait_and_are_no_bid(make_engine: MakeEngine, make_nodes: MakeNodes) -> None:
    mark = make_nodes("4", "4")
    engine: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"mark": mark}})
    wait_until(lambda: engine.capacity()[0]["nodes"] == 2)
    task = task_of(engine, nodes=3, tasks=3)
    assert engine.bid(task).answer == "not-now"
    handle = engine.submit(task)
    wait_until(lambda: "topology spread" in engine.states([handle])[task.key].message, 30)
    fewer = task_of(engine, nodes=2)
    assert engine.bid(fewer).answer == "never"
    assert engine.check(fewer) == (
        "resources.nodes: 2 nodes for fewer tasks (1): Kubernetes holds no node without a pod: set resources.tasks to "
        "2 or more"
    )


def test_a_job_waits_for_a_label_that_no_node_has_any_more(
    make_engine: MakeEngine, make_nodes: MakeNodes, api: Api, namespace: str
) -> None:
    mark = make_nodes("4", disk="fast")
    make_nodes("4", disk="slow")
    engine: KubernetesEngine = make_engine(notInterruptible={"nodeSelector": {"mark": mark}})
    wait_until(lambda: engine.capacity()[0]["nodes"] == 2)
    task = task_of(engine)
    requires = [{"name": "cluster", "field": "properties.disk", "match": "fast"}]
    task = Task(key=task.key, job={**task.job, "requires": requires}, directory=task.directory)
    assert engine.bid(task).answer == "yes"
    api.patch(f"{_NODES}/{mark}-0", {"metadata": {"labels": {"disk": "broken"}}})
    wait_until(lambda: engine.bid(task).answer == "not-now")
    handle = engine.submit(task)
    wait_until(lambda: "node affinity/selector" in engine.states([handle])[task.key].message, 30)
    api.patch(f"{_NODES}/{mark}-0", {"metadata": {"labels": {"disk": "fast"}}})
    assert placed(api, namespace, 1) == {f"{mark}-0": 1}
