"""The Slurm engine on real Slurm clusters."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.summaries import summarize
from agent.engines.base import (
    Bid,
    EngineError,
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    OptionError,
    SubmitRefused,
    Task,
)
from agent.engines.batch.engine import lock_submission
from agent.engines.batch.job_files import CANCELLED, ENDED, LEASE, LOCK, MARK
from agent.engines.local import processes
from agent.engines.slurm import SlurmEngine
from agent.engines.slurm.requirements import ANY_NODES, NodeChoice, choose_nodes
from agent.engines.slurm.script import arguments
from agent.testing import CHECKS, FakeClock, check_engine
from tests.support.conformance import checks_of
from tests.support.slurm import CPUS, MEMORY_MB, SlurmCluster, running_slurm
from tests.support.waiting import wait_until

Clusters = tuple[SlurmCluster, SlurmCluster]


@pytest.fixture
def red(slurm_clusters: Clusters) -> SlurmCluster:
    return slurm_clusters[0]


@pytest.fixture
def engine(red: SlurmCluster, tmp_path: Path) -> Iterator[SlurmEngine]:
    """An engine that leaves no job behind."""
    engine = engine_of(red, tmp_path)
    yield engine
    for directory in tmp_path.iterdir():
        engine.cancel(Handle(directory.name, ""))


def engine_of(cluster: SlurmCluster, directory: Path, **options: Any) -> SlurmEngine:
    return SlurmEngine({"configuration": str(cluster.configuration), "timeoutSeconds": 10, **options}, directory)


def task_of(engine: SlurmEngine, *command: str, job: dict[str, Any] | None = None, **more: Any) -> Task:
    """A task with a key of its own, for a shell script or a command."""
    key = f"rb-{secrets.token_hex(6)}-job-1"
    words = list(command) if len(command) > 1 else ["/bin/sh", "-c", *command]
    directory = engine.directory / key
    directory.mkdir()
    return Task(key=key, job={"command": words, **(job or {})}, directory=directory, **more)


def wait(engine: SlurmEngine, handle: Handle, is_reached: Callable[[NativeState], bool]) -> NativeState:
    def state() -> NativeState | None:
        state = engine.states([handle]).get(handle.key)
        return state if state is not None and is_reached(state) else None

    state_reached = wait_until(state, explain=lambda: f"the last state: {engine.states([handle])}")
    assert state_reached is not None
    return state_reached


def finished(engine: SlurmEngine, handle: Handle) -> NativeState:
    return wait(engine, handle, lambda state: state.phase.finished)


def running(engine: SlurmEngine, handle: Handle) -> NativeState:
    return wait(engine, handle, lambda state: state.phase is NativePhase.RUNNING)


def started(engine: SlurmEngine, handle: Handle) -> None:
    """Wait for what the script prints, because Slurm reports a job as running before its script starts."""
    wait(engine, handle, lambda _: "ready" in printed(engine, handle))


def run(engine: SlurmEngine, *command: str, **more: Any) -> tuple[Handle, NativeState]:
    handle = engine.submit(task_of(engine, *command, **more))
    return handle, finished(engine, handle)


def printed(engine: SlurmEngine, handle: Handle, stream: str = "stdout") -> str:
    return engine.logs(handle, stream, 0, 1 << 20).decode()


def test_it_keeps_the_promises_of_an_engine(engine: SlurmEngine, red: SlurmCluster) -> None:
    prefix = f"rb-{secrets.token_hex(6)}"
    # Slurm leaves memory to control groups, which the cluster of the tests does not have.
    checks = [name for name in CHECKS if name != "memory"]
    restarted = engine_of(red, engine.directory)
    checked = check_engine(engine, engine.directory, restarted=restarted, prefix=prefix, checks=checks)
    assert checked == checks_of("slurm")


def test_a_job_that_prints_without_end_fills_no_disk_and_can_be_cancelled(red: SlurmCluster, tmp_path: Path) -> None:
    engine = engine_of(red, tmp_path, logLimitBytes=100_000)
    handle = engine.submit(task_of(engine, "yes & exec yes >&2"))

    def has_dropped(stream: str) -> bool:
        parts = engine.log_parts(handle, stream)
        return len(parts) > 1 and parts[1][0] > 25_000

    wait(engine, handle, lambda _: has_dropped("stdout") and has_dropped("stderr"))
    engine.cancel(handle)
    assert finished(engine, handle).phase is NativePhase.ABORTED
    for stream in ("stdout", "stderr"):
        parts = engine.log_parts(handle, stream)
        assert parts[0] == (0, 25_000)
        assert 60_000 < sum(end - start for start, end in parts) <= 100_000


def test_of_a_long_output_the_end_is_kept(red: SlurmCluster, tmp_path: Path) -> None:
    engine = engine_of(red, tmp_path, logLimitBytes=100_000)
    handle, state = run(engine, "printf abcdef; seq 100000 >&2; echo the reason >&2; exit 3")
    assert state.exit_code == 3
    assert printed(engine, handle) == "abcdef"
    parts = engine.log_parts(handle, "stderr")
    kept = b"".join(engine.logs(handle, "stderr", start, 100_000) for start, _ in parts)
    assert kept.startswith(b"1\n2\n3\n")
    assert kept.endswith(b"\n99999\n100000\nthe reason\n")
    assert parts[-1][1] == len("".join(f"{number}\n" for number in range(1, 100_001))) + 11
    assert not list((tmp_path / handle.key).glob("*.pipe"))


@pytest.mark.slow
def test_a_process_that_holds_the_output_does_not_keep_a_job_from_ending(engine: SlurmEngine) -> None:
    handle, state = run(engine, "setsid sleep 600 & echo ready")
    assert (state.phase, printed(engine, handle)) == (NativePhase.SUCCEEDED, "ready\n")


def test_a_job_from_submission_to_its_end(engine: SlurmEngine, red: SlurmCluster) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    handle, state = run(engine, "echo out; echo err >&2; pwd; echo result > out.txt")
    assert (state.phase, state.exit_code, state.signal, state.reason) == (NativePhase.SUCCEEDED, 0, None, "")
    assert state.nodes == (red.node,)
    assert state.started_at is not None
    assert state.finished_at is not None
    assert before <= state.started_at <= state.finished_at <= datetime.now(UTC) + timedelta(seconds=2)
    work = engine.directory / handle.key / "work"
    assert printed(engine, handle) == f"out\n{work}\n"
    assert printed(engine, handle, "stderr") == "err\n"
    assert engine.logs(handle, "stdout", 2, 1) == b"t"
    assert engine.read_output(handle, "out.txt", 3) == (b"res", 7, True)
    assert engine.read_output(handle, "out.txt", 7) == (b"result\n", 7, False)
    assert engine.read_output(handle, "none", 3) is None


def test_a_job_is_named_after_its_key_and_not_requeued(engine: SlurmEngine, red: SlurmCluster) -> None:
    task = task_of(engine, "sleep 60", labels={"team": "a b"}, time_limit_seconds=61.0, queue="short")
    handle = engine.submit(task)
    shown = red.run("scontrol", "-o", "show", "job", handle.native_id)
    for expected in (f"JobName={task.key}", "Requeue=0", "Partition=short", "TimeLimit=00:02:00", "Comment=team=a b"):
        assert expected in shown


def test_exit_codes_and_signals(engine: SlurmEngine) -> None:
    tasks = [task_of(engine, script) for script in ("exit 3", "kill -9 $$")]
    failed, killed = (finished(engine, handle) for handle in [engine.submit(task) for task in tasks])
    assert (failed.phase, failed.exit_code, failed.signal) == (NativePhase.FAILED, 3, None)
    assert (killed.phase, killed.exit_code, killed.signal) == (NativePhase.FAILED, None, 9)
    assert (killed.reason, killed.message) == ("SIGNAL", "It was ended by the signal SIGKILL.")


def test_a_command_or_directory_that_does_not_exist(engine: SlurmEngine) -> None:
    nobody = engine.submit(task_of(engine, "no-such-command", "--fast"))
    nowhere = engine.submit(task_of(engine, "true", job={"working_directory": "/no/such/place"}))
    state = finished(engine, nobody)
    assert (state.phase, state.exit_code, state.reason) == (NativePhase.FAILED, 127, "COMMAND_NOT_FOUND")
    assert "no-such-command" in state.message
    assert "no-such-command" in printed(engine, nobody, "stderr")
    state = finished(engine, nowhere)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "NO_WORKING_DIRECTORY")
    assert "/no/such/place" in state.message


def test_the_environment_arrives_unchanged(engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    environment = {
        "COMMAS": "a,b,c=d",
        "LINES": "one\n#SBATCH --comment=evil\n  two\n",
        "QUOTES": """it's "so" $HOME `id` $(id) \\ %j !""",
        "UNICODE": "grün ☂",
        "EMPTY": "",
        "with.dots-and-dashes": "odd\nname",
        "UID": "5",
        "directory": "/elsewhere",
        "IFS": "x",
        "PATH": "/no/path",
    }
    again = SlurmEngine(engine.options, engine.directory)
    handle, state = run(again, "/usr/bin/env", "-0", environment=environment)
    assert state.phase is NativePhase.SUCCEEDED
    got = dict(entry.split("=", 1) for entry in printed(again, handle).split("\0") if entry)
    assert {name: got.get(name) for name in environment} == environment
    assert got["RAINBOW_KEY"] == handle.key
    assert got["SLURM_JOB_ID"] == handle.native_id
    assert "SECRET_OF_THE_AGENT" not in got


