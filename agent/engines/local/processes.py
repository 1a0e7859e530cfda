"""Processes of this machine, as /proc shows them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

#: The environment variable that every process of a job carries, with the job's key.
MARK = "RAINBOW_KEY"

_PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with the id it names a process beyond doubt."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def descendants(root: int) -> set[int]:
    """Every living process below `root`."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields and fields[0] not in ("Z", "X"):
            children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    unseen = [root]
    while unseen:
        below = [pid for pid in children.get(unseen.pop(), ()) if pid not in found]
        found.update(below)
        unseen += below
    return found


def marked(key: str, but: int = 0) -> set[int]:
    """Every living process whose environment names the job, however far it has strayed."""
    mark = f"{MARK}={key}".encode()
    found = set()
    for pid in _pids():
        try:
            variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        fields = _stat(pid) if mark in variables and pid not in (but, os.getpid()) else None
        if fields and fields[0] not in ("Z", "X"):
            found.add(pid)
    return found


def children_of(root: int) -> set[int]:
    """Every process below `root`, found from the top: cheap, but one that is just being started may be missed."""
    found: set[int] = set()
    unseen = [root]
    while unseen:
        pid = unseen.pop()
        for thread in _listed(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError):
                below = {int(child) for child in (thread / "children").read_text().split()} - found
                found |= below
                unseen += below
    return found


def memory_bytes(pids: Collection[int], limit: int) -> int:
    """The memory that processes have in use together, exact where it matters: when it seems to be above the limit."""
    page = os.sysconf("SC_PAGE_SIZE")
    resident = page * sum(int(fields[21]) for pid in pids if (fields := _stat(pid)))
    # Processes share pages, which are now counted once for each; dividing them up costs more.
    return resident if resident <= limit else sum(_proportional_bytes(pid) for pid in pids)


def _proportional_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none where there is no such process."""
    try:
        # The name before them, in parentheses, may hold anything.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
