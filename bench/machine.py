"""The machine: its class and the versions of what runs on it, never its name."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

from bench.stolen_time import STOLEN
from tests.support.postgresql import binaries

_PACKAGES = ("flask", "granian", "marshmallow", "psycopg", "sqlalchemy")


def described() -> dict[str, str]:
    """What a reader must know to compare figures."""
    return {
        "cores": str(os.cpu_count()),
        "architecture": platform.machine(),
        "system": _system(),
        "memory": _memory(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "postgresql": _postgresql(),
        "wrk": _first_number(["wrk", "-v"]),
        **{name: version(name) for name in _PACKAGES},
        "stolen time": str(STOLEN),
    }


def _system() -> str:
    release = platform.freedesktop_os_release()
    return f"{release.get('NAME', 'Linux')} {release.get('VERSION_ID', '')}".strip()


def _memory() -> str:
    kibibytes = re.findall(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return f"{int(kibibytes[0]) / 1024**2:.0f} GiB"


def _postgresql() -> str:
    directory = binaries()
    return "not installed" if directory is None else _first_number([str(directory / "postgres"), "--version"])


def _first_number(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except OSError:
        return "not installed"
    numbers = re.findall(r"\d+\.\d+(?:\.\d+)?", done.stdout + done.stderr)
    return numbers[0] if numbers else "unknown"
