"""The Kubernetes engine when the API server, or the right to use it, is gone."""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path

import pytest

from agent.engines.base import EngineUnavailable, Handle, NativePhase, NativeState, Task
from agent.engines.kubernetes import KubernetesEngine
from tests.conftest import Scale
from tests.kubernetes.conftest import MakeEngine
from tests.support.kubernetes import STRANGER, KubernetesCluster
from tests.support.waiting import wait_until


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

    def has_ended() -> bool:
        nonlocal is_killed
        waiting = [handle for key, handle in handles.items() if key not in ends]
        ends.update({key: state for key, state in engine.states(waiting).items() if state.phase.finished})
        if len(ends) >= jobs // 3 and not is_killed:
            is_killed = True
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
