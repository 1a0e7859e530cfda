"""A real PostgreSQL, started for the tests in a temporary directory and stopped after them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until


def binaries() -> Path | None:
    """The directory of initdb and pg_ctl, None where PostgreSQL is not installed."""
    initdb = shutil.which("initdb")
    if initdb:
        return Path(initdb).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def running_postgresql(settings: str = "-c fsync=off -c full_page_writes=off") -> Iterator[str]:
    """The URL of a server's maintenance database; it does not wait for the disk."""
    bin_directory = binaries()
    assert bin_directory is not None
    with owned_directory("rainbow-pg") as directory:
        as_owner: dict[str, Any] = {"cwd": directory, "stdout": subprocess.DEVNULL}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(directory, "postgres", "postgres")
            as_owner |= {"user": "postgres", "group": "postgres", "extra_groups": []}
        port = free_port()
        initdb = [str(bin_directory / "initdb"), "-D", "data", "-U", "rainbow", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*initdb, "--no-sync"], check=True, **as_owner)
        places = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={directory}"
        command = [str(bin_directory / "postgres"), "-D", "data", *shlex.split(f"{places} {settings}")]
        with (directory / "log").open("wb") as log:
            server = subprocess.Popen(command, stderr=log, preexec_fn=ended_with_us(signal.SIGQUIT), **as_owner)
        try:
            _wait_until_ready(server, directory)
            yield f"postgresql+psycopg://rainbow@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)  # at once
            server.wait(timeout=60)


def _wait_until_ready(server: subprocess.Popen[bytes], directory: Path) -> None:
    state, log = directory / "data/postmaster.pid", directory / "log"

    def is_ready() -> bool:
        assert server.poll() is None, f"PostgreSQL has ended:\n{log.read_text()}"
        return state.exists() and "ready" in state.read_text().split()

    wait_until(is_ready, interval=0.05, explain=lambda: f"PostgreSQL is not ready:\n{log.read_text()}")
