"""The command line: how long one waits for it, from a process that starts cold to its end."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import stock
from bench.admins import admin_on
from bench.databases import Backend
from bench.figures import Figure
from bench.load import Pace
from tests.support.programs import BIN, clean_environment

NAME = "commands"
PYTHON, HELP, READ = "python alone", "rainbowctl --help", "rainbowctl get one attribute, -o json"
_TIMES = 10


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures of the client, to which the admin's database is all the same: measured once."""
    if backend.name != "sqlite":
        return
    database = backend.create()
    stock.fill(database, stock.THOUSAND)
    rainbowctl = str(BIN / "rainbowctl")
    scope = ["-p", stock.project_name(0), "-d", stock.DOMAINS[0]]
    with admin_on(database) as admin, tempfile.TemporaryDirectory(prefix="rainbow-bench-") as home:
        read = [rainbowctl, "get", "task-resource-attribute", *scope, "-o", "json", "--endpoint", admin.url]
        for what, command in {
            PYTHON: [sys.executable, "-c", "pass"],
            HELP: [rainbowctl, "--help"],
            READ: read,
        }.items():
            taken = sorted(_took(command, Path(home)) for _ in range(_TIMES + 1))[:-1]  # the first one reads files
            middle = statistics.median(taken)
            yield Figure(bench=NAME, what=what, value=middle, unit="ms", p50=middle, p99=taken[-1])


def _took(command: list[str], home: Path) -> float:
    """Milliseconds that a command takes, which must succeed."""
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, env=clean_environment(HOME=str(home)), cwd=home)
    return (time.monotonic() - begin) * 1000
