"""Jobs that run as another user than their agent, which only root can do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import Handle, NativePhase, OptionError, Task
from agent.engines.command_engine import is_locked
from agent.engines.local import LocalEngine
from agent.engines.slurm import SlurmEngine
from agent.engines.users import file_access_of, find_user
from agent.state_directory import StateDirectory
from tests.support.waiting import wait_until

NOBODY = find_user("nobody")
KEY = f"rb-users-{os.getpid()}"
needs_root = pytest.mark.skipif(os.geteuid() != 0 or NOBODY is None, reason="needs root, and the user nobody")


@pytest.fixture
def state() -> Iterator[StateDirectory]:
    """A state directory that everybody may pass through, as /var/lib has."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o755)
    state = StateDirectory(path / "state")
    (state.path / "token").write_text("secret")
    (state.path / "token").chmod(0o600)
    state.let_jobs_through()
    yield state
    wait_until(lambda: not any(map(is_locked, state.jobs.glob("*/lock"))), explain=lambda: "a supervisor has not ended")
    state.close()
    shutil.rmtree(path)


def run(engine: LocalEngine, script: str, **job: Any) -> tuple[list[str], NativePhase]:
    """What a job prints, line by line, and how it ends."""
    handle = engine.submit(Task(key=KEY, job={"command": ["sh", "-c", script], **job}, directory=engine.directory))
    wait_until(lambda: engine.states([handle])[KEY].phase.finished)
    log = engine.logs(handle, "stdout", 0, 10_000) + engine.logs(handle, "stderr", 0, 10_000)
    return log.decode().splitlines(), engine.states([handle])[KEY].phase


@needs_root
def test_jobs_run_as_the_configured_user(state: StateDirectory) -> None:
    engine = LocalEngine({"runAs": "nobody"}, state.jobs)
    script = 'id -un; id -Gn; echo $USER $HOME; echo $(($(umask) >= 0)) > "$PWD/result"; cat result'
    printed, phase = run(engine, script, working_directory="deep/down")
    assert (printed, phase) == (["nobody", "nogroup", "nobody /nonexistent", "1"], NativePhase.SUCCEEDED)
    handle = engine.find(KEY)
    assert handle is not None
    assert engine.read_output(handle, "result", 10) == (b"1\n", 2, False)


@needs_root
def test_a_job_of_another_user_reaches_nothing_of_the_agents(state: StateDirectory) -> None:
    engine = LocalEngine({"runAs": "nobody"}, state.jobs)
    script = f"""
    cat {state.path}/token && echo token
    ls {state.path} || ls {state.jobs} || ls .. && echo listed
    cat ../task.json ../stdout || echo x > ../ended.json && echo files
    kill -9 $PPID && echo killed
    cat /proc/$PPID/environ && echo environment
    exec 2>/dev/null; sleep 0.1; true
    """
    printed, phase = run(engine, f"({script}) 2>/dev/null; echo end")
    assert (printed, phase) == (["end"], NativePhase.SUCCEEDED)


@needs_root
def test_outputs_are_read_with_the_rights_of_the_jobs_user(state: StateDirectory) -> None:
    """A job may name any working directory, and has no more of it than it could read itself."""
    data = state.path.parent / "data"
    data.mkdir(mode=0o755)
    for name, mode in (("open", 0o644), ("group", 0o640), ("closed", 0o600)):
        (data / name).write_text("data")
        (data / name).chmod(mode)
    engine = LocalEngine({"runAs": "nobody"}, state.jobs)
    run(engine, "true", working_directory=str(data))
    handle = engine.find(KEY)
    assert handle is not None
    assert engine.read_output(handle, "open", 10) == (b"data", 4, False)
    assert engine.read_output(handle, "group", 10) is None
    assert engine.read_output(handle, "closed", 10) is None
    assert (data / "closed").read_text() == "data"  # the agent's own rights are back
    state_handle = engine.read_output(handle, str(state.path / "token"), 10)
    assert state_handle is None


@needs_root
def test_a_job_of_another_user_can_open_its_streams_by_name(state: StateDirectory) -> None:
    engine = LocalEngine({"runAs": "nobody"}, state.jobs)
    printed, phase = run(engine, "echo out > /dev/stdout; echo err > /dev/stderr")
    assert (printed, phase) == (["out", "err"], NativePhase.SUCCEEDED)


@needs_root
def test_a_working_directory_is_entered_with_the_rights_of_the_jobs_user(state: StateDirectory) -> None:
    private = state.path.parent / "private"
    (private / "data").mkdir(parents=True)
    (private / "data" / "file").write_text("data")
    private.chmod(0o700)
    engine = LocalEngine({"runAs": "nobody"}, state.jobs)
    printed, phase = run(engine, "cat file", working_directory=str(private / "data"))
    assert (printed, phase) == ([], NativePhase.FAILED)
    handle = engine.find(KEY)
    assert handle is not None
    ended = engine.states([handle])[KEY]
    assert (ended.reason, "cannot be entered" in ended.message) == ("NO_WORKING_DIRECTORY", True)


@needs_root
def test_a_job_of_another_user_is_cancelled_with_everything_it_started(state: StateDirectory) -> None:
    engine = LocalEngine({"runAs": "nobody", "graceSeconds": 0.2}, state.jobs)
    script = "env -i setsid sleep 600 & echo $! > pid; trap '' TERM; while :; do sleep 0.1; done"
    handle = engine.submit(Task(key=KEY, job={"command": ["sh", "-c", script]}, directory=engine.directory))
    wait_until(lambda: engine.read_output(handle, "pid", 10))
    engine.cancel(handle)
    wait_until(lambda: engine.states([handle])[KEY].phase.finished)
    assert engine.states([handle])[KEY].phase is NativePhase.ABORTED
    output = engine.read_output(handle, "pid", 10)
    assert output is not None
    assert not Path(f"/proc/{output[0].decode().strip()}").exists()


@needs_root
def test_a_job_that_closes_its_directory_is_reported_all_the_same(state: StateDirectory) -> None:
    engine = LocalEngine({}, state.jobs)
    run(engine, "true")
    assert NOBODY is not None
    directory = state.jobs / KEY
    wait_until(lambda: not is_locked(directory / "lock"))
    for path in (directory, *directory.iterdir()):
        os.chown(path, NOBODY.uid, NOBODY.gid)
    directory.chmod(0)
    handle = Handle(KEY, "1")
    with file_access_of(NOBODY):
        assert engine.states([handle]) == {}
        assert engine.states([handle])[KEY].phase is NativePhase.SUCCEEDED


@needs_root
def test_a_state_directory_that_the_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "private" / "jobs"
    directory.mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    with pytest.raises(OptionError, match="stateDirectory: the user 'nobody', whom runAs names, cannot reach"):
        LocalEngine({"runAs": "nobody"}, directory)


def test_a_user_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="runAs: there is no user 'no-such-user' on this machine"):
        LocalEngine({"runAs": "no-such-user"}, tmp_path)


@needs_root
def test_slurm_runs_jobs_as_who_submits_them(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="start the agent as 'nobody', or say root"):
        SlurmEngine({"runAs": "nobody"}, tmp_path)
