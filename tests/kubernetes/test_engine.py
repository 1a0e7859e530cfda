"""The Kubernetes engine on a real cluster."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.engines.base import Handle, NativePhase, NativeState, SubmitRefused, Task
from agent.engines.kubernetes import KubernetesEngine, names
from agent.engines.kubernetes.api import Api
from agent.engines.kubernetes.janitor import Janitor
from agent.testing import check_engine
from tests.kubernetes.conftest import MakeEngine
from tests.support.conformance import checks_of
from tests.support.kubernetes import NODE, KubernetesCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def engine(make_engine: MakeEngine) -> KubernetesEngine:
    return make_engine()


@pytest.fixture
def janitor(cluster: KubernetesCluster, namespace: str) -> Iterator[Janitor]:
    """A janitor that runs beside the test."""
    janitor = Janitor({"kubeconfig": str(cluster.kubeconfig), "cluster": namespace})
    janitor.step()
    is_over = threading.Event()
    thread = threading.Thread(target=janitor.run, args=(is_over.is_set,))
    thread.start()
    yield janitor
    is_over.set()
    thread.join()
    janitor.api.close()


def task_of(engine: KubernetesEngine, *command: str, job: dict[str, Any] | None = None, **more: Any) -> Task:
    key = f"rb-{secrets.token_hex(6)}-job-1"
    words = list(command) if len(command) > 1 else ["sh", "-c", *command]
    return Task(key=key, job={"command": words, **(job or {})}, directory=engine.directory / key, **more)


def wait(engine: KubernetesEngine, handle: Handle, is_reached: Callable[[NativeState], bool]) -> NativeState:
    def state() -> NativeState | None:
        state = engine.states([handle]).get(handle.key)
        return state if state is not None and is_reached(state) else None

    reached = wait_until(state, interval=0.1, explain=lambda: f"the last state: {engine.states([handle])}")
    assert reached is not None
    return reached


def finished(engine: KubernetesEngine, handle: Handle) -> NativeState:
    return wait(engine, handle, lambda state: state.phase.finished)


def run(engine: KubernetesEngine, *command: str, **more: Any) -> tuple[Handle, NativeState]:
    handle = engine.submit(task_of(engine, *command, **more))
    return handle, finished(engine, handle)


def printed(engine: KubernetesEngine, handle: Handle) -> str:
    return engine.logs(handle, "stdout", 0, 1 << 20).decode()


@pytest.mark.usefixtures("janitor")
def test_it_keeps_the_promises_of_an_engine(make_engine: MakeEngine) -> None:
    engine, prefix = make_engine(), f"rb-{secrets.token_hex(6)}"
    checked = check_engine(engine, engine.directory, restarted=make_engine(), prefix=prefix, seconds=60)
    assert checked == checks_of("kubernetes")


def test_how_jobs_end(engine: KubernetesEngine) -> None:
    limits = {"resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "16Mi"}}}
    tasks = {
        "code": task_of(engine, "echo out; echo err >&2; exit 3"),
        "memory": task_of(engine, "x=$(dd if=/dev/zero bs=1M count=64 | tr '\\0' a); echo ${#x}", job=limits),
        "time": task_of(engine, "echo begun; sleep 600", time_limit_seconds=2.0),
        "signal": task_of(engine, "sh -c 'kill -9 $$'; exit $?"),
        "command": task_of(engine, "no-such-command", "1"),
    }
    handles = {name: engine.submit(task) for name, task in tasks.items()}
    ends = {name: finished(engine, handle) for name, handle in handles.items()}
    assert (ends["code"].phase, ends["code"].exit_code) == (NativePhase.FAILED, 3)
    assert sorted(printed(engine, handles["code"]).splitlines()) == ["err", "out"]
    assert (ends["memory"].phase, ends["memory"].reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
    assert "16Mi" in ends["memory"].message
    assert (ends["time"].phase, ends["time"].reason) == (NativePhase.TIMED_OUT, "TIME_LIMIT")
    assert printed(engine, handles["time"]) == "begun\n"
    assert (ends["signal"].phase, ends["signal"].signal) == (NativePhase.FAILED, 9)
    assert (ends["command"].phase, ends["command"].reason) == (NativePhase.FAILED, "COMMAND_NOT_FOUND")
    assert ends["code"].nodes == (NODE,)


def test_an_image_that_cannot_be_pulled_is_told_in_the_kubelets_words(make_engine: MakeEngine) -> None:
    engine = make_engine(imagePullSeconds=1, imagePullPolicy="Never")
    handle, state = run(engine, "true", job={"image": "localhost/absent:1"})
    assert (state.phase, state.reason, state.started_at) == (NativePhase.FAILED, "IMAGE_PULL", None)
    assert "localhost/absent:1" in state.message
    assert printed(engine, handle) == ""


def test_a_job_that_no_node_can_take_waits_for_a_reason_and_can_be_cancelled(engine: KubernetesEngine) -> None:
    task = task_of(engine, "true", job={"resources": {"requests": {"cpu": "1000"}}})
    assert engine.bid(task).answer == "not-now"
    handle = engine.submit(task)
    state = wait(engine, handle, lambda state: bool(state.message))
    assert (state.phase, state.message.startswith("Kubernetes says: 0/1 nodes are available")) == (
        NativePhase.QUEUED,
        True,
    )
    assert "Insufficient cpu" in state.message
    engine.cancel(handle)
    assert finished(engine, handle).phase is NativePhase.ABORTED


def test_a_job_above_the_quota_of_its_namespace_says_so(engine: KubernetesEngine, api: Api, namespace: str) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "100m"}}}
    api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    handle = engine.submit(task_of(engine, "true", job={"resources": {"requests": {"cpu": "200m"}}}))
    state = wait(engine, handle, lambda state: bool(state.message))
    assert "exceeded quota" in state.message


def test_a_quota_lowered_below_what_runs_takes_nothing_away_and_lets_nothing_in(
    engine: KubernetesEngine, api: Api, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    quota = {"metadata": {"name": "shrinking"}, "spec": {"hard": {"requests.cpu": "100m"}}}
    api.create(path, quota)
    job = {"resources": {"requests": {"cpu": "50m"}}}
    running = engine.submit(task_of(engine, "sleep 600", job=job))
    wait(engine, running, lambda state: state.phase is NativePhase.RUNNING)
    api.patch(f"{path}/shrinking", {"spec": {"hard": {"requests.cpu": "10m"}}})
    waiting = engine.submit(task_of(engine, "true", job=job))
    state = wait(engine, waiting, lambda state: bool(state.message))
    assert (state.phase, "exceeded quota: shrinking" in state.message) == (NativePhase.QUEUED, True), state.message
    assert engine.states([running])[running.key].phase is NativePhase.RUNNING
    api.patch(f"{path}/shrinking", {"spec": {"hard": {"requests.cpu": "200m"}}})
    assert finished(engine, waiting).phase is NativePhase.SUCCEEDED
    engine.cancel(running)
    assert finished(engine, running).phase is NativePhase.ABORTED


def test_a_job_of_a_namespace_that_is_not_there_says_how_it_is_made(make_engine: MakeEngine) -> None:
    engine = make_engine(namespace="nowhere")
    with pytest.raises(SubmitRefused, match=r'no namespace nowhere \(namespaces "nowhere" not found\): create it'):
        engine.submit(task_of(engine, "true"))


def test_a_job_of_the_same_name_that_is_not_ours_is_left_alone(
    engine: KubernetesEngine, api: Api, namespace: str
) -> None:
    task = task_of(engine, "true")
    container = {"name": "theirs", "image": "localhost/busybox:1", "command": ["sleep", "600"]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    theirs = {"metadata": {"name": task.key}, "spec": {"template": {"spec": pod}}}
    api.create(names.jobs_path(namespace), theirs)
    assert engine.find(task.key) is None
    with pytest.raises(SubmitRefused, match="no agent of this cluster created"):
        engine.submit(task)
    engine.cancel(Handle(task.key, f"{namespace}/{task.key}"))
    assert "activeDeadlineSeconds" not in api.get(names.jobs_path(namespace, task.key))["spec"]
    api.delete(names.jobs_path(namespace, task.key), propagationPolicy="Background")


def test_a_job_that_was_submitted_twice_is_one_job(make_engine: MakeEngine) -> None:
    engine, other = make_engine(), make_engine()
    task = task_of(engine, "echo once")
    assert engine.submit(task) == other.submit(task)
    assert finished(other, Handle(task.key, "")).phase is NativePhase.SUCCEEDED


def test_what_a_job_gets(engine: KubernetesEngine, api: Api, namespace: str) -> None:
    account = {"metadata": {"name": "robot"}}
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    job = {
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        "annotations": {"team": "blue"},
        "working_directory": "sub",
    }
    config = {"security_context": {"run_as": {"k8s_service_account": "robot"}}}
    task = task_of(engine, "pwd; echo $A", job=job, config=config, environment={"A": "$(HOME) $$ x"})
    handle = engine.submit(task)
    assert finished(engine, handle).phase is NativePhase.SUCCEEDED
    assert printed(engine, handle) == "/rainbow/work/sub\n$(HOME) $$ x\n"
    (pod,) = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert pod["spec"]["serviceAccountName"] == "robot"
    assert pod["metadata"]["annotations"]["team"] == "blue"
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "64Mi"}


def test_several_tasks_are_the_pods_of_one_job(engine: KubernetesEngine) -> None:
    handle, state = run(engine, "echo $RAINBOW_TASK", job={"resources": {"tasks": 3}})
    assert state.phase is NativePhase.SUCCEEDED
    assert sorted(printed(engine, handle).split()) == ["0", "1", "2"]


def test_the_end_of_a_job_is_kept_until_it_is_known(engine: KubernetesEngine, api: Api, namespace: str) -> None:
    handle, _ = run(engine, "true")
    path = names.jobs_path(namespace, handle.key)
    assert "ttlSecondsAfterFinished" not in api.get(path)["spec"]
    engine.forget(handle)
    assert api.get(path)["spec"]["ttlSecondsAfterFinished"] == 3600


def test_output_files_are_handed_over(engine: KubernetesEngine) -> None:
    script = "echo result > out.txt; dd if=/dev/zero of=large bs=1k count=300 2>/dev/null; mkdir d; echo x > 'd/a b'"
    handle, _ = run(engine, script, job={"outputs": ["out.txt", "large", "absent", "d/a b"]})
    assert engine.read_output(handle, "out.txt", 100) == (b"result\n", 7, False)
    assert engine.read_output(handle, "large", 10, 300 * 1024 - 5) == (b"\0" * 5, 300 * 1024, False)
    assert engine.read_output(handle, "absent", 100) is None
    assert engine.read_output(handle, "d/a b", 100) == (b"x\n", 2, False)
