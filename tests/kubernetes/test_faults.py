"""The Kubernetes engine when the API server, or the right to use it, is gone."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent.clocks import SYSTEM_CLOCK
from agent.engines.base import (
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    NothingDone,
    SubmitRefused,
    Task,
)
from agent.engines.kubernetes import KubernetesEngine, names, watches
from agent.engines.kubernetes import engine as kubernetes_engine
from agent.engines.kubernetes.api import Api, Forbidden, Refusal
from agent.engines.kubernetes.engine import SUBMITTED
from agent.engines.kubernetes.janitor import Janitor
from agent.engines.kubernetes.states import is_finished
from agent.files import read_json, write_json
from agent.testing import FakeClock
from tests.conftest import Scale
from tests.kubernetes.conftest import MakeEngine
from tests.support.kubernetes import STRANGER, KubernetesCluster
from tests.support.waiting import wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def task_of(engine: KubernetesEngine, command: str) -> Task:
    key = f"rb-{secrets.token_hex(6)}-job-1"
    job = {"command": ["sh", "-c", command], "resources": {"requests": {"cpu": "1m"}}}
    return Task(key=key, job=job, directory=engine.directory / key)


def test_jobs_outlive_the_api_server_and_cost_three_calls_each(
    cluster: KubernetesCluster, namespace: str, make_engine: MakeEngine, scale: Scale
) -> None:
    jobs = scale(20, full=500)
    before = cluster.calls(namespace)  # lists and watches are of all namespaces, and earlier tests made some
    engine = make_engine()
    handles: dict[str, Handle] = {}
    ends: dict[str, NativeState] = {}
    is_killed = False
    watched: Counter[str] = Counter()

    def has_ended() -> bool:
        nonlocal is_killed
        waiting = [handle for key, handle in handles.items() if key not in ends]
        with suppress(EngineUnavailable):  # while there is no news from an API server that is away
            states = engine.states(waiting)
            ends.update({key: state for key, state in states.items() if state.phase.finished})
        if len(ends) >= jobs // 3 and not is_killed:
            is_killed = True
            watched.update(cluster.calls(namespace) - before)
            cluster.kill_api_server()
            cluster.start_api_server()
        return len(ends) == jobs

    for number in range(jobs):
        handle = engine.submit(task_of(engine, f"echo {number}"))
        handles[handle.key] = handle
    wait_until(has_ended, 60 + jobs * 2, interval=0.2, explain=lambda: f"{len(ends)} of {jobs} have ended")
    assert is_killed
    assert Counter(state.phase for state in ends.values()) == {NativePhase.SUCCEEDED: jobs}
    for number, handle in enumerate(handles.values()):
        assert engine.logs(handle, "stdout", 0, 100) == f"{number}\n".encode()
        engine.forget(handle)
    counts = cluster.calls(namespace) - before
    print(f"{jobs} Jobs:", dict(counts))
    assert (counts["create jobs"], counts["patch jobs"], counts["get jobs"]) == (jobs, jobs, 0)
    assert jobs <= counts["get pods/log"] <= jobs * 2
    kinds = ("jobs", "pods", "nodes", "events") if jobs < 100 else ()  # one that is open for minutes is renewed
    assert [watched[f"watch {kind}"] for kind in kinds] == [1] * len(kinds), watched
    constant = {name: count for name, count in counts.items() if name.split()[0] in ("list", "watch")}
    assert max(constant.values()) <= 20, constant


def test_a_user_without_rights_is_told_which_are_missing(
    control_plane: KubernetesCluster, make_engine: MakeEngine, tmp_path: Path
) -> None:
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "stranger", STRANGER)
    engine = make_engine(kubeconfig=str(kubeconfig), timeoutSeconds=2)
    with pytest.raises(EngineUnavailable, match='"stranger" cannot list resource "jobs" in API group "batch"'):
        engine.find("rb-1-1")
    with pytest.raises(EngineUnavailable, match='cannot list resource "jobs"'):
        engine.capacity()


#: What an agent may do, but for watching.
LISTING = [{"apiGroups": ["batch", ""], "resources": ["jobs", "pods", "nodes", "events"], "verbs": ["list"]}]


@pytest.fixture
def listener(control_plane: KubernetesCluster, api: Api, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a user who may list, and not watch."""
    account = {"kind": "ServiceAccount", "name": "listener", "namespace": namespace}
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "listener"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": LISTING})
    binding = {"metadata": {"name": namespace}, "roleRef": role, "subjects": [account]}
    api.create(f"{RBAC}/clusterrolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/listener/token"
    answer = api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    yield control_plane.write_kubeconfig(tmp_path / "listener", answer["status"]["token"])
    api.delete(f"{RBAC}/clusterrolebindings/{namespace}")
    api.delete(f"{RBAC}/clusterroles/{namespace}")


def test_a_view_that_is_not_watched_is_not_taken_for_what_there_is(
    api: Api, namespace: str, make_engine: MakeEngine, listener: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "_STALE_SECONDS", 2.0)
    attempts: list[str] = []
    begin = watches.Watch._watch

    async def counted(watch: watches.Watch) -> None:
        attempts.append(watch._path)
        await begin(watch)

    monkeypatch.setattr(watches.Watch, "_watch", counted)
    engine = make_engine(kubeconfig=str(listener), timeoutSeconds=5)
    key = "rb-1-1"

    def problem() -> str:
        try:
            engine.find(key)
        except EngineUnavailable as error:
            return str(error)
        return ""

    wait_until(lambda: "cannot watch resource" in problem(), 30, explain=problem)
    attempts.clear()
    time.sleep(6)
    assert attempts.count("/apis/batch/v1/jobs") <= 4  # with pauses that become longer
    rules = [{**LISTING[0], "verbs": ["list", "watch"]}]
    api.patch(f"{RBAC}/clusterroles/{namespace}", {"rules": rules})
    wait_until(lambda: problem() == "", 30, explain=problem)


def test_rights_that_are_missed_when_a_job_has_ended_or_is_to_be_withdrawn_are_named(
    cluster: KubernetesCluster,
    api: Api,
    namespace: str,
    make_engine: MakeEngine,
    listener: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_engine, "_LOG_SECONDS", 2.0)
    everything_else = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods", "nodes", "events"], "verbs": ["list", "watch"]},
    ]
    api.patch(f"{RBAC}/clusterroles/{namespace}", {"rules": everything_else})
    engine = make_engine(kubeconfig=str(listener))

    def may_read() -> bool:
        try:
            engine.api.get(names.jobs_path(namespace, "none"))
        except Forbidden:
            return False
        except Refusal:
            return True
        return False

    wait_until(may_read, 30)
    large = {"command": ["true"], "resources": {"requests": {"cpu": "1000"}}}
    waiting = engine.submit(Task(key="rb-1-large-1", job=large, directory=engine.directory / "rb-1-large-1"))
    handle = engine.submit(task_of(engine, "echo hello; exit 3"))

    def state(handle: Handle) -> NativeState:
        return engine.states([handle]).get(handle.key, NativeState(NativePhase.QUEUED))

    wait_until(lambda: state(handle).phase.finished, explain=lambda: str(state(handle)))
    assert (state(handle).phase, state(handle).exit_code) == (NativePhase.FAILED, 3)
    assert state(handle).message.startswith("It ended with exit code 3. Its log could not be read: ")
    assert 'cannot get resource "pods/log"' in state(handle).message
    wait_until(lambda: "Insufficient cpu" in state(waiting).message, explain=lambda: str(state(waiting)))
    with pytest.raises(NothingDone, match='cannot delete resource "pods"'):
        engine.withdraw(waiting)
    assert state(waiting).phase is NativePhase.QUEUED
    engine.cancel(waiting)


