"""Real admin processes for tests, each on its own database and port."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.support.databases import SqliteDatabases
from tests.support.ports import free_port
from tests.support.programs import Process, clean_environment, start
from tests.support.waiting import wait_until

#: An address of loopback that an admin does not take for one: it serves as if others could reach it.
BEYOND_LOOPBACK = "127.1"


@dataclass(frozen=True, kw_only=True)
class RunningAdmin:
    """An admin that answers."""

    process: Process
    url: str
    log: Path

    def get(self, path: str, **kwargs: object) -> requests.Response:
        return requests.get(self.url + path, timeout=60, **kwargs)  # type: ignore[arg-type]

    def stop(self) -> int:
        """Ask it to stop, and answer its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def running_admin(
    directory: Path,
    *arguments: str,
    database: str | None = None,
    environment: Mapping[str, str] | None = None,
    scheme: str = "http",
    verify: str | bool = True,
    is_cold: bool = False,
    port: int | None = None,
) -> Iterator[RunningAdmin]:
    """An admin started from the command line, on a free port unless one is named; it is stopped in any case.

    A cold one starts as users start it, and sets up its database itself.
    """
    if database is None and not is_cold and not (directory / "rainbow.db").exists():
        database = SqliteDatabases().set_up(directory)
    port = port or free_port()
    log = directory / f"admin-{port}.log"
    command = ["serve", "--port", str(port), "--database", database or f"sqlite:///{directory / 'rainbow.db'}"]
    with log.open("ab") as stream:
        process = start(
            "rainbow-admin",
            *command,
            *arguments,
            cwd=directory,
            env=clean_environment(**{"TMPDIR": str(directory), **(environment or {})}),
            stdout=stream,
            stderr=stream,
            is_cold=is_cold,
        )
    try:
        url = f"{scheme}://127.0.0.1:{port}"
        _wait_until_ready(process, url, log, verify)
        yield RunningAdmin(process=process, url=url, log=log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def workers_of(process: Process) -> list[str]:
    """The ids of the worker processes of an admin."""
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def _wait_until_ready(process: Process, url: str, log: Path, verify: str | bool) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, f"the admin ended with {process.returncode}:\n{log.read_text()}"
        try:
            return requests.get(f"{url}/readyz", timeout=60, verify=verify).status_code == 200
        except (requests.ConnectionError, requests.Timeout):
            return False

    wait_until(is_ready, 180, 0.05, explain=lambda: f"the admin is not ready:\n{log.read_text()}")
