"""The local engine: real processes, their limits, how they end, and how they are found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import Bid, EngineUnavailable, Handle, NativePhase, NativeState, OptionError, Task
from agent.engines.local import LocalEngine, cgroups, processes
from agent.engines.local.job_files import LEASE, read_lease, write_lease
from agent.files import read_json
from agent.testing import FakeClock, check_engine
from tests.support.conformance import checks_of
from tests.support.waiting import wait_until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine that leaves no process behind."""
    engine = LocalEngine({"graceSeconds": 0.5}, tmp_path)
    yield engine
    for started in tmp_path.glob("*/started.json"):
        engine.cancel(handle_of(engine, started.parent.name))
    for started in tmp_path.glob("*/started.json"):
        ended(engine, handle_of(engine, started.parent.name))


#: Unique for each test process, because engines find processes by it on the whole machine.
KEY = f"rb-test-{os.getpid()}"


def handle_of(engine: LocalEngine, key: str) -> Handle:
    handle = engine.find(key)
    assert handle is not None
    return handle


def task(engine: LocalEngine, *command: str, key: str = KEY, limit: float | None = None, **job: Any) -> Task:
    return Task(
        key=key,
        job={"command": list(command), **job},
        directory=engine.directory / key,
        environment={"COLOUR": "blue"},
        time_limit_seconds=limit,
    )


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


def ended(engine: LocalEngine, handle: Handle) -> NativeState:
    wait_until(lambda: engine.states([handle])[handle.key].phase.finished, explain=lambda: f"{handle.key} did not end")
    return engine.states([handle])[handle.key]


def run(engine: LocalEngine, *command: str, limit: float | None = None, **job: Any) -> tuple[Handle, NativeState]:
    handle = engine.submit(task(engine, *command, limit=limit, **job))
    return handle, ended(engine, handle)


def waiting_for(file: Path, script: str) -> tuple[str, str, str]:
    """A command that runs a script once a file exists."""
    return "sh", "-c", f"until [ -e {file} ]; do sleep 0.02; done; {script}"


def limits(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts, "limits": amounts}}


def test_it_keeps_the_promises_of_an_engine(engine: LocalEngine, tmp_path: Path) -> None:
    checked = check_engine(engine, tmp_path, restarted=LocalEngine({}, tmp_path), prefix=KEY)
    assert checked == checks_of("local")


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes_are_reported(engine: LocalEngine, code: int) -> None:
    handle, state = run(engine, "sh", "-c", f"exit {code}")
    assert (state.phase, state.exit_code, state.signal) == (
        NativePhase.SUCCEEDED if code == 0 else NativePhase.FAILED,
        code,
        None,
    )
    assert state.started_at is not None
    assert state.finished_at is not None
    assert state.started_at <= state.finished_at
    assert len(state.nodes) == 1
    assert handle.native_id.isdigit()


def test_a_signal_is_reported(engine: LocalEngine) -> None:
    _, state = run(engine, "sh", "-c", "kill -SEGV $$")
    assert (state.phase, state.exit_code, state.signal) == (NativePhase.FAILED, None, signal.SIGSEGV)
    assert (state.reason, "SIGSEGV" in state.message) == ("SIGNAL", True)


def test_output_goes_to_files_and_can_be_read_from_an_offset(engine: LocalEngine) -> None:
    handle, _ = run(engine, "sh", "-c", "printf abcdef; printf oops >&2")
    assert engine.logs(handle, "stdout", 0, 100) == b"abcdef"
    assert engine.logs(handle, "stdout", 2, 3) == b"cde"
    assert engine.logs(handle, "stdout", 6, 3) == b""
    assert engine.logs(handle, "stderr", 0, 100) == b"oops"


def test_ten_megabytes_of_output(engine: LocalEngine) -> None:
    handle, state = run(engine, *python("import sys; [sys.stdout.write('x' * 1023 + '\\n') for _ in range(10240)]"))
    assert state.phase is NativePhase.SUCCEEDED
    assert len(engine.logs(handle, "stdout", 0, 2**30)) == 10 * 1024 * 1024


def kept_files(directory: Path, stream: str) -> dict[int, bytes]:
    """The files of a stream, by the place of their first byte."""
    return {
        int(path.name.partition(".")[2] or 0): path.read_bytes()
        for path in directory.iterdir()
        if path.name.partition(".")[0] == stream
    }


def has_dropped(engine: LocalEngine, handle: Handle, stream: str) -> bool:
    return any(start > 200_000 for start, _ in engine.log_parts(handle, stream))


