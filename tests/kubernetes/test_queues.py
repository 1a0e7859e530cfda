"""Jobs that wait: in a queue of Kueue's, for a node, for an image; and what becomes of them when they need not."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import Any

import pytest

from agent.engines.base import Handle, NativePhase
from agent.engines.kubernetes import KubernetesEngine, names
from agent.engines.kubernetes.api import Api, Refusal
from tests.kubernetes.conftest import MakeEngine
from tests.kubernetes.test_engine import finished, printed, task_of, wait
from tests.kubernetes.test_scheduling import is_running, pods_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")

QUEUES = {"gold": {"kueueQueue": "gold"}}


@pytest.fixture
def engine(make_engine: MakeEngine) -> KubernetesEngine:
    return make_engine(queues=QUEUES)


def set_suspended(api: Api, handle: Handle, suspended: bool) -> None:
    """What Kueue does with a Job of its queues."""
    namespace, _, name = handle.native_id.partition("/")
    api.patch(names.jobs_path(namespace, name), {"spec": {"suspend": suspended}})


def is_gone(api: Api, handle: Handle) -> bool:
    namespace, _, name = handle.native_id.partition("/")
    try:
        api.get(names.jobs_path(namespace, name))
    except Refusal as refusal:
        return refusal.status == 404
    return False


def test_a_job_that_kueue_suspends_after_it_began_is_preempted_and_does_not_run_again(
    make_engine: MakeEngine, api: Api, namespace: str
) -> None:
    engine = make_engine(queues=QUEUES)
    handle = engine.submit(task_of(engine, "echo begun; sleep 600", queue="gold"))
    job = api.get(names.jobs_path(namespace, handle.key))
    assert (job["spec"]["suspend"], job["metadata"]["labels"][names.KUEUE]) == (True, "gold")
    waiting = wait(engine, handle, lambda state: bool(state.message))
    assert (waiting.phase, waiting.message) == (NativePhase.QUEUED, "Kubernetes says: the Job is suspended")
    set_suspended(api, handle, False)
    begun = wait(engine, handle, is_running)
    set_suspended(api, handle, True)
    other = make_engine(queues=QUEUES)  # the agent was started again since
    state = finished(other, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "PREEMPTED"), state
    assert (state.started_at, state.nodes) == (begun.started_at, begun.nodes)
    assert is_gone(api, handle)
    assert pods_in(api, namespace) == []
    assert printed(other, handle) == "begun\n"


def test_a_job_that_waits_in_a_queue_can_be_cancelled_or_withdrawn(engine: KubernetesEngine, api: Api) -> None:
    for is_withdrawn in (False, True):
        handle = engine.submit(task_of(engine, "true", queue="gold"))
        wait(engine, handle, lambda state: bool(state.message))
        if is_withdrawn:  # which is refused while the Job changes
            wait_until(partial(engine.withdraw, handle), 10, interval=0.5)
        else:
            engine.cancel(handle)
        state = finished(engine, handle)
        assert (state.phase, state.started_at) == (NativePhase.ABORTED, None)
        assert is_gone(api, handle)


def test_only_what_has_no_node_yet_is_withdrawn(engine: KubernetesEngine, api: Api, namespace: str) -> None:
    running = engine.submit(task_of(engine, "sleep 600"))
    wait(engine, running, is_running)
    assert not engine.withdraw(running)
    large: dict[str, Any] = {"resources": {"requests": {"cpu": "1000"}}}
    waiting = engine.submit(task_of(engine, "true", job=large))
    wait(engine, waiting, lambda state: bool(state.message))
    pods = engine._watched.pods
    (name,) = (name for name, pod in pods.items.items() if names.label(pod, names.KEY) == waiting.key)
    seen = pods.items[name]
    path = f"/api/v1/namespaces/{namespace}/pods/{name[1]}"
    api.patch(path, {"metadata": {"annotations": {"changed": "since"}}})
    wait_until(lambda: pods.items[name] is not seen)
    pods.items[name], now = seen, pods.items[name]  # as if the watch were behind
    assert not engine.withdraw(waiting)
    assert api.get(path)["metadata"]["uid"] == seen["metadata"]["uid"]
    pods.items[name] = now
    wait_until(lambda: engine.withdraw(waiting), 10, interval=0.5)
    state = finished(engine, waiting)
    assert (state.phase, state.started_at) == (NativePhase.ABORTED, None), state
    assert is_running(engine.states([running])[running.key])
    engine.cancel(running)
    assert finished(engine, running).phase is NativePhase.ABORTED


def test_an_image_that_cannot_be_reached_is_told_even_if_time_is_up_first(engine: KubernetesEngine) -> None:
    handle = engine.submit(task_of(engine, "true", job={"image": "localhost:1/absent"}, time_limit_seconds=8.0))
    state = finished(engine, handle)
    assert (state.phase, state.reason, state.started_at) == (NativePhase.FAILED, "IMAGE_PULL", None), state
    assert "localhost:1/absent" in state.message


def test_what_is_forgotten_leaves_nothing_behind(engine: KubernetesEngine) -> None:
    handle = engine.submit(task_of(engine, "while :; do echo more; sleep 0.1; done"))
    wait(engine, handle, is_running)
    wait_until(lambda: printed(engine, handle) != "")
    engine.cancel(handle)
    engine.forget(handle)
    shutil.rmtree(engine.directory / handle.key)
    time.sleep(5)  # its pod has ended by then
    assert not (engine.directory / handle.key).exists()
