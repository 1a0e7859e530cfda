"""The batch script of Slurm and Flux in a control group that has little memory."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.engines.base import NativePhase, Task
from agent.engines.batch.endings import recorded_state
from agent.engines.batch.script import Launcher, batch_script
from tests.support.waiting import wait_until

_ROOT = Path("/sys/fs/cgroup")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 32 MiB, of either version."""
    is_unified = (_ROOT / "cgroup.controllers").exists()
    group = (_ROOT if is_unified else _ROOT / "memory") / f"rainbow-test-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        (group / ("memory.max" if is_unified else "memory.limit_in_bytes")).write_text(str(32 << 20))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    wait_until(lambda: (group / "cgroup.procs").read_text() == "")
    group.rmdir()


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("exec head -c 268435456 /dev/zero | tail -c 268435456 > /dev/null; exit 137", "OUT_OF_MEMORY"),
        ("kill -KILL $$", "SIGNAL"),
    ],
)
def test_what_the_kernel_ends_for_its_memory_says_so(tmp_path: Path, group: Path, command: str, outcome: str) -> None:
    task = Task(key="rb-job-1", job={"command": ["sh", "-c", command]}, directory=tmp_path)
    launcher = Launcher(command=f"sh -c '{command}'", program="true", id_variable="JOB_ID")
    script = batch_script(task, tmp_path, tmp_path, {}, launcher, grace_seconds=0.1, log_limit_bytes=100_000)
    (tmp_path / "script").write_text(script)
    enter = f'echo $$ > "{group}/cgroup.procs" && exec sh "{tmp_path}/script"'
    done = subprocess.run(["sh", "-c", enter], env={**os.environ, "JOB_ID": "1"}, timeout=60, check=False)
    assert done.returncode == 137
    state = recorded_state(tmp_path)
    assert state is not None
    assert (state.phase, state.signal, state.reason) == (NativePhase.FAILED, 9, outcome)