def test_a_job_that_prints_without_end_fills_no_disk_and_can_be_cancelled(tmp_path: Path) -> None:
    engine = LocalEngine({"logLimitBytes": 100_000, "graceSeconds": 0.5}, tmp_path)
    handle = engine.submit(task(engine, "sh", "-c", f"yes & yes x >&2 & sleep 0.3; touch {tmp_path}/on; wait"))
    wait_until((tmp_path / "on").exists)
    wait_until(lambda: has_dropped(engine, handle, "stdout") and has_dropped(engine, handle, "stderr"))
    engine.cancel(handle)
    assert ended(engine, handle).phase is NativePhase.ABORTED
    for stream in ("stdout", "stderr"):
        files = kept_files(tmp_path / KEY, stream)
        assert len(files[0]) == 25_000
        assert 65_000 < sum(map(len, files.values())) - 25_000 <= 75_000
        assert len(files) == 9
        parts = engine.log_parts(handle, stream)
        assert parts == [(start, start + len(data)) for start, data in sorted(files.items())]
        assert parts[1][0] > 25_000
        assert [end for _, end in parts[1:-1]] == [start for start, _ in parts[2:]]


def test_of_a_long_output_the_beginning_and_the_end_can_be_read(tmp_path: Path) -> None:
    engine = LocalEngine({"logLimitBytes": 100_000}, tmp_path)
    script = "import sys; [print(f'{number:09}') for number in range(100_000)]; sys.exit('the reason')"
    handle, _ = run(engine, *python(script))
    output = "".join(f"{number:09}\n" for number in range(100_000)).encode()
    parts = engine.log_parts(handle, "stdout")
    assert (parts[0], parts[-1][1]) == ((0, 25_000), len(output))
    for start, end in parts:
        assert engine.logs(handle, "stdout", start, 2**20) == output[start:end]
    assert engine.logs(handle, "stdout", parts[-1][1] - 10, 100) == output[-10:]
    assert engine.logs(handle, "stdout", 500_000, 100) == b""
    assert engine.logs(handle, "stderr", 0, 100) == b"the reason\n"


@pytest.mark.parametrize("limit", [0, 1, 3, 6, 50, 1000])
def test_output_up_to_the_limit_is_whole_and_more_is_within_it(tmp_path: Path, limit: int) -> None:
    engine = LocalEngine({"logLimitBytes": limit}, tmp_path)
    handle, _ = run(engine, *python(f"import os; os.write(1, b'x' * {limit}); os.write(2, b'x' * {limit + 1})"))
    parts = engine.log_parts(handle, "stdout")
    assert b"".join(engine.logs(handle, "stdout", start, 2000) for start, _ in parts) == b"x" * limit
    assert sum(end - start for start, end in engine.log_parts(handle, "stderr")) <= limit


def test_a_command_that_does_not_exist(engine: LocalEngine) -> None:
    _, state = run(engine, "no-such-command-anywhere", "--flag")
    assert (state.phase, state.exit_code, state.reason) == (NativePhase.FAILED, 127, "COMMAND_NOT_FOUND")
    assert "no-such-command-anywhere" in state.message


