"""A real Redis or Valkey, started for the tests in a temporary directory and stopped after them."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until


def redis_server() -> str | None:
    """The program of a server, None where none is installed."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


class RunningRedis:
    """A server that tests may pause, kill and start again; what it keeps survives if it writes its log."""

    def __init__(self, directory: Path, options: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._options = options
        self.port = free_port()
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        program = redis_server()
        assert program is not None
        places = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._directory), "--save", "")
        with (self._directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, *places, *self._options], stdout=log, preexec_fn=ended_with_us(signal.SIGKILL)
            )
        wait_until(self._is_ready, interval=0.02, explain=(self._directory / "log").read_text)

    def _is_ready(self) -> bool:
        from redis import Redis, RedisError

        assert self.process.poll() is None, (self._directory / "log").read_text()
        with Redis(port=self.port) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)


@contextmanager
def running_redis(*options: str) -> Iterator[RunningRedis]:
    """A server that listens on loopback and forgets everything when it ends, unless the options say otherwise."""
    with owned_directory("rainbow-redis") as directory:
        server = RunningRedis(directory, options)
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGCONT)
            server.kill()
