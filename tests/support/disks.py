"""Small file systems, which tests fill up or make read-only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        with (self.path / "filling").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        (self.path / "filling").unlink()


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A file that can only be read by whoever opens it now."""
    if os.geteuid() != 0:
        pytest.skip("only root may make a file read-only for everybody")
    subprocess.run(["mount", "--bind", str(path), str(path)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@contextmanager
def mounted_disk(path: Path, megabytes: int = 2) -> Iterator[SmallDisk]:
    """A small file system at a path."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