def test_a_command_that_may_not_be_executed(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a program")
    _, state = run(engine, str(tmp_path / "data"))
    assert (state.phase, state.exit_code, state.reason) == (NativePhase.FAILED, 126, "COMMAND_NOT_EXECUTABLE")


def test_the_working_directory(engine: LocalEngine, tmp_path: Path) -> None:
    handle, _ = run(engine, "pwd")
    assert engine.logs(handle, "stdout", 0, 1000).decode().strip() == str(tmp_path / f"{KEY}/work")


def test_a_working_directory_of_the_job(engine: LocalEngine, tmp_path: Path) -> None:
    handle, _ = run(engine, "pwd", working_directory=str(tmp_path))
    assert engine.logs(handle, "stdout", 0, 1000).decode().strip() == str(tmp_path)


def test_a_working_directory_that_does_not_exist(engine: LocalEngine) -> None:
    _, state = run(engine, "pwd", working_directory="/no/such/place")
    assert (state.phase, state.reason) == (NativePhase.FAILED, "NO_WORKING_DIRECTORY")
    assert "/no/such/place" in state.message


def test_the_agents_environment_does_not_leak_into_a_job(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAINBOW_TOKEN", "secret")
    handle, _ = run(engine, "env")
    lines = engine.logs(handle, "stdout", 0, 10000).decode().splitlines()
    assert "COLOUR=blue" in lines
    assert f"RAINBOW_KEY={KEY}" in lines
    assert any(line.startswith("PATH=") for line in lines)
    assert not any("TOKEN" in line or "PYTHONPATH" in line for line in lines)


def test_stdin_is_empty(engine: LocalEngine) -> None:
    _, state = run(engine, "sh", "-c", "read line && exit 1 || exit 0")
    assert state.phase is NativePhase.SUCCEEDED


def test_arguments_reach_the_command_unchanged(engine: LocalEngine) -> None:
    handle, _ = run(engine, "printf", "%s|", "a b", "$HOME", "'", "*", "ü")
    assert engine.logs(handle, "stdout", 0, 1000).decode() == "a b|$HOME|'|*|ü|"


def test_the_time_limit(engine: LocalEngine) -> None:
    _, state = run(engine, "sleep", "600", limit=0.5)
    assert (state.phase, state.reason, state.signal) == (NativePhase.TIMED_OUT, "TIME_LIMIT", signal.SIGTERM)
    assert "0.5 s" in state.message


def test_the_time_limit_of_a_command_that_ignores_sigterm(engine: LocalEngine) -> None:
    _, state = run(engine, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", limit=0.5)
    assert (state.phase, state.signal) == (NativePhase.TIMED_OUT, signal.SIGKILL)


def test_a_process_gets_no_more_memory_than_the_limit(engine: LocalEngine) -> None:
    _, state = run(engine, *python("bytearray(400 * 2**20)"), **limits(memory="200Mi"))
    assert (state.phase, state.exit_code, state.reason) == (NativePhase.FAILED, 1, "OUT_OF_MEMORY")
    assert state.message == "It got no more memory (MemoryError); the limit of each process is 200 MiB."
    assert b"MemoryError" in engine.logs(Handle(KEY, ""), "stderr", 0, 10000)


@pytest.mark.parametrize(
    ("script", "limited", "reason"),
    [
        ("echo 'x: Cannot allocate memory' >&2; exit 12", True, "OUT_OF_MEMORY"),
        ("echo 'x: Cannot allocate memory' >&2; exit 12", False, ""),  # the engine has set no limit
        ("echo MemoryError >&2; seq 10 >&2; exit 1", True, ""),  # it went on after that
        ("echo MemoryError; exit 1", True, ""),
        ("echo MemoryError >&2", True, ""),
        ("kill -KILL $$", True, "SIGNAL"),
        ("echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' >&2; exit 1", True, ""),
        ("echo 'MemoryError: std::bad_alloc: out_of_memory: CUDA error at: pool.hpp' >&2; exit 1", True, ""),
        ("echo 'RuntimeError: HIP out of memory.' >&2; exit 1", True, ""),
        ("echo 'ERROR:  out of memory' >&2; exit 1", True, ""),  # as of a database elsewhere
        ("echo 'java.lang.OutOfMemoryError: Java heap space' >&2; exit 1", True, ""),
    ],
)
def test_a_job_counts_as_out_of_memory_only_if_it_fails_and_says_so(
    engine: LocalEngine, script: str, limited: bool, reason: str
) -> None:
    _, state = run(engine, "sh", "-c", script, **(limits(memory="200Mi") if limited else {}))
    assert state.reason == reason


@pytest.mark.parametrize(
    ("line", "reason"), [("Out of memory!", "OUT_OF_MEMORY"), ("CUDA error: out of memory", "")], ids=["own", "device"]
)
def test_a_line_that_may_be_of_other_memory_counts_if_the_limit_was_near(
    engine: LocalEngine, line: str, reason: str
) -> None:
    code = f"import sys; x = b'x' * (170 * 2**20); sys.exit({line!r})"
    _, state = run(engine, *python(code), **limits(memory="200Mi"))
    assert (state.exit_code, state.reason) == (1, reason)


def test_a_process_that_ended_between_two_looks_shows_that_it_used_too_much(tmp_path: Path) -> None:
    engine = LocalEngine({"memoryLimit": "resident", "graceSeconds": 0.5}, tmp_path)
    _, state = run(engine, *python("x = b'x' * (150 * 2**20); raise SystemExit(3)"), **limits(memory="100Mi"))
    assert (state.phase, state.reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
    assert "the limit is 100 MiB" in state.message


def test_what_a_process_shared_with_its_supervisor_is_not_its_own_memory(tmp_path: Path) -> None:
    engine = LocalEngine({"memoryLimit": "resident", "graceSeconds": 0.5}, tmp_path)
    _, state = run(engine, "false", **limits(memory="8Mi"))
    assert (state.phase, state.exit_code, state.reason) == (NativePhase.FAILED, 1, "")


def test_processes_together_get_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    engine = LocalEngine({"memoryLimit": "resident", "graceSeconds": 0.5}, tmp_path)
    code = "import os, time; os.fork(); x = b'x' * (80 * 2**20); time.sleep(60)"
    _, state = run(engine, *python(code), **limits(memory="120Mi"))
    assert (state.phase, state.reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
    assert "120 MiB" in state.message
    assert processes.marked(KEY) == set()


def test_memory_within_the_limit_is_fine(engine: LocalEngine) -> None:
    _, state = run(engine, *python("b'x' * (50 * 2**20)"), **limits(memory="400Mi"))
    assert state.phase is NativePhase.SUCCEEDED


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_a_job_gets_as_many_cores_as_its_limit(engine: LocalEngine) -> None:
    for number in ("1", "2"):
        cores = []
        for cpu in ("500m", "1"):
            key = f"rb-cores-{number}-{cpu}"
            handle = engine.submit(
                task(engine, *python("import os; print(*os.sched_getaffinity(0))"), key=key, **limits(cpu=cpu))
            )
            ended(engine, handle)
            cores += engine.logs(handle, "stdout", 0, 100).split()
        assert len(cores) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_two_jobs_get_two_cores(engine: LocalEngine) -> None:
    for key in ("rb-one", "rb-two"):
        engine.submit(task(engine, "sleep", "60", key=key, **limits(cpu="1")))
    plans = [read_json(engine.directory / key / "task.json") or {} for key in ("rb-one", "rb-two")]
    assert plans[0]["cores"] != plans[1]["cores"]


def test_free_capacity_excludes_what_running_jobs_request(engine: LocalEngine) -> None:
    capacity, free = engine.capacity()
    assert capacity == free
    engine.submit(task(engine, "sleep", "60", **limits(cpu="500m", memory="64Mi")))
    after, left = engine.capacity()
    assert after == capacity
    assert int(left["cpu"][:-1]) == int(capacity["cpu"][:-1]) - 500
    assert int(left["memory"][:-2]) == int(capacity["memory"][:-2]) - 64
    assert (capacity["nodes"], left["nodes"]) == (1, 0)


def test_an_exclusive_job_leaves_nothing_free(engine: LocalEngine) -> None:
    alone = task(engine, "sleep", "60", resources={"exclusive": True})
    assert (engine.check(alone), engine.eta(alone)) == ("", 0.0)
    engine.submit(alone)
    assert engine.capacity()[1] == {"cpu": "0m", "memory": "0Mi", "nodes": 0}
    assert engine.eta(task(engine, "true", resources={"exclusive": True})) is None


def test_an_exclusive_job_and_others_wait_for_each_other(engine: LocalEngine) -> None:
    alone, small = task(engine, "true", resources={"exclusive": True}), task(engine, "true")
    assert (engine.must_wait(alone), engine.must_wait(small)) == ("", "")
    handle = engine.submit(task(engine, "sleep", "60", key="rb-small", limit=300))
    wait_until((engine.directory / "rb-small" / "started.json").exists)
    assert (engine.must_wait(alone), engine.must_wait(small)) == (
        "an exclusive job waits until nothing else runs on this machine",
        "",
    )
    assert (engine.eta(alone), engine.eta(small)) == (None, 0.0)
    assert engine.bid(alone).start_seconds == pytest.approx(300, abs=20)
    assert engine.bid(small) == Bid.yes(0.0)
    engine.cancel(handle)
    ended(engine, handle)
    assert engine.must_wait(alone) == ""
    engine.submit(task(engine, "sleep", "60", key="rb-alone", limit=200, resources={"exclusive": True}))
    wait_until((engine.directory / "rb-alone" / "started.json").exists)
    for other in (alone, small):
        assert engine.must_wait(other) == "an exclusive job has this machine to itself"
        assert engine.eta(other) is None
        assert engine.bid(other).start_seconds == pytest.approx(200, abs=20)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 & sleep 600 & wait",
        "setsid sleep 600 & sleep 600",
        "(setsid sh -c 'sleep 600 & sleep 600' &) ; sleep 600",
        "trap '' TERM; sleep 600 & sleep 600",
        "env -u RAINBOW_KEY setsid sleep 600 & sleep 600",
    ],
)
def test_cancel_ends_the_whole_tree(engine: LocalEngine, command: str) -> None:
    handle = engine.submit(task(engine, "sh", "-c", command))
    supervisor = int(handle.native_id)
    wait_until(lambda: len(processes.descendants(supervisor)) >= 2)
    tree = processes.descendants(supervisor)
    engine.cancel(handle)
    state = ended(engine, handle)
    assert state.phase is NativePhase.ABORTED
    assert processes.marked(handle.key) == set()
    wait_until(lambda: not any(processes.start_ticks(pid) for pid in tree))


def test_processes_that_the_command_leaves_behind_are_ended(engine: LocalEngine) -> None:
    handle, state = run(engine, "sh", "-c", "setsid sleep 600 & exit 3")
    assert (state.phase, state.exit_code) == (NativePhase.FAILED, 3)
    assert processes.marked(handle.key) == set()


def test_cancel_of_an_ended_or_unknown_job_changes_nothing(engine: LocalEngine) -> None:
    handle, before = run(engine, "true")
    engine.cancel(handle)
    assert engine.states([handle])[handle.key] == before
    engine.cancel(Handle("rb-never", "1"))


def test_a_restarted_engine_finds_a_running_job(engine: LocalEngine, tmp_path: Path) -> None:
    handle = engine.submit(task(engine, *waiting_for(tmp_path / "go", "exit 7")))
    later = LocalEngine({}, tmp_path)
    assert later.find(handle.key) == handle
    assert later.states([handle])[handle.key].phase is NativePhase.RUNNING
    (tmp_path / "go").touch()
    assert ended(later, handle).exit_code == 7
    assert later.find(handle.key) == handle
    assert later.find("rb-other-1") is None


AGENT = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from agent.engines.base import Task
from agent.engines.local import LocalEngine
engine = LocalEngine({}, Path(sys.argv[1]))
engine.submit(Task(key=KEY_HERE, job={"command": ["sh", "-c", sys.argv[2]]}, directory=Path(sys.argv[1])))
print("submitted", flush=True)
time.sleep(60)
""".replace("KEY_HERE", repr(KEY))


def test_a_job_survives_an_agent_that_is_killed(engine: LocalEngine, tmp_path: Path) -> None:
    script = waiting_for(tmp_path / "go", "echo done; exit 5")[-1]
    with subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path), script], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"submitted\n"
        agent.kill()
    (tmp_path / "go").touch()
    handle = handle_of(engine, KEY)
    assert ended(engine, handle).exit_code == 5
    assert engine.logs(handle, "stdout", 0, 100) == b"done\n"


@pytest.mark.parametrize("file", ["task.json", "lock", "started.json", "stdout", "ended.json"])
def test_a_job_runs_once_even_if_its_agent_is_killed(engine: LocalEngine, tmp_path: Path, file: str) -> None:
    """The agent is killed as soon as a file of the job exists."""
    ran = tmp_path / "ran"
    command = [sys.executable, "-c", AGENT, str(tmp_path), f"echo x >> {ran}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
        wait_until((tmp_path / KEY / file).exists)
        agent.kill()
    handle = engine.find(KEY) or engine.submit(task(engine, "sh", "-c", f"echo x >> {ran}"))
    assert ended(engine, handle).phase is NativePhase.SUCCEEDED
    assert ran.read_text() == "x\n"


def test_a_job_ends_with_a_supervisor_that_is_killed(engine: LocalEngine) -> None:
    handle = engine.submit(task(engine, "sh", "-c", "setsid sleep 600 & sleep 600"))
    wait_until(lambda: len(processes.descendants(int(handle.native_id))) >= 3)
    os.kill(int(handle.native_id), signal.SIGKILL)
    state = ended(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "SUPERVISOR_LOST")
    assert processes.marked(handle.key) == set()


#: Commands that kill what watches them and leave a daemon: in another session, orphaned, without the job's mark.
DAEMON = "env -i sh -c 'setsid sh -c \"echo \\$\\$ > {}; exec sleep 600\" &'; until [ -s {} ]; do sleep 0.02; done; "
WATCHERS = {"supervisor": "$PPID", "keeper": "$(cut -d' ' -f4 /proc/$PPID/stat)"}


@pytest.mark.parametrize("victims", [["supervisor"], ["keeper"], ["keeper", "supervisor"]])
def test_a_job_that_kills_what_watches_it_leaves_nothing_behind(
    engine: LocalEngine, tmp_path: Path, victims: list[str]
) -> None:
    group = cgroups.make(f"{KEY}-probe")
    cgroups.remove(group)
    if len(victims) == 2 and group is None:
        pytest.skip("without control groups nothing is left to tell the daemon by")
    daemon = tmp_path / "daemon"
    script = DAEMON.format(daemon, daemon) + f"kill -9 {' '.join(WATCHERS[name] for name in victims)}; sleep 600"
    handle = engine.submit(task(engine, "sh", "-c", script))
    wait_until(lambda: daemon.exists() and daemon.read_text())
    pid = int(daemon.read_text())
    if len(victims) == 1:
        wait_until(lambda: not is_alive(pid), explain=lambda: "the agent was away, and the daemon goes on")
    state = ended(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "SUPERVISOR_LOST")
    assert not is_alive(pid)
    assert (group is None) or not list(group.parent.glob(f"rainbow-{KEY}*"))


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_supervisor_that_gets_sigterm_reports_it(engine: LocalEngine) -> None:
    handle = engine.submit(task(engine, "sleep", "600"))
    wait_until(lambda: processes.marked(handle.key))
    os.kill(int(handle.native_id), signal.SIGTERM)
    state = ended(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "SUPERVISOR_STOPPED")


def test_stopped_watchers_do_not_keep_a_job_from_being_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "members", lambda group: set())  # as where there are no control groups
    clock = FakeClock(now=datetime.now(UTC))
    engine = LocalEngine({}, tmp_path, clock=clock)
    daemon = tmp_path / "daemon"
    handle = engine.submit(task(engine, "sh", "-c", DAEMON.format(daemon, daemon) + "sleep 600"))
    wait_until(lambda: daemon.exists() and daemon.read_text())
    for pid, _ in (read_json(tmp_path / KEY / "started.json") or {})["watchers"]:
        os.kill(pid, signal.SIGSTOP)
    engine.cancel(handle)
    assert processes.marked(handle.key)
    clock.advance(600)
    engine.cancel(handle)
    assert ended(engine, handle).phase is NativePhase.ABORTED
    assert processes.marked(handle.key) == set()
    assert not is_alive(int(daemon.read_text()))


def test_a_job_from_before_a_reboot_has_failed(engine: LocalEngine, tmp_path: Path) -> None:
    directory = tmp_path / "rb-old-1"
    directory.mkdir()
    (directory / "started.json").write_text(
        '{"supervisor": 1, "boot": "another", "started_at": "2026-01-01T00:00:00+00:00"}'
    )
    state = engine.states([Handle("rb-old-1", "1")])["rb-old-1"]
    assert (state.phase, state.reason) == (NativePhase.FAILED, "MACHINE_RESTARTED")


def test_a_job_that_damages_its_files_keeps_no_other_from_being_reported(engine: LocalEngine) -> None:
    for key in (f"{KEY}-damaged", f"{KEY}-whole"):
        script = "echo '{}' > ../started.json; kill -9 $PPID" if key == f"{KEY}-damaged" else "true"
        engine.submit(task(engine, "sh", "-c", script, key=key))
    handles = [Handle(f"{KEY}-damaged", "1"), Handle(f"{KEY}-whole", "1")]
    wait_until(lambda: all(state.phase.finished for state in engine.states(handles).values()))
    states = engine.states(handles)
    assert (states[f"{KEY}-damaged"].phase, states[f"{KEY}-whole"].phase) == (
        NativePhase.UNKNOWN,
        NativePhase.SUCCEEDED,
    )
    assert "were changed" in states[f"{KEY}-damaged"].message
    (engine.directory / f"{KEY}-damaged/started.json").unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a disk cannot be mounted here: {mounted.stderr.decode()}")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_on_a_full_disk_jobs_end_as_they_did_and_can_be_cancelled(small_disk: Path) -> None:
    engine = LocalEngine({"graceSeconds": 0.5}, small_disk)
    go = f"until [ -e {small_disk.parent}/go ]; do sleep 0.02; done"
    ends = engine.submit(task(engine, "sh", "-c", f"{go}; echo more; exit 3", key=f"{KEY}-ends"))
    loud = engine.submit(task(engine, "sh", "-c", f"{go}; exec yes", key=f"{KEY}-loud"))
    waits = engine.submit(task(engine, "sh", "-c", "sleep 600", key=f"{KEY}-waits"))
    wait_until(lambda: all(engine.states([job])[job.key].phase is NativePhase.RUNNING for job in (ends, loud, waits)))
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    (small_disk.parent / "go").touch()
    assert (ended(engine, ends).phase, ended(engine, ends).exit_code) == (NativePhase.FAILED, 3)
    for job in (waits, loud):
        engine.cancel(job)
        assert ended(engine, job).phase.finished
        assert processes.marked(job.key) == set()


def test_a_job_that_was_never_submitted_is_unknown(engine: LocalEngine) -> None:
    assert engine.states([Handle("rb-never", "1")])["rb-never"].phase is NativePhase.UNKNOWN


def test_each_task_is_a_copy_of_the_command(engine: LocalEngine) -> None:
    handle, state = run(engine, "sh", "-c", "echo $RAINBOW_TASK; exit $RAINBOW_TASK", resources={"tasks": 3})
    assert sorted(engine.logs(handle, "stdout", 0, 100).split()) == [b"0", b"1", b"2"]
    assert (state.phase, state.exit_code) == (NativePhase.FAILED, 2)


def test_outputs(engine: LocalEngine, tmp_path: Path) -> None:
    script = "printf 12345 > five; mkdir d; printf x > d/one; mkfifo pipe; ln -s /no/where dangling"
    handle, _ = run(engine, "sh", "-c", script)
    assert engine.read_output(handle, "five", 100) == (b"12345", 5, False)
    assert engine.read_output(handle, "five", 2) == (b"12", 5, True)
    assert engine.read_output(handle, "d/one", 100) == (b"x", 1, False)
    assert engine.read_output(handle, str(tmp_path / KEY / "work/five"), 100) == (b"12345", 5, False)
    for path in ("absent", "d", "pipe", "dangling", "with\0nul"):
        assert engine.read_output(handle, path, 100) is None


@pytest.mark.parametrize("has_openat2", [True, False])
def test_outputs_stay_beneath_the_working_directory(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_openat2: bool
) -> None:
    if not has_openat2:
        monkeypatch.setattr("agent.files._OPENAT2", 100_000)  # as on a kernel that does not have it
    (tmp_path / "token").write_text("secret")
    script = f"""
    ln -s {tmp_path}/token absolute; ln -s ../../token relative; ln -s / root; ln -s /proc/self proc; ln -s ../.. up
    printf 12345 > five; ln -s five inside
    """
    handle, _ = run(engine, "sh", "-c", script)
    outside = (
        "../../token",
        "absolute",
        "relative",
        f"root{tmp_path}/token",
        "up/token",
        "proc/environ",
        "/proc/self/environ",
        "/dev/zero",
        str(tmp_path / "token"),
        f"{tmp_path}/{KEY}/work/../../token",
    )
    for path in outside:
        assert engine.read_output(handle, path, 100) is None, path
    assert engine.read_output(handle, "five", 100) == (b"12345", 5, False)
    assert engine.read_output(handle, "inside", 100) == ((b"12345", 5, False) if has_openat2 else None)


def test_a_working_directory_that_became_a_link_has_no_outputs(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    handle, _ = run(engine, "sh", "-c", "mv ../work ../moved; ln -s ../.. ../work")
    assert engine.read_output(handle, "token", 100) is None


def test_a_working_directory_is_not_made_above_the_jobs_own(engine: LocalEngine, tmp_path: Path) -> None:
    _, state = run(engine, "pwd", working_directory="../../elsewhere")
    assert state.reason == "NO_WORKING_DIRECTORY"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("replacement", ["mkfifo {}", "ln -s /dev/zero {}", "ln -s ../secret {}", "mkdir {}"])
def test_a_log_that_is_not_a_file_any_more_is_empty(engine: LocalEngine, tmp_path: Path, replacement: str) -> None:
    (tmp_path / "secret").write_text("secret")
    handle, state = run(engine, "sh", "-c", f"cd ..; rm -f stdout started.json; {replacement.format('stdout')}")
    assert state.phase.finished
    assert engine.logs(handle, "stdout", 0, 100) == b""


def test_directories_are_kept_for_a_while(tmp_path: Path) -> None:
    for seconds, is_kept in ((3600, True), (0, False)):
        engine = LocalEngine({"keepSeconds": seconds}, tmp_path / str(seconds))
        handle, _ = run(engine, "true")
        engine.forget(handle)
        assert (engine.directory / handle.key).exists() is is_kept


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"command": ["true"], "image": "busybox"}, "not images"),
        ({"image": "busybox"}, "not images"),
        ({"command": []}, "needs a command"),
        ({"command": ["true"], "resources": {"nodes": 2}}, "asks for 2"),
        ({"command": ["true"], **limits(gpu="1")}, "has no gpu"),
        ({"command": ["true"], **limits(cpu="100000")}, "asks for 100000 cpu"),
        ({"command": ["true"], **limits(memory="1Ei")}, "of memory"),
        ({"command": ["true"]}, ""),
    ],
)
def test_jobs_that_do_not_fit_are_declined(engine: LocalEngine, job: dict[str, Any], why: str) -> None:
    reason = engine.check(Task(key="k", job=job, directory=engine.directory))
    assert why in reason
    assert bool(reason) == bool(why)


def test_an_image_can_be_ignored(tmp_path: Path) -> None:
    engine = LocalEngine({"ignoreImage": True}, tmp_path)
    assert engine.check(Task(key="k", job={"command": ["true"], "image": "x"}, directory=tmp_path)) == ""
    assert "needs a command" in engine.check(Task(key="k", job={"image": "x"}, directory=tmp_path))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ignoreImages": True}, "Did you mean ignoreImage"),
        ({"ignoreImage": "yes"}, "engineOptions.ignoreImage: must be true or false"),
        ({"memoryLimit": "some"}, "engineOptions.memoryLimit: must be one of"),
        ({"graceSeconds": -1}, "engineOptions.graceSeconds: must be a number of seconds"),
        ({"keepSeconds": True}, "engineOptions.keepSeconds: must be a number of seconds"),
    ],
)
def test_invalid_options(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why.replace("(", r"\(")):
        LocalEngine(options, tmp_path)


def test_a_supervisor_that_ends_at_once_is_reported(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    handle = engine.submit(task(engine, "true"))
    state = ended(engine, handle)
    assert (state.phase, state.reason, state.started_at) == (NativePhase.FAILED, "NOT_STARTED", None)
    assert engine.find(KEY) is None


def test_a_supervisor_that_cannot_be_started_now(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(EngineUnavailable, match="cannot be started"):
        engine.submit(task(engine, "true"))
    assert engine.find(KEY) is None


@pytest.mark.parametrize("file", ["task.json", "started.json", "stdout", "stderr"])
def test_a_job_can_be_cancelled_at_any_moment_of_its_start(engine: LocalEngine, file: str) -> None:
    handle = engine.submit(task(engine, "sh", "-c", "sleep 600"))
    wait_until((engine.directory / KEY / file).exists)
    engine.cancel(handle)
    assert ended(engine, handle).phase is NativePhase.ABORTED
    assert processes.marked(KEY) == set()


def test_a_bid_is_when_the_time_limits_of_enough_jobs_are_over(engine: LocalEngine) -> None:
    cores = len(os.sched_getaffinity(0))
    whole = task(engine, "true", **limits(cpu=str(cores)))
    assert engine.bid(whole) == Bid.yes(0.0)
    assert engine.bid(task(engine, "true", **limits(cpu=str(cores + 1)))).answer == "never"
    engine.submit(task(engine, "sleep", "60", key="rb-limited", limit=300, **limits(cpu="500m")))
    wait_until((engine.directory / "rb-limited" / "started.json").exists)
    later = engine.bid(whole)
    assert later.answer == "yes"
    assert later.start_seconds == pytest.approx(300, abs=20)
    assert engine.bid(task(engine, "true", **limits(cpu="500m"))) == Bid.yes(0.0)
    engine.submit(task(engine, "sleep", "60", key="rb-endless", **limits(cpu="500m")))
    assert engine.bid(whole).answer == "not-now"


def test_the_eta_of_a_task_that_fits_is_0(engine: LocalEngine) -> None:
    assert engine.eta(task(engine, "true", **limits(cpu="1"))) == 0.0
    assert engine.eta(task(engine, "true", **limits(cpu="100000"))) is None


def lease(engine: LocalEngine, *command: str, seconds: float) -> Handle:
    """A guarded job."""
    return engine.submit(replace(task(engine, *command), lease_seconds=seconds))


def test_a_job_whose_lease_is_over_is_ended_without_an_agent(engine: LocalEngine) -> None:
    handle = lease(engine, "sh", "-c", "trap 'echo asked' TERM; while :; do sleep 0.05; done", seconds=600)
    wait_until(lambda: engine.states([handle])[KEY].phase is NativePhase.RUNNING)
    engine.renew({handle: 0.0})
    state = ended(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "CLUSTER_LOST")
    assert "on_lost: wait" in state.message
    assert processes.marked(KEY) == set()


def test_a_job_whose_lease_is_over_before_it_starts_does_not_start(engine: LocalEngine, tmp_path: Path) -> None:
    state = ended(engine, lease(engine, "touch", str(tmp_path / "ran"), seconds=0.0))
    assert (state.phase, state.reason) == (NativePhase.FAILED, "CLUSTER_LOST")
    assert not (tmp_path / "ran").exists()


def test_a_job_that_removes_its_lease_is_guarded_all_the_same(engine: LocalEngine) -> None:
    handle = lease(engine, "sh", "-c", "rm ../lease; sleep 600", seconds=2.0)
    state = ended(engine, handle)
    assert (state.phase, state.reason) == (NativePhase.FAILED, "CLUSTER_LOST")


def test_a_renewal_of_a_job_that_is_not_guarded_changes_nothing(engine: LocalEngine, tmp_path: Path) -> None:
    handle = engine.submit(task(engine, *waiting_for(tmp_path / "go", "exit 3")))
    engine.renew({handle: 0.0, Handle("rb-unknown", "1"): 0.0})
    assert read_lease(tmp_path / KEY) is None
    (tmp_path / "go").touch()
    assert ended(engine, handle).exit_code == 3


def test_a_lease_can_be_renewed_on_a_full_disk(tmp_path: Path) -> None:
    write_lease(tmp_path, 100.0)
    (tmp_path / f".{LEASE}.new").mkdir()  # no new file can be made
    write_lease(tmp_path, 1e9)
    assert read_lease(tmp_path) == 1e9


def test_a_lease_of_another_boot_is_over(tmp_path: Path) -> None:
    write_lease(tmp_path, 1e9)
    assert read_lease(tmp_path) == 1e9
    (tmp_path / LEASE).write_text("another-boot 1e9")
    assert read_lease(tmp_path) == 0.0


def test_the_duration_of_a_job_is_measured_by_a_steady_clock(engine: LocalEngine) -> None:
    _, state = run(engine, "sleep", "0.1")
    assert state.duration is not None
    assert state.duration >= 0.1
