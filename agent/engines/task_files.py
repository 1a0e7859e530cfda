"""The files of a task in a directory that the agent can read: logs, outputs, locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from pathlib import Path

STREAMS = ("stdout", "stderr")

_FORGOTTEN = "forgotten"


def working_directory(directory: Path, requested: str | None) -> Path:
    """Where a job runs: created below its task's directory, unless the job names an absolute path."""
    work = directory / "work" / (requested or "")
    if work.is_relative_to(directory):
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    return work


def read_log(directory: Path, stream: str, offset: int, limit: int) -> bytes:
    """A piece of what a job printed; empty if there is nothing (yet)."""
    if stream not in STREAMS:
        raise ValueError(f"there is no stream {stream}")
    try:
        with (directory / stream).open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def read_output(path: Path, limit: int) -> tuple[bytes, int, bool] | None:
    """Content, size, and whether the content is truncated; None if there is no such file."""
    try:
        # Without blocking, because the path may name a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit), status.st_size, status.st_size > limit
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock (flock) on a file."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def forget(directory: Path, keep_seconds: float) -> None:
    """Mark a task's directory for removal, and remove the directories that were marked so many seconds ago."""
    if directory.is_dir():
        (directory / _FORGOTTEN).touch()
    for mark in directory.parent.glob(f"*/{_FORGOTTEN}"):
        with contextlib.suppress(OSError):
            if time.time() - mark.stat().st_mtime >= keep_seconds:
                shutil.rmtree(mark.parent, ignore_errors=True)