def test_an_environment_that_no_process_can_have_is_declined(engine: SlurmEngine) -> None:
    assert "null character" in engine.check(task_of(engine, "true", environment={"A": "a\0b"}))
    assert "'A=B'" in engine.check(task_of(engine, "true", environment={"A=B": "c"}))


def test_cancelling_ends_all_of_a_job(engine: SlurmEngine, red: SlurmCluster) -> None:
    script = "trap 'echo cleaned up; exit 0' TERM; sleep 300 & echo ready; while :; do sleep 0.1; done"
    handle = engine.submit(task_of(engine, script))
    started(engine, handle)
    engine.cancel(handle)
    state = finished(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.ABORTED, "")
    assert "cleaned up" in printed(engine, handle)
    assert red.run("squeue", "-h", "-n", handle.key) == ""
    assert not processes_of(handle.key)
    engine.cancel(handle)


def test_cancelling_a_queued_job(engine: SlurmEngine) -> None:
    large = {"resources": {"requests": {"cpu": str(CPUS)}}}
    first = engine.submit(task_of(engine, "sleep 60", job=large))
    running(engine, first)
    second = engine.submit(task_of(engine, "touch ran", job=large))
    waiting = wait(engine, second, lambda state: bool(state.message))
    assert (waiting.phase, waiting.started_at, waiting.nodes) == (NativePhase.QUEUED, None, ())
    engine.cancel(second)
    state = finished(engine, second)
    assert (state.phase, state.started_at) == (NativePhase.ABORTED, None)
    assert engine.find(second.key) == second
    engine.cancel(first)


