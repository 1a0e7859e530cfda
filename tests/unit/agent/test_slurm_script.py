"""The batch script of a guarded Slurm job, run by the shells that may be /bin/sh on a node."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.engines.base import Task
from agent.engines.batch.job_files import CANCELLED, ENDED, LEASE, LEASE_OVER, MARK, TERMINATED
from agent.engines.slurm.script import batch_script
from agent.files import write_file
from tests.support.disks import SmallDisk
from tests.support.waiting import wait_until

SECONDS = 600


class Job:
    """A job's script whose guard reads the time from a file, and looks again when it is told to."""

    def __init__(self, directory: Path, shell: str, command: str, control: Path | None = None) -> None:
        self.directory = directory
        self.clock, self.tick = ((control or directory) / name for name in ("clock", "tick"))
        task = Task(
            key="rb-job-1", job={"command": ["sh", "-c", command]}, directory=directory, lease_seconds=float(SECONDS)
        )
        script = batch_script(task, directory, directory, {}, grace_seconds=0.1, log_limit_bytes=100_000)
        wait = f"until rm {shlex.quote(str(self.tick))} 2>/dev/null; do sleep 0.02; done;"
        for text, replacement in (("/proc/uptime", shlex.quote(str(self.clock))), ("do sleep 1;", f"do {wait}")):
            assert script.count(text) == 1
            script = script.replace(text, replacement)
        (directory / "script").write_text(script)
        self.set_time(1000)
        self.renew("first")
        with (directory / "stdout").open("wb") as stdout, (directory / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                ["sh", str(directory / "script")],
                executable=shell,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "SLURM_JOB_ID": "1"},
                start_new_session=True,
            )
        wait_until((directory / MARK).exists)

    def set_time(self, seconds: int) -> None:
        write_file(self.clock, f"{seconds}.00 0.00\n".encode(), is_durable=False)

    def renew(self, text: str) -> None:
        write_file(self.directory / LEASE, f"{text} {SECONDS}\n".encode(), is_durable=False)

    def start(self) -> None:
        """Renew the lease until the command has printed something, and let the guard see it."""
        numbers = iter(range(10_000))

        def has_started() -> bool:
            self.renew(f"renewal-{next(numbers)}")
            return bool((self.directory / "stdout").read_bytes())

        wait_until(has_started)
        self.look()

    def is_waiting(self) -> bool:
        """Whether the script sleeps before it looks for the first renewal again."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        try:
            return any(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in children)
        except OSError:
            return False

    def look(self) -> None:
        """Let the guard look again, and wait until it has, or has ended the job."""
        for _ in range(2):
            self.tick.touch()
            wait_until(lambda: not self.tick.exists() or self.process.poll() is not None)

    def finish(self) -> list[str]:
        """The exit code and reason that it recorded."""
        self.process.wait(20)
        return (self.directory / ENDED).read_text().split()


@pytest.fixture(params=["/bin/sh", "/bin/bash"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Jobs whose processes are killed in the end."""
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        try:
            os.killpg(job.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            job.process.wait()


def test_a_job_is_ended_even_if_its_guard_can_write_nothing(tmp_path: Path, shell: str, jobs: list[Job]) -> None:
    (directory := tmp_path / "job").mkdir()
    jobs.append(job := Job(directory, shell, "echo ready; exec sleep 600", control=tmp_path))
    job.start()
    directory.rename(tmp_path / "elsewhere")
    job.set_time(1000 + SECONDS)
    job.look()
    assert job.process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "command", ["exec sleep 600", "trap 'exit 0' TERM; sleep 600 & wait", "trap '' TERM; sleep 600"]
)
def test_a_job_on_a_full_disk_records_that_its_lease_was_over(
    tmp_path: Path, small_disk: SmallDisk, shell: str, jobs: list[Job], command: str
) -> None:
    jobs.append(job := Job(small_disk.path, shell, f"echo ready; {command}", control=tmp_path))
    job.start()
    small_disk.fill()
    job.set_time(1000 + SECONDS)
    job.look()
    assert job.finish() == ["75", LEASE_OVER]
    assert job.process.returncode != 0