def test_what_must_end_with_its_lease_is_declined_where_the_agent_may_not_renew_a_lease(
    control_plane: KubernetesCluster, api: Api, namespace: str, make_engine: MakeEngine, listener: Path
) -> None:
    janitor = Janitor({"kubeconfig": str(control_plane.kubeconfig), "cluster": namespace})
    janitor.step()
    jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch", "patch"]}
    watches = {"apiGroups": [""], "resources": ["pods", "nodes", "events"], "verbs": ["list", "watch"]}

    def allow(*verbs: str) -> None:
        leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}
        api.patch(f"{RBAC}/clusterroles/{namespace}", {"rules": [jobs, watches, *([leases] if verbs else [])]})

    engine = make_engine(kubeconfig=str(listener))
    job = {"command": ["sleep", "600"], "resources": {"requests": {"cpu": "1000"}}}
    task = Task(key="rb-1-guarded-1", job=job, directory=engine.directory / "rb-1-guarded-1", lease_seconds=60.0)

    def refusal() -> str:
        try:
            engine.submit(task)
        except (SubmitRefused, EngineUnavailable) as error:
            return str(error)
        return ""

    def check_refusal(missing: str) -> None:
        wait_until(lambda: f'cannot {missing} resource "leases"' in refusal(), 30, explain=refusal)
        assert refusal().startswith("on_lost: nothing would end it if this agent were gone: ")
        assert engine.find(task.key) is None

    allow()
    check_refusal("get")
    allow("get")
    check_refusal("patch")
    allow("get", "create", "patch")
    wait_until(lambda: refusal() == "", 30, explain=refusal)
    handle = Handle(task.key, f"{namespace}/{task.key}")
    allow()

    def may_renew() -> bool:
        try:
            engine.renew({handle: 1.0})
        except Forbidden:
            return False
        return True

    wait_until(lambda: not may_renew(), 30, interval=0.3)
    assert engine.states([handle])[handle.key].phase is NativePhase.QUEUED  # what becomes of it is told all the same
    engine.cancel(handle)
    janitor.api.close()


