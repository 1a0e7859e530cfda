"""The Flux engine on a real instance of two nodes."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from agent.engines.base import EngineUnavailable, Handle, NativePhase, NativeState, SubmitRefused, Task
from agent.engines.flux import FluxEngine
from agent.engines.flux.connection import Refusal
from agent.testing import check_engine
from tests.flux.conftest import MakeEngine
from tests.support.conformance import checks_of
from tests.support.flux import PROPERTY, FluxInstance
from tests.support.waiting import wait_until


def task_of(engine: FluxEngine, script: str, resources: dict[str, Any] | None = None, **more: Any) -> Task:
    key = f"rb-{secrets.token_hex(6)}-job-1"
    job = {"command": ["/bin/sh", "-c", script], "resources": resources or {}}
    return Task(key=key, job=job, directory=engine.directory / key, **more)


def wait(engine: FluxEngine, handle: Handle, is_reached: Callable[[NativeState], bool]) -> NativeState:
    def reached() -> NativeState | None:
        state = engine.states([handle]).get(handle.key)
        return state if state is not None and is_reached(state) else None

    state = wait_until(reached, 120, explain=lambda: f"the last state: {engine.states([handle])}")
    assert state is not None
    return state


def finished(engine: FluxEngine, handle: Handle) -> NativeState:
    return wait(engine, handle, lambda state: state.phase.finished)


def printing(engine: FluxEngine, handle: Handle, text: str) -> None:
    wait(engine, handle, lambda _: text in printed(engine, handle))


def printed(engine: FluxEngine, handle: Handle, stream: str = "stdout") -> str:
    return engine.logs(handle, stream, 0, 1 << 20).decode()


_LIMIT = "the limit of each process is 100 MiB."


@pytest.mark.parametrize("follow", ["journal", "eventlogs"])
def test_it_keeps_the_promises_of_an_engine(make_engine: MakeEngine, follow: str) -> None:
    engine, restarted = make_engine(follow=follow), make_engine(follow=follow)
    checked = check_engine(engine, engine.directory, restarted=restarted, prefix=f"rb-{secrets.token_hex(6)}")
    assert checked == checks_of("flux")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 7", (7, None, "", "")),
        ("kill -KILL $$", (None, 9, "SIGNAL", "It was ended by the signal SIGKILL.")),
        (
            "head -c 600000000 /dev/zero | tail -c 600000000 > /dev/null",
            (
                1,
                None,
                "OUT_OF_MEMORY",
                "It got no more memory (memory exhausted); the limit of each process is 100 MiB.",
            ),
        ),
    ],
)
def test_how_a_job_fails(engine: FluxEngine, script: str, outcome: tuple[Any, ...]) -> None:
    state = finished(engine, engine.submit(task_of(engine, script, {"limits": {"memory": "100Mi"}})))
    assert state.phase is NativePhase.FAILED
    assert (state.exit_code, state.signal, state.reason, state.message) == outcome


def test_what_a_job_requires_of_nodes_is_a_constraint(make_engine: MakeEngine) -> None:
    engine = make_engine(attributes={"constraints": {"ranks": ["0-1"]}})
    description = engine.graph()
    assert description is not None
    required = {"name": "cluster", "field": f"properties.{PROPERTY}", "match": True}
    request = request_of({"resources": {"requests": {"cpu": "1"}}, "requires": [required]})
    assert Matcher(request).fits(read_description(description, {}))

    def task(nodes: int) -> Task:
        job = {"command": ["flux", "getattr", "rank"], "resources": {"nodes": nodes}, "requires": [required]}
        key = f"rb-{secrets.token_hex(6)}-job-1"
        return Task(key=key, job=job, directory=engine.directory / key, environment={"PATH": os.environ["PATH"]})

    handles = [engine.submit(task(1)) for _ in range(3)]
    for handle in handles:
        assert finished(engine, handle).phase is NativePhase.SUCCEEDED, printed(engine, handle, "stderr")
        assert printed(engine, handle) == "1\n"
    bid = engine.bid(task(2))
    assert (bid.answer, "Flux has 1 nodes" in bid.reason) == ("never", True), bid


def test_a_time_limit_ends_a_job_that_ignores_signals(engine: FluxEngine) -> None:
    handle = engine.submit(task_of(engine, "trap '' TERM ALRM; while :; do sleep 0.1; done", time_limit_seconds=1.0))
    state = finished(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.TIMED_OUT, "TIME_LIMIT")
    assert state.message == "It ran longer than its limit of 1 s."


def test_copies_run_on_several_nodes(engine: FluxEngine) -> None:
    resources = {"nodes": 2, "tasks": 4}
    handle = engine.submit(task_of(engine, "echo $RAINBOW_TASK on $FLUX_TASK_LOCAL_ID", resources))
    state = finished(engine, handle)
    assert state.phase is NativePhase.SUCCEEDED, printed(engine, handle, "stderr")
    assert sorted(line.split()[0] for line in printed(engine, handle).splitlines()) == ["0", "1", "2", "3"]
    assert sorted(line.split()[2] for line in printed(engine, handle).splitlines()) == ["0", "0", "1", "1"]


def test_copies_that_fail_and_copies_that_are_cancelled(engine: FluxEngine) -> None:
    failing = engine.submit(task_of(engine, "exit $((RAINBOW_TASK + 3))", {"tasks": 2}))
    state = finished(engine, failing)
    assert (state.phase, state.exit_code) == (NativePhase.FAILED, 4)
    running = engine.submit(task_of(engine, "echo ready; exec sleep 600", {"tasks": 2}))
    printing(engine, running, "ready")
    engine.cancel(running)
    assert finished(engine, running).phase is NativePhase.ABORTED


def test_of_a_long_output_the_end_is_kept(make_engine: MakeEngine) -> None:
    engine = make_engine(logLimitBytes=100_000)
    handle = engine.submit(task_of(engine, "seq 100000; echo the end"))
    assert finished(engine, handle).phase is NativePhase.SUCCEEDED
    parts = engine.log_parts(handle, "stdout")
    kept = b"".join(engine.logs(handle, "stdout", start, 100_000) for start, _ in parts)
    assert kept.startswith(b"1\n2\n3\n")
    assert kept.endswith(b"\n100000\nthe end\n")
    assert len(kept) <= 100_000


def test_what_is_free_follows_the_jobs_that_start(engine: FluxEngine) -> None:
    capacity, free = engine.capacity()
    handle = engine.submit(task_of(engine, "echo ready; exec sleep 600"))
    printing(engine, handle, "ready")
    wait_until(lambda: (engine.states([handle]), engine.room())[1] != free)
    room = engine.room()
    assert room is not None
    assert int(room["cpu"]) == int(free["cpu"]) - 1
    engine.cancel(handle)
    finished(engine, handle)
    assert engine.capacity() == (capacity, free)


def test_bids_say_now_later_and_never(engine: FluxEngine) -> None:
    capacity, _ = engine.capacity()
    cores = int(capacity["cpu"])
    assert engine.bid(task_of(engine, "true")).start_seconds == 0.0
    never = engine.bid(task_of(engine, "true", {"tasks": cores + 1}))
    assert (never.answer, "Flux has 2 nodes" in never.reason) == ("never", True)
    all_of_it = task_of(engine, "echo ready; exec sleep 600", {"tasks": cores}, time_limit_seconds=300.0)
    handle = engine.submit(all_of_it)
    printing(engine, handle, "ready")
    later = engine.bid(task_of(engine, "true")).start_seconds
    assert later is not None
    assert 100 < later <= 300
    waiting = engine.submit(task_of(engine, "true"))
    wait_until(lambda: engine.bid(task_of(engine, "true")).answer == "not-now")
    assert "jobs wait in Flux before it" in engine.bid(task_of(engine, "true")).reason
    assert engine.withdraw(waiting)
    assert finished(engine, waiting).phase is NativePhase.ABORTED
    assert not engine.withdraw(handle)
    engine.cancel(handle)
    assert finished(engine, handle).phase is NativePhase.ABORTED


def test_the_scheduler_is_asked_what_it_could_never_place(engine: FluxEngine) -> None:
    task = task_of(engine, "true", {"nodes": 3})
    with_feasibility = engine.flux.call("feasible", jobspec=engine._jobspec(task, engine.directory))
    assert "unsatisfiable" in with_feasibility.lower()
    with pytest.raises(Refusal):
        engine.flux.call("submit", jobspec={"version": 1}, urgency=16)
    with pytest.raises(SubmitRefused, match="Flux refuses the job"):
        engine.submit(task_of(engine, "true", queue="none-such"))


def test_of_two_jobs_of_one_key_one_runs(make_engine: MakeEngine) -> None:
    engine = make_engine()
    task = task_of(engine, "echo ran >> ran")
    first, second = engine.submit(task), engine.submit(task)
    assert first.native_id != second.native_id
    for handle in (first, second):
        assert finished(engine, handle).phase is NativePhase.SUCCEEDED
    assert (task.directory / "work" / "ran").read_text() == "ran\n"


def test_priorities_are_urgencies(engine: FluxEngine, instance: FluxInstance) -> None:
    task = task_of(engine, "true", priority=100)
    engine.submit(task)
    assert instance.run("jobs", "-a", "-n", "--name", task.key, "-o", "{urgency}") == "31"


def test_a_hundred_jobs_at_once(engine: FluxEngine, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    handles = [engine.submit(task_of(engine, f"echo {number}")) for number in range(100)]
    submitted = time.monotonic() - began
    wait_until(lambda: all(state.phase.finished for state in engine.states(handles).values()), 300)
    ended = time.monotonic() - began
    assert {state.phase for state in engine.states(handles).values()} == {NativePhase.SUCCEEDED}
    assert sorted(int(printed(engine, handle)) for handle in handles) == list(range(100))
    with capsys.disabled():
        print(f"\n100 jobs: {100 / submitted:.0f} submitted a second, {100 / ended:.1f} run a second")


def test_while_the_instance_is_away_nothing_is_concluded(make_engine: MakeEngine, instance: FluxInstance) -> None:
    """What had ended is known from its events or files; what ran is not judged before Flux is back."""
    engine = make_engine(timeoutSeconds=1)
    done = engine.submit(task_of(engine, "exit 3"))
    running = engine.submit(task_of(engine, "echo ready; exec sleep 600"))
    assert finished(engine, done).exit_code == 3
    printing(engine, running, "ready")
    instance.stop()
    try:
        for call in (lambda: engine.states([running]), lambda: engine.find("rb-none"), engine.capacity):
            with pytest.raises(EngineUnavailable):
                call()
    finally:
        instance.start()

    def heard() -> dict[str, NativeState] | None:
        try:
            return engine.states([done, running])
        except EngineUnavailable:
            return None

    wait_until(lambda: len(heard() or {}) == 2, 90)
    states = engine.states([done, running])
    assert (states[done.key].phase, states[done.key].exit_code) == (NativePhase.FAILED, 3)
    assert states[running.key].phase in (NativePhase.FAILED, NativePhase.ABORTED)