def test_a_job_cancelled_before_its_first_renewal_does_not_start(tmp_path: Path, shell: str, jobs: list[Job]) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready"))
    wait_until(job.is_waiting)
    (tmp_path / CANCELLED).touch()
    job.renew("second")
    assert job.finish() == ["75", CANCELLED]
    assert (tmp_path / "stdout").read_text() == ""


def test_a_job_that_slurm_ends_before_its_first_renewal_does_not_start(
    tmp_path: Path, shell: str, jobs: list[Job]
) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready"))
    wait_until(job.is_waiting)
    os.killpg(job.process.pid, signal.SIGTERM)
    job.renew("second")
    assert job.finish() == ["75", TERMINATED]
    assert (tmp_path / "stdout").read_text() == ""


def test_the_beginning_and_the_end_of_a_long_output_are_kept(tmp_path: Path, shell: str, jobs: list[Job]) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready; seq 50000; echo the reason >&2"))
    job.start()
    assert job.finish() == ["0", "-"]
    output = "ready\n" + "".join(f"{number}\n" for number in range(1, 50_001))
    files = {
        int(path.name.partition(".")[2] or 0): path.read_text()
        for path in tmp_path.iterdir()
        if path.name.startswith("stdout")
    }
    for start, text in files.items():
        assert output[start : start + len(text)] == text
    assert len(files[0]) == 25_000
    assert 65_000 < len("".join(files.values())) - 25_000 <= 75_000
    assert max(start + len(text) for start, text in files.items()) == len(output)
    assert (tmp_path / "stderr").read_text() == "the reason\n"


@pytest.mark.parametrize("size", [25_000, 25_001, 100_000, 100_001])
def test_output_up_to_the_limit_is_whole(tmp_path: Path, shell: str, jobs: list[Job], size: int) -> None:
    jobs.append(job := Job(tmp_path, shell, f"head -c {size} /dev/zero"))
    job.start()
    assert job.finish() == ["0", "-"]
    kept = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("stdout"))
    assert kept == size if size <= 100_000 else 90_000 < kept <= 100_000


def test_the_guard_leaves_nothing_in_the_output(tmp_path: Path, shell: str, jobs: list[Job]) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready"))
    job.start()
    assert job.finish() == ["0", "-"]
    assert (tmp_path / "stderr").read_text() == ""


def test_a_job_that_was_paused_goes_on_if_its_lease_was_renewed(tmp_path: Path, shell: str, jobs: list[Job]) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready; sleep 600"))
    job.start()
    job.set_time(5000)
    job.renew("during-the-pause")
    job.look()
    job.set_time(5000 + SECONDS // 2 - 1)
    job.renew("after-it")
    job.look()
    job.set_time(5000 + SECONDS - 1)
    job.look()
    assert job.process.poll() is None
    job.set_time(5000 + SECONDS)
    job.look()
    assert job.finish() == ["75", LEASE_OVER]


def test_a_job_that_was_paused_ends_if_its_lease_is_not_renewed_again(
    tmp_path: Path, shell: str, jobs: list[Job]
) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready; sleep 600"))
    job.start()
    job.set_time(5000)
    job.renew("during-the-pause")
    job.look()
    assert job.process.poll() is None
    job.set_time(5000 + SECONDS // 2)
    job.look()
    assert job.finish() == ["75", LEASE_OVER]


def test_a_job_that_was_paused_does_not_start_by_a_lease_that_may_be_over(
    tmp_path: Path, shell: str, jobs: list[Job]
) -> None:
    jobs.append(job := Job(tmp_path, shell, "echo ready"))

    def is_paused() -> bool:
        os.killpg(job.process.pid, signal.SIGSTOP)
        is_waiting = job.is_waiting()
        if not is_waiting:
            os.killpg(job.process.pid, signal.SIGCONT)
        return is_waiting

    wait_until(is_paused)
    job.set_time(5000)
    job.renew("during-the-pause")
    os.killpg(job.process.pid, signal.SIGCONT)
    times = iter(range(5000, 10_000_000, SECONDS))

    def has_ended() -> bool:
        job.set_time(next(times))
        return job.process.poll() is not None

    wait_until(has_ended)
    assert job.finish() == ["75", LEASE_OVER]
    assert (tmp_path / "stdout").read_text() == ""
