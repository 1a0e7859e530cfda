"""The files of a task, where its engine leaves them in a directory that the agent can read."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

STREAMS = ("stdout", "stderr")

_FORGOTTEN = "forgotten"


def working_directory(directory: Path, wished: str | None) -> Path:
    """Where a job runs: below its task's directory, which is made, unless it names a whole path."""
    work = directory / "work" / (wished or "")
    if work.is_relative_to(directory):
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    return work


def read_log(directory: Path, stream: str, offset: int, limit: int) -> bytes:
    """A piece of what a job printed; empty where there is nothing (yet)."""
    if stream not in STREAMS:
        raise ValueError(f"there is no stream {stream}")
    try:
        with (directory / stream).open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def read_output(path: Path, limit: int) -> tuple[bytes, int, bool] | None:
    """Content, whole size, and whether it was cut; None where there is no such file."""
    try:
        # A pipe of that name must not make the agent wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit), found.st_size, found.st_size > limit
    finally:
        os.close(descriptor)


def forget(directory: Path, keep_seconds: float) -> None:
    """Let a task's directory go, after the time that such directories are kept for people to look at."""
    if directory.is_dir():
        (directory / _FORGOTTEN).touch()
    for mark in directory.parent.glob(f"*/{_FORGOTTEN}"):
        with contextlib.suppress(OSError):
            if time.time() - mark.stat().st_mtime >= keep_seconds:
                shutil.rmtree(mark.parent, ignore_errors=True)