def test_a_queued_job_is_withdrawn_and_a_running_one_is_not(engine: SlurmEngine) -> None:
    large = {"resources": {"requests": {"cpu": str(CPUS)}}}
    first = engine.submit(task_of(engine, "sleep 60", job=large))
    running(engine, first)
    second = engine.submit(task_of(engine, "touch ran", job=large))
    assert (engine.withdraw(first), engine.withdraw(second)) == (False, True)
    state = finished(engine, second)
    assert (state.phase, state.started_at) == (NativePhase.ABORTED, None)
    assert engine.withdraw(second)
    running(engine, first)
    engine.cancel(first)


def test_a_job_that_starts_after_it_was_cancelled_does_nothing(engine: SlurmEngine) -> None:
    task = task_of(engine, "touch ran")
    (task.directory / CANCELLED).touch()
    handle = engine.submit(task)
    assert finished(engine, handle).phase is NativePhase.ABORTED
    assert engine.read_output(handle, "ran", 1) is None


def test_a_time_limit_is_enforced_to_the_second(engine: SlurmEngine) -> None:
    shorter = SlurmEngine({**engine.options, "graceSeconds": 0.5}, engine.directory)
    polite = shorter.submit(task_of(shorter, "sleep 60", time_limit_seconds=1.0))
    stubborn = shorter.submit(task_of(shorter, "trap '' TERM; while :; do sleep 0.1; done", time_limit_seconds=1.0))
    exact = shorter.submit(task_of(shorter, "exit 124", time_limit_seconds=30.0))
    for handle in (polite, stubborn):
        state = finished(shorter, handle)
        assert (state.phase, state.reason) == (NativePhase.TIMED_OUT, "TIME_LIMIT")
        assert (state.exit_code, state.message) == (None, "It ran longer than its limit of 1 s.")
    assert (finished(shorter, exact).phase, finished(shorter, exact).exit_code) == (NativePhase.FAILED, 124)
    assert not processes_of(stubborn.key)


def test_copies_of_a_command(engine: SlurmEngine) -> None:
    job = {"resources": {"tasks": 3, "requests": {"cpu": "1"}}}
    handle, state = run(engine, "echo copy $RAINBOW_TASK", job=job)
    assert state.phase is NativePhase.SUCCEEDED
    assert sorted(printed(engine, handle).splitlines()) == ["copy 0", "copy 1", "copy 2"]