def test_an_agent_that_was_stopped_reads_the_logs_of_what_ended_meanwhile(
    cluster: KubernetesCluster, api: Api, namespace: str, make_engine: MakeEngine
) -> None:
    clock = FakeClock()
    engine = make_engine(clock=clock)
    handle = engine.submit(task_of(engine, "echo hello"))
    wait_until(lambda: "succeeded" in api.get(names.jobs_path(namespace, handle.key)).get("status", {}), interval=0.2)
    wait_until(lambda: is_finished(engine._watched.jobs_by_key()[handle.key]))
    stops = 0
    while handle.key not in engine.states([handle]) and stops < 5:
        clock.advance(1000.0)
        stops += 1
    wait_until(lambda: handle.key in engine.states([handle]), interval=0.1)
    assert engine.logs(handle, "stdout", 0, 100) == b"hello\n"


def test_a_watch_whose_version_is_too_old_lists_everything_anew(
    api: Api, namespace: str, control_plane: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "_WATCH_SECONDS", 1)
    loop = watches.Loop(api)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        watch = watches.Watch(loop, path)
        watch.wait(30)
        api.create(path, {"metadata": {"name": "kept"}})
        wait_until(lambda: (namespace, "kept") in watch.items)
        # As if it had been away for as long as the API server keeps what has changed.
        watch.items[namespace, "gone"] = {"metadata": {"namespace": namespace, "name": "gone", "resourceVersion": "1"}}
        watch._version = "1"
        wait_until(lambda: (namespace, "gone") not in watch.items, 30)
        assert (namespace, "kept") in watch.items
        assert watch.problem == ""
        assert int(watch._version) > 1
    finally:
        loop.close()


@contextmanager
def refusing_to_end(api: Api, key: str) -> Iterator[None]:
    """A policy of somebody's that lets no deadline be set on one Job."""
    root = "/apis/admissionregistration.k8s.io/v1"
    policies, bindings = f"{root}/validatingadmissionpolicies", f"{root}/validatingadmissionpolicybindings"
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs"]}
    expression = f"object.metadata.name != '{key}' || !has(object.spec.activeDeadlineSeconds)"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "no deadlines"}],
    }
    api.create(policies, {"metadata": {"name": key}, "spec": spec})
    binding = {"metadata": {"name": key}, "spec": {"policyName": key, "validationActions": ["Deny"]}}
    api.create(bindings, binding)
    yield
    api.delete(f"{bindings}/{key}")
    api.delete(f"{policies}/{key}")


def test_a_job_that_may_not_be_ended_holds_up_no_other(
    api: Api, namespace: str, control_plane: KubernetesCluster, make_engine: MakeEngine
) -> None:
    janitor = Janitor({"kubeconfig": str(control_plane.kubeconfig), "cluster": namespace})
    janitor.step()
    engine = make_engine()
    mark = secrets.token_hex(4)
    job = {"command": ["sleep", "600"]}
    tasks = [
        Task(key=f"rb-{number}{mark}-job-1", job=job, directory=engine.directory / str(number), lease_seconds=1.0)
        for number in range(2)
    ]
    refused, other = (names.jobs_path(namespace, task.key) for task in tasks)
    for task in tasks:
        engine.submit(task)
    with refusing_to_end(api, tasks[0].key):

        def is_refused() -> bool:  # a policy takes a moment
            try:
                api.patch(f"{refused}?dryRun=All", {"spec": {"activeDeadlineSeconds": 1000}})
            except Refusal as refusal:
                return "no deadlines" in str(refusal)
            return False

        wait_until(is_refused, 30, interval=0.5)

        def is_ended(path: str) -> bool:
            return names.annotation(api.get(path), names.ENDED) == names.LEASE_OVER

        def ends(path: str) -> bool:
            janitor.step()
            return is_ended(path)

        wait_until(lambda: ends(other), 30, interval=1.0)
        assert not is_ended(refused)
        states = engine.states([Handle(task.key, "") for task in tasks])  # which ends what is over as well
        assert set(states) == {task.key for task in tasks}
    wait_until(lambda: ends(refused), 60, interval=1.0)
    janitor.api.close()


def test_a_job_whose_creation_was_not_answered_may_still_come(
    namespace: str, control_plane: KubernetesCluster, make_engine: MakeEngine
) -> None:
    engine = make_engine(timeoutSeconds=3)
    engine.capacity()
    task = task_of(engine, "true")
    control_plane.kill_api_server()
    try:
        with pytest.raises(EngineUnavailable):
            engine.submit(task)
    finally:
        control_plane.start_api_server()
    answers: list[Handle | None] = []

    def is_answered() -> bool:
        with suppress(EngineUnavailable):
            answers.append(engine.find(task.key))
        return bool(answers)

    wait_until(is_answered, interval=0.2)
    assert answers == [None]
    # The same, had the API server been away for a moment only.
    record = engine.directory / task.key / SUBMITTED
    write_json(record, {**(read_json(record) or {}), "sent_at": SYSTEM_CLOCK.steady()})
    with pytest.raises(EngineUnavailable, match="may still be created"):
        engine.find(task.key)
    answers.clear()
    wait_until(is_answered, 10, interval=0.2)
    assert answers == [None]
