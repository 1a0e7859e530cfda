"""`make run`, as tests start and end it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import clean_environment
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 90  #: how long a test waits at most


@dataclass(frozen=True, kw_only=True)
class Local:
    """Both programs, up."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command as a newcomer types it in a second shell."""
        env = clean_environment(HOME=str(self.log.parent))
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=SECONDS)


def command(directory: Path, port: int) -> list[str]:
    return [
        sys.executable,
        str(ROOT / "scripts/run_local.py"),
        "--directory",
        str(directory / "run"),
        "--port",
        str(port),
    ]


@contextmanager
def running(directory: Path, port: int) -> Iterator[Local]:
    log = directory / "log"
    with log.open("wb") as stream:
        env = clean_environment(HOME=str(directory))
        process = subprocess.Popen(command(directory, port), cwd=directory, env=env, stdout=stream, stderr=stream)
    try:
        eventually(lambda: "Stop everything with Ctrl-C." in log.read_text(), log, process)
        yield Local(process=process, url=f"http://127.0.0.1:{port}", log=log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=SECONDS)


def eventually(is_so: Callable[[], bool], log: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    def is_so_or_ended() -> bool:
        assert process is None or process.poll() is None, log.read_text()
        return is_so()

    wait_until(is_so_or_ended, SECONDS, interval=0.1, explain=log.read_text)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