def test_resources_are_requested(engine: SlurmEngine, red: SlurmCluster) -> None:
    amounts = {"tasks": 2, "requests": {"cpu": "1500m", "memory": "100Mi"}, "limits": {"memory": "0.2Gi"}}
    for resources, memory in (({**amounts, "nodes": 1}, "MinMemoryNode=410M"), (amounts, "MinMemoryCPU=103M")):
        handle = engine.submit(task_of(engine, "sleep 60", job={"resources": resources}))
        shown = red.run("scontrol", "-o", "show", "job", handle.native_id)
        for expected in ("NumCPUs=4", "NumTasks=2", "CPUs/Task=2", memory):
            assert expected in shown
        engine.cancel(handle)


def test_the_cluster_is_described_by_its_nodes_and_partitions(engine: SlurmEngine, red: SlurmCluster) -> None:
    description = engine.graph()
    assert description is not None
    assert engine.graph() == description
    graph = read_description(description, description["subsystems"])
    summary = summarize(graph)
    capacity, _ = engine.capacity()
    assert summary.vertices["node"] == capacity["nodes"]
    assert summary.totals["core"] == int(capacity["cpu"]) * 1000
    assert summary.totals["memory"] == int(capacity["memory"].removesuffix("Mi")) << 20
    assert Matcher(request_of({"resources": {"requests": {"cpu": str(CPUS)}}})).fits(graph)
    assert not Matcher(request_of({"resources": {"requests": {"cpu": str(CPUS + 1)}}})).fits(graph)
    for partition in description["subsystems"]["partition"]["graph"]["nodes"].values():
        requires = [{"name": "partition", "field": "name", "match": partition["metadata"]["name"]}]
        assert Matcher(request_of({"requires": requires})).fits(graph)


def test_a_job_gets_nodes_with_the_features_that_it_requires(engine: SlurmEngine, red: SlurmCluster) -> None:
    red.run("scontrol", "update", f"NodeName={red.node}", "AvailableFeatures=fast,quiet", "ActiveFeatures=fast,quiet")

    def requires(feature: str) -> dict[str, Any]:
        return {"requires": [{"name": "cluster", "field": f"properties.{feature}", "match": True}]}

    try:
        description = engine.graph()
        assert description is not None
        assert Matcher(request_of(requires("fast"))).fits(read_description(description, description["subsystems"]))
        # The site's own constraint holds too. What Slurm's nodes do not have is not asked of Slurm.
        for arguments_of_site, feature, shown in (
            ([], "fast", "Features=fast "),
            (["-C", "quiet"], "fast", "Features=(quiet)&fast "),
            ([], "own-word", "Features=(null) "),
        ):
            placing = engine_of(red, engine.directory, arguments=arguments_of_site)
            task = task_of(placing, "sleep 60", job=requires(feature))
            assert placing.bid(task).answer == "yes"
            handle = placing.submit(task)
            assert shown in red.run("scontrol", "-o", "show", "job", handle.native_id)
            running(placing, handle)
            placing.cancel(handle)
        red.run("scontrol", "update", f"NodeName={red.node}", "ActiveFeatures=quiet")
        assert engine.bid(task_of(engine, "true", job=requires("fast"))).answer != "yes"
    finally:
        red.run("scontrol", "update", f"NodeName={red.node}", "AvailableFeatures=", "ActiveFeatures=")


def test_a_job_runs_in_the_partition_that_it_requires(engine: SlurmEngine, red: SlurmCluster) -> None:
    requires = [{"name": "partition", "field": "name", "match": "short"}]
    handle = engine.submit(task_of(engine, "sleep 60", job={"requires": requires}))
    assert "Partition=short " in red.run("scontrol", "-o", "show", "job", handle.native_id)
    engine.cancel(handle)


def test_arguments_of_jobs_on_several_nodes(tmp_path: Path) -> None:
    def own_arguments(choice: NodeChoice = ANY_NODES, **resources: Any) -> list[str]:
        task = Task(key="k", job={"command": ["a"], "resources": resources}, directory=tmp_path)
        words = arguments(task, tmp_path / "50%", "physics", ["--qos=high"], choice)
        return [word for word in words if word not in common]

    common: list[str] = []
    common = own_arguments()
    assert f"{tmp_path}/50%%/stdout" in common
    assert common[-1] == "--qos=high"
    assert common[common.index("--account") + 1] == "physics"
    wide = own_arguments(
        nodes=2, tasks=5, requests={"cpu": "2", "memory": "1Gi", "gpu": "1", "ephemeral_storage": "1Gi"}
    )
    expected = ["--nodes=2", "--cpus-per-task=2", "--ntasks=5", "--ntasks-per-node=3"]
    assert wide == [*expected, "--mem=3072M", "--gpus=5", "--tmp=3072M"]
    anywhere = own_arguments(tasks=5, requests={"cpu": "2", "memory": "1Gi", "gpu": "1"})
    assert anywhere == ["--ntasks=5", "--cpus-per-task=2", "--mem-per-cpu=512M", "--gpus-per-task=1"]
    with_model = choose_nodes(
        {"requires": [{"name": "cluster", "field": "model", "match": "a100"}]}, [{"Gres": "gpu:a100:4,gpu:v100:2"}]
    )
    assert own_arguments(with_model, tasks=2, requests={"gpu": "1"})[-1] == "--gpus-per-task=a100:1"
    assert "--gpus=a100:2" in own_arguments(with_model, nodes=2, tasks=2, requests={"gpu": "1"})
    assert own_arguments(nodes=4) == ["--nodes=4"]
    assert own_arguments(exclusive=True) == ["--exclusive"]
    assert own_arguments(exclusive=False) == []


