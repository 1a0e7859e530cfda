"""A real PostgreSQL, started for the tests in a temporary directory and stopped after them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def binaries() -> Path | None:
    """The directory of initdb and pg_ctl, None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URL of a server's maintenance database."""
    bin_directory = binaries()
    assert bin_directory is not None
    directory = Path(tempfile.mkdtemp(prefix="rainbow-pg-"))
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(directory, "postgres", "postgres")
        as_owner = {"user": "postgres", "group": "postgres", "extra_groups": []}
    port = free_port()
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={directory} -c fsync=off"
    data = directory / "data"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=directory, stdout=subprocess.DEVNULL, **as_owner)

    try:
        run(str(bin_directory / "initdb"), "-D", str(data), "-U", "rainbow", "-A", "trust", "-E", "UTF8", "--no-sync")
        run(str(bin_directory / "pg_ctl"), "-D", str(data), "-w", "-l", str(directory / "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://rainbow@127.0.0.1:{port}/postgres"
        finally:
            run(str(bin_directory / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    """A port on loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found
