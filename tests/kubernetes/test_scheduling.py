"""What Kubernetes does with a Job for the sake of others: eviction, preemption, taints; and the names that it takes."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import NativePhase, NativeState
from agent.engines.kubernetes import KubernetesEngine, names
from agent.engines.kubernetes.api import Api
from ctl.client.quantities import parse_quantity
from tests.conftest import Scale
from tests.kubernetes.conftest import MakeEngine, MakeSite, site_settings
from tests.kubernetes.test_engine import finished, task_of, wait
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import admin_of_agents, running_site, wire_to
from tests.support.kubernetes import NODE, KubernetesCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

_NODE = f"/api/v1/nodes/{NODE}"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def is_running(state: NativeState) -> bool:
    return state.phase is NativePhase.RUNNING


def pods_in(api: Api, namespace: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return pods


def test_a_job_whose_pod_is_evicted_says_so(make_engine: MakeEngine, api: Api, namespace: str) -> None:
    engine = make_engine()
    handle = engine.submit(task_of(engine, "sleep 600"))
    wait(engine, handle, is_running)
    (pod,) = pods_in(api, namespace)
    name = pod["metadata"]["name"]
    api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", {"metadata": {"name": name}})
    state = finished(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "EVICTED"), state
    assert state.message.startswith("It was evicted from its node.")
    assert pods_in(api, namespace) == []  # it is not started again


@pytest.fixture
def priority_class(api: Api) -> Iterator[str]:
    name = f"gold-{secrets.token_hex(4)}"
    api.create(_CLASSES, {"metadata": {"name": name}, "value": 1000})
    yield name
    api.delete(f"{_CLASSES}/{name}")


def test_a_job_of_a_queue_with_a_priority_class_preempts_another(
    make_engine: MakeEngine, api: Api, namespace: str, priority_class: str
) -> None:
    engine = make_engine(queues={"gold": {"priorityClass": priority_class}, "plain": {}})
    free = parse_quantity(engine.capacity()[1]["cpu"])

    def requesting(share: float) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": f"{int(free * 1000 * share)}m"}}}

    plain = engine.submit(task_of(engine, "sleep 600", job=requesting(0.9), queue="plain"))
    wait(engine, plain, is_running)
    gold = engine.submit(task_of(engine, "sleep 600", job=requesting(0.5), queue="gold"))
    state = finished(engine, plain)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "PREEMPTED"), state
    assert state.message.startswith("Kubernetes ended it in favour of another pod.")
    wait(engine, gold, is_running)
    (pod,) = pods_in(api, namespace)
    assert pod["spec"]["priorityClassName"] == priority_class
    engine.cancel(gold)
    assert finished(engine, gold).phase is NativePhase.ABORTED


@pytest.fixture
def spot_node(cluster: KubernetesCluster, api: Api) -> Iterator[None]:
    """The node takes only what tolerates that it may go away."""
    assert not api.get(_NODE)["spec"].get("taints")
    api.patch(_NODE, {"spec": {"taints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}})
    yield
    api.patch(_NODE, {"spec": {"taints": None}})


@pytest.mark.usefixtures("spot_node")
def test_only_interruptible_jobs_go_to_nodes_that_may_go_away(make_engine: MakeEngine) -> None:
    toleration = {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    engine: KubernetesEngine = make_engine(interruptible={"tolerations": [toleration]})
    lasting = engine.submit(task_of(engine, "true"))
    interruptible = engine.submit(task_of(engine, "true", config={"interruptible": True}))
    assert finished(engine, interruptible).phase is NativePhase.SUCCEEDED
    state = wait(engine, lasting, lambda state: "taint" in state.message)
    assert state.phase is NativePhase.QUEUED
    engine.cancel(lasting)
    assert finished(engine, lasting).phase is NativePhase.ABORTED


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin")) as admin:
        yield admin


def test_an_execution_with_the_longest_name_has_a_job_of_a_name_that_kubernetes_takes(
    admin: RunningAdmin, make_site: MakeSite, api: Api
) -> None:
    site = make_site(admin)
    site.start()
    name = f"a{'-long-name' * 10}"[:63]
    site.create(name, "sh", "-c", "echo $RAINBOW_TASK", resources={"tasks": 3, "requests": {"cpu": "1m"}})
    assert site.ended(name)["closure"]["phase"] == "SUCCEEDED", site.log
    assert sorted(site.printed(name)["data"].split()) == ["0", "1", "2"]
    key, namespace = site.key(name), str(site.engine_options["namespace"])
    assert len(key) == 57
    assert api.get(names.jobs_path(namespace, key))["spec"]["completionMode"] == "Indexed"
    assert {pod["metadata"]["labels"][names.KEY] for pod in pods_in(api, namespace)} == {key}


def test_why_an_execution_waits_is_told_in_the_words_of_kubernetes(
    admin: RunningAdmin, make_site: MakeSite, api: Api
) -> None:
    site = make_site(admin)
    path = f"/api/v1/namespaces/{site.engine_options['namespace']}/resourcequotas"
    api.create(path, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "10m"}}})
    site.start()
    site.create(f"{site.cluster}-waits", "true", resources={"requests": {"cpu": "20m"}})

    def told() -> str:
        return str(site.get(f"{site.cluster}-waits", "/explanation")["status"]["message"])

    wait_until(lambda: "has it, and Kubernetes says: " in told(), 60, explain=lambda: f"{told()}\n{site.log}")
    assert "exceeded quota: small" in told()
    api.patch(f"{path}/small", {"spec": {"hard": {"requests.cpu": "1"}}})
    assert site.ended(f"{site.cluster}-waits")["closure"]["phase"] == "SUCCEEDED"


def test_jobs_that_wait_cost_no_calls_and_are_told_in_few_bytes(
    admin: RunningAdmin, cluster: KubernetesCluster, api: Api, namespace: str, tmp_path: Path, scale: Scale
) -> None:
    count, seconds = scale(30, full=500), scale(12, full=60)
    cpu = parse_quantity(api.get(_NODE)["status"]["allocatable"]["cpu"])
    with wire_to(admin) as wire:
        settings = {**site_settings(cluster, namespace), "slots": count + 1, "endpoint": wire.url}
        with running_site(admin, tmp_path / "site", **settings) as site:
            site.start()
            large = {"requests": {"cpu": f"{int(cpu * 900)}m"}}
            names = [f"{site.cluster}-{number}" for number in range(count)]
            site.create(f"{site.cluster}-runs", "sleep", "600", resources=large)
            site.running(f"{site.cluster}-runs")
            for name in names:
                site.create(name, "true", resources=large)

            def waiting() -> int:
                return sum("Unschedulable" in str(pod["status"]) for pod in pods_in(api, namespace))

            wait_until(lambda: waiting() == count, 60 + count, interval=2.0, explain=lambda: f"{waiting()}: {site.log}")

            def told() -> str:
                return str(site.get(names[0], "/explanation")["status"]["message"])

            wait_until(lambda: "Insufficient cpu" in told(), 60, interval=0.5, explain=told)
            time.sleep(6.0)  # until the report of all of them has passed
            calls, transferred, begun = cluster.calls(namespace), wire.bytes, time.monotonic()
            time.sleep(seconds)
            spent = wire.bytes - transferred
            counts = Counter(
                {name: number for name, number in (cluster.calls(namespace) - calls).items() if name != "get "}
            )
            elapsed = time.monotonic() - begun
            print(f"{count} wait for {elapsed:.0f} s: {dict(counts)}, {spent} bytes to and from the admin")
            assert set(counts) <= {f"watch {kind}" for kind in ("jobs", "pods", "nodes", "events")}, counts
            assert spent / elapsed < 2000 + 100 * count
    api.delete(f"/api/v1/namespaces/{namespace}")