def test_capacity_and_what_is_free(engine: SlurmEngine) -> None:
    job = {"resources": {"requests": {"cpu": "2", "memory": "512Mi"}}}
    handle = engine.submit(task_of(engine, "sleep 60", job=job))
    running(engine, handle)
    capacity, free = engine.capacity()
    assert capacity == {"cpu": str(CPUS), "memory": f"{MEMORY_MB}Mi", "gpu": "0", "nodes": 1}
    assert free == {"cpu": str(CPUS - 2), "memory": f"{MEMORY_MB - 512}Mi", "gpu": "0", "nodes": 0}


def test_what_is_free_is_known_with_each_start_and_without_another_command(
    engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.room() is None
    _, before = engine.capacity()
    job = {"resources": {"requests": {"cpu": "2", "memory": "512Mi"}}}
    handle = engine.submit(task_of(engine, "sleep 60", job=job))
    running(engine, handle)
    with monkeypatch.context() as patched:
        patched.setattr(engine.commands, "run", None)
        left = engine.room()
    assert (before["cpu"], before["nodes"]) == (str(CPUS), 1)
    assert left == {"cpu": str(CPUS - 2), "memory": f"{MEMORY_MB - 512}Mi", "gpu": "0", "nodes": 0}
    assert engine.capacity()[1] == left
    assert engine.room() == left  # what ran when the nodes were shown counts once


def test_an_exclusive_job_has_its_node_to_itself(engine: SlurmEngine) -> None:
    handle = engine.submit(task_of(engine, "sleep 60", job={"resources": {"exclusive": True}}))
    running(engine, handle)
    free = engine.capacity()[1]
    assert (free["cpu"], free["nodes"]) == ("0", 0)


def test_the_eta_of_a_job(engine: SlurmEngine) -> None:
    large = {"resources": {"requests": {"cpu": str(CPUS)}}}
    assert engine.eta(task_of(engine, "true", job=large)) == pytest.approx(0, abs=3)
    running(engine, engine.submit(task_of(engine, "sleep 60", job=large, time_limit_seconds=600)))
    assert engine.eta(task_of(engine, "true", job=large)) == pytest.approx(600, abs=30)
    assert engine.eta(task_of(engine, "true", job={"resources": {"requests": {"cpu": "400"}}})) is None


def test_a_bid_is_what_slurm_says_of_the_job(engine: SlurmEngine) -> None:
    large = {"resources": {"requests": {"cpu": str(CPUS)}}}
    assert engine.bid(task_of(engine, "true", job=large)) == Bid.yes(0.0)
    running(engine, engine.submit(task_of(engine, "sleep 60", job=large, time_limit_seconds=600)))
    later = engine.bid(task_of(engine, "true", job=large))
    assert later.answer == "yes"
    assert later.start_seconds == pytest.approx(600, abs=30)
    never = engine.bid(task_of(engine, "true", job={"resources": {"requests": {"cpu": "400"}}}))
    assert (never.answer, "Slurm refuses the job" in never.reason) == ("never", True)
    assert engine.bid(task_of(engine, "true", queue="nowhere")).answer == "never"
    with pytest.raises(EngineUnavailable, match=r"got no answer from Slurm's controller in 0\.001 s"):
        engine.bid(task_of(engine, "true", job=large, answer_seconds=0.001))
    assert engine.bid(task_of(engine, "true", job=large)).answer == "yes"  # one late answer is no outage


def test_jobs_that_slurm_would_never_start_are_declined(engine: SlurmEngine) -> None:
    assert engine.check(task_of(engine, "true")) == ""
    assert engine.check(task_of(engine, "true", queue="short", time_limit_seconds=3600)) == ""
    reason = engine.check(task_of(engine, "true", queue="shrot"))
    assert reason == "queue: Slurm has no partition 'shrot'. Did you mean short? There are batch and short."
    reason = engine.check(task_of(engine, "true", queue="short", time_limit_seconds=3601))
    assert reason == "time limit: 61 minutes are more than the 60 that partition 'short' allows"
    reason = engine.check(task_of(engine, "true", job={"resources": {"nodes": 2}}))
    assert reason == "resources.nodes: 2 are more than the 1 that partition 'batch' gives a job"
    assert "image" in engine.check(task_of(engine, "true", job={"image": "a:1"}))
    assert "command" in engine.check(Task(key="k", job={}, directory=engine.directory))


def test_a_refused_submission_leaves_nothing_to_find(engine: SlurmEngine) -> None:
    task = task_of(engine, "true", job={"resources": {"requests": {"memory": "1Ti"}}})
    with pytest.raises(SubmitRefused, match="Requested node configuration is not available"):
        engine.submit(task)
    assert engine.find(task.key) is None


def test_a_job_is_found_by_its_key_alone(engine: SlurmEngine, red: SlurmCluster) -> None:
    task = task_of(engine, "sleep 60")
    assert engine.find(task.key) is None
    handle = engine.submit(task)
    restarted = engine_of(red, engine.directory)
    assert restarted.find(task.key) == handle
    running(restarted, handle)
    assert restarted.find(task.key) == handle
    restarted.cancel(handle)
    finished(restarted, handle)
    assert restarted.find(task.key) == handle


def test_two_submissions_of_one_key_run_it_once(engine: SlurmEngine) -> None:
    task = task_of(engine, "echo ran >> ../runs; exit 4")
    first, second = engine.submit(task), engine.submit(task)
    assert first.native_id != second.native_id
    states = [finished(engine, handle) for handle in (first, second)]
    assert [(state.phase, state.exit_code) for state in states] == [(NativePhase.FAILED, 4)] * 2
    assert (task.directory / "runs").read_text() == "ran\n"


def test_a_second_submission_in_the_queue_is_cancelled_too(engine: SlurmEngine, red: SlurmCluster) -> None:
    task = task_of(engine, "sleep 60", job={"resources": {"requests": {"cpu": str(CPUS)}}})
    engine.submit(task)
    handle = engine.submit(task)
    engine.cancel(handle)
    wait_until(lambda: red.run("squeue", "-h", "-n", task.key) == "")


def test_a_submission_under_way_is_waited_for(engine: SlurmEngine) -> None:
    task = task_of(engine, "true")
    clock = FakeClock()
    waiting = SlurmEngine(engine.options, engine.directory, clock=clock)
    with lock_submission(task.directory / LOCK, task.key):
        began = clock.steady()
        with pytest.raises(EngineUnavailable, match="has not ended yet"):
            waiting.find(task.key)
        assert clock.steady() - began >= 3 * engine.options["timeoutSeconds"]
        with pytest.raises(EngineUnavailable, match="has not ended yet"):
            waiting.submit(task)
    assert waiting.find(task.key) is None


def test_ten_megabytes_of_log(engine: SlurmEngine) -> None:
    handle, state = run(engine, "head -c 10485760 /dev/zero | tr '\\0' x")
    assert state.phase is NativePhase.SUCCEEDED
    assert engine.logs(handle, "stdout", 10485759, 10) == b"x"
    assert len(engine.logs(handle, "stdout", 0, 65536)) == 65536


def test_many_jobs_by_one_command(engine: SlurmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [engine.submit(task_of(engine, f"exit {code}")) for code in range(4)]
    for handle in handles:
        finished(engine, handle)
    calls: list[str] = []
    original = engine.commands.run

    def counted(program: str, *arguments: str, **more: Any) -> tuple[str, str]:
        calls.append(program)
        return original(program, *arguments, **more)

    monkeypatch.setattr(engine.commands, "run", counted)
    states = engine.states(handles)
    assert [states[handle.key].exit_code for handle in handles] == [0, 1, 2, 3]
    assert calls == ["squeue"]


def test_forgetting_removes_the_files(engine: SlurmEngine) -> None:
    shorter = SlurmEngine({**engine.options, "keepSeconds": 0}, engine.directory)
    handle, _ = run(shorter, "true")
    shorter.forget(handle)
    assert not (engine.directory / handle.key).exists()


def test_two_clusters_know_nothing_of_each_other(slurm_clusters: Clusters, tmp_path: Path) -> None:
    engines = [engine_of(cluster, tmp_path / cluster.name) for cluster in slurm_clusters]
    for engine in engines:
        engine.directory.mkdir()
    tasks = [task_of(engine, "echo $SLURMD_NODENAME") for engine in engines]
    handles = [engine.submit(task) for engine, task in zip(engines, tasks, strict=True)]
    for engine, handle, cluster in zip(engines, handles, slurm_clusters, strict=True):
        assert finished(engine, handle).nodes == (cluster.node,)
        assert printed(engine, handle) == f"{cluster.node}\n"
    assert engines[0].find(tasks[1].key) is None
    assert engines[1].find(tasks[0].key) is None


def test_a_job_that_slurm_does_not_know_is_unknown_only_after_a_while(red: SlurmCluster, tmp_path: Path) -> None:
    clock = FakeClock()
    engine = SlurmEngine({"configuration": str(red.configuration)}, tmp_path, clock=clock)
    lost = Handle("rb-000000000000-lost-1", "999999")
    assert engine.states([lost]) == {}
    clock.advance(29)
    assert engine.states([lost]) == {}
    clock.advance(1)
    assert engine.states([lost])[lost.key].phase is NativePhase.UNKNOWN


def test_a_reused_id_is_not_taken_for_our_job(engine: SlurmEngine) -> None:
    handle, _ = run(engine, "true")
    assert engine.states([Handle("rb-000000000000-other-1", handle.native_id)]) == {}


@pytest.mark.slow
def test_a_controller_that_does_not_answer_or_has_forgotten_jobs(slurm_clusters: Clusters, tmp_path: Path) -> None:
    del slurm_clusters  # where Slurm is missing, this is skipped like the others
    scripts = ("exit 5", "sleep 1", "kill -9 $PPID; sleep 9", "echo ready; sleep 60", "echo ready; sleep 60")
    with running_slurm("green", remembered=2) as green:
        engine = engine_of(green, tmp_path)
        handles = [engine.submit(task_of(engine, script)) for script in scripts]
        ended, _, _, cancelled, ended_by_others = handles
        for handle in (cancelled, ended_by_others):
            started(engine, handle)
        engine.cancel(cancelled)
        green.run("scancel", ended_by_others.native_id)
        finished(engine, ended)
        green.stop_controller()
        impatient = engine_of(green, tmp_path, timeoutSeconds=1)
        for call in (lambda: impatient.states([ended]), lambda: impatient.find("k"), impatient.capacity):
            with pytest.raises(EngineUnavailable, match=r"in 1 s;|a moment ago"):
                call()
        green.start_controller()
        wait_until(lambda: green.is_idle() and not green.run("squeue", "-h", "-t", "all"))
        # By their own files where those tell all, else by the completion log.
        states = engine.states(handles)
        assert [(states[handle.key].phase.name, states[handle.key].exit_code) for handle in handles] == [
            ("FAILED", 5),
            ("SUCCEEDED", 0),
            ("FAILED", None),
            ("ABORTED", None),
            ("ABORTED", None),
        ]
        assert engine.find(ended.key) == ended
        (tmp_path / cancelled.key / MARK).unlink()
        assert engine.find(cancelled.key) == cancelled
        # Where Slurm keeps nothing of the past, our own cancel is still known.
        green.completed.unlink()
        assert engine.states([cancelled])[cancelled.key].phase is NativePhase.ABORTED


_ACCOUNTING = """\
999007|rb-aaaaaaaaaaaa-job-1|CANCELLED by 1000|0:15|2026-03-01T10:00:00|2026-03-01T10:00:05|n[1-3]
999008|rb-bbbbbbbbbbbb-job-1|OUT_OF_MEMORY|0:125|2026-03-01T10:00:00|2026-03-01T10:00:05|n1
999009|rb-cccccccccccc-job-1|TIMEOUT|0:0|2026-03-01T10:00:00|2026-03-01T10:01:05|n1
999010|rb-dddddddddddd-job-1|PREEMPTED|0:0|Unknown|Unknown|None assigned
"""


def test_past_jobs_from_accounting(red: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sacct is a script, because accounting needs a database; every other command is real."""
    programs = tmp_path / "bin"
    programs.mkdir()
    sacct = programs / "sacct"
    sacct.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked\ncat <<'END'\n{_ACCOUNTING}END\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{red.environment()['PATH']}")
    engine = engine_of(red, tmp_path)
    monkeypatch.setitem(engine.commands.settings(), "AccountingStorageType", "accounting_storage/slurmdbd")
    names = [f"rb-{letter * 12}-job-1" for letter in "abcd"]
    handles = [Handle(name, str(number)) for number, name in enumerate(names, start=999_007)]
    states = engine.states(handles)
    aborted, memory, timeout, preempted = (states[name] for name in names)
    assert (aborted.phase, aborted.nodes) == (NativePhase.ABORTED, ("n1", "n2", "n3"))
    assert aborted.started_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert aborted.finished_at == datetime(2026, 3, 1, 10, 0, 5, tzinfo=UTC)
    assert (memory.phase, memory.reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
    assert (timeout.phase, timeout.reason) == (NativePhase.TIMED_OUT, "TIME_LIMIT")
    assert (preempted.phase, preempted.reason, preempted.nodes) == (NativePhase.FAILED, "PREEMPTED", ())
    assert engine.find(names[0]) == handles[0]
    calls = (tmp_path / "asked").read_text().splitlines()
    assert "--jobs 999007,999008,999009,999010" in calls[0]
    assert f"--name {names[0]}" in calls[1]
    assert all("--starttime 20" in line for line in calls)


def test_options(red: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"engineOptions\.accounts: there is no such option\. Did you mean account"):
        engine_of(red, tmp_path, accounts="physics")
    for name, value in (("arguments", "--qos=a"), ("timeoutSeconds", 0), ("account", 1), ("ignoreImage", "no")):
        with pytest.raises(OptionError, match=f"engineOptions.{name}: must be"):
            engine_of(red, tmp_path, **{name: value})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="there is no sbatch on PATH"):
        engine_of(red, tmp_path)


def processes_of(key: str) -> list[str]:
    """The ids of processes with a job's key in their environment."""
    mark = f"RAINBOW_KEY={key}".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                pids.append(path.parent.name)
        except OSError:
            continue
    return pids


@pytest.mark.parametrize("limit", [None, 300.0])
def test_a_job_whose_lease_is_over_is_ended_even_if_it_ignores_signals(
    red: SlurmCluster, tmp_path: Path, limit: float | None
) -> None:
    engine = engine_of(red, tmp_path, graceSeconds=1)
    script = "trap '' TERM; sleep 600 & echo ready; while :; do sleep 600; done"
    task = task_of(engine, script, lease_seconds=600.0, time_limit_seconds=limit)
    handle = engine.submit(task)
    started(engine, handle)
    engine.renew({handle: 1.0})
    state = finished(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "CLUSTER_LOST")
    wait_until(lambda: not processes.marked(task.key), explain=lambda: "processes of the job are left")


def test_a_job_whose_lease_was_not_renewed_since_it_was_queued_does_not_start(engine: SlurmEngine) -> None:
    task = task_of(engine, "echo ready", lease_seconds=1.0)
    handle = engine.submit(task)
    wait_until((task.directory / ENDED).exists)
    state = finished(engine, handle)
    assert (state.phase, state.reason, printed(engine, handle)) == (NativePhase.FAILED, "CLUSTER_LOST", "")


def test_a_job_that_begins_after_its_lease_was_renewed_is_told_again(engine: SlurmEngine) -> None:
    handle = engine.submit(task_of(engine, "echo ready; exit 3", lease_seconds=600.0))
    state = finished(engine, handle)
    assert (state.phase, state.exit_code, printed(engine, handle)) == (NativePhase.FAILED, 3, "ready\n")


def test_a_lease_is_renewed_on_a_full_disk(engine: SlurmEngine) -> None:
    handle = engine.submit(task_of(engine, "sleep 600", lease_seconds=600.0))
    directory = engine.directory / handle.key
    before = (directory / LEASE).read_bytes()
    (directory / f".{LEASE}.new").mkdir()  # no new file can be made
    engine.renew({handle: 60.0})
    after = (directory / LEASE).read_bytes()
    assert after != before
    assert (after.split()[1], len(after)) == (b"60", len(before))


def test_a_job_is_cancelled_where_nothing_can_be_written(engine: SlurmEngine) -> None:
    handle = engine.submit(task_of(engine, "echo ready; sleep 600"))
    started(engine, handle)
    mark = engine.directory / handle.key / CANCELLED
    mark.symlink_to(mark)  # it cannot be touched
    engine.cancel(handle)
    assert finished(engine, handle).phase is NativePhase.ABORTED


def test_a_job_whose_files_cannot_be_read_does_not_hide_the_others(engine: SlurmEngine) -> None:
    unreadable = Handle("x" * 300, "999999")  # no file has such a long name
    handle = engine.submit(task_of(engine, "exit 3"))
    wait_until(lambda: engine.states([unreadable, handle])[handle.key].phase.finished)
