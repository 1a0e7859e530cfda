"""An admin that is killed or told to stop, also while it starts, leaves no worker behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.admins import running_admin, workers_of
from tests.support.programs import Process, start
from tests.support.waiting import wait_until


def is_running(pid: str) -> bool:
    """Whether a process has not ended; one that has may be listed until it is collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def assert_ended(pids: list[str]) -> None:
    wait_until(lambda: not any(map(is_running, pids)), explain=lambda: "a worker outlives its main process")


def test_no_worker_outlives_a_main_process_that_was_killed(tmp_path: Path) -> None:
    with running_admin(tmp_path) as admin:
        workers = workers_of(admin.process)
        assert len(workers) == 2
        admin.process.kill()
        admin.process.wait()
        assert_ended(workers)


def starting(directory: Path, *arguments: str) -> tuple[Process, list[str]]:
    """An admin whose workers have just been started, and they."""
    command = ["serve", "--port", "0", "--database", "sqlite:///x.db", *arguments]
    with (directory / "log").open("wb") as log:
        process = start("rainbow-admin", *command, cwd=directory, stdout=log, stderr=log)

    def both_workers() -> list[str]:
        assert process.poll() is None, (directory / "log").read_text()
        workers = workers_of(process)
        return workers if len(workers) == 2 else []

    return process, wait_until(both_workers, interval=0.005)


@pytest.mark.parametrize("seconds", [0.0, 0.03, 0.06, 0.09, 0.12, 0.15])
def test_no_worker_outlives_a_main_process_that_was_killed_while_they_start(tmp_path: Path, seconds: float) -> None:
    process, workers = starting(tmp_path)
    time.sleep(seconds)  # each time at another point of their start
    process.kill()
    process.wait()
    assert_ended(workers)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_an_admin_that_is_told_to_stop_while_its_workers_start_waits_for_nothing(
    tmp_path: Path, seconds: float
) -> None:
    (tmp_path / "rainbow.yaml").write_text("server: {gracefulShutdownSeconds: 60}\n")
    process, workers = starting(tmp_path, "--config", "rainbow.yaml")
    time.sleep(seconds)
    process.terminate()
    try:
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    assert_ended(workers)
