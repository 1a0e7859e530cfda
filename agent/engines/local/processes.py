"""Processes of this machine, as listed in /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

#: The environment variable by which processes of a job are recognised; its value is the job's key.
MARK = "RAINBOW_KEY"

_PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot, unlike any later process of the same id; None if gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def descendants(root: int) -> set[int]:
    """Every descendant of a process that has not ended."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields and fields[0] not in ("Z", "X"):
            children.setdefault(int(fields[1]), []).append(pid)
    pids: set[int] = set()
    unvisited = [root]
    while unvisited:
        below = [pid for pid in children.get(unvisited.pop(), ()) if pid not in pids]
        pids.update(below)
        unvisited += below
    return pids


def marked(key: str) -> set[int]:
    """Every process with a job's mark in its environment that has not ended, whatever its parent or session is."""
    mark = f"{MARK}={key}".encode()
    pids = set()
    for pid in _pids():
        try:
            variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        fields = _stat(pid) if mark in variables and pid != os.getpid() else None
        if fields and fields[0] not in ("Z", "X"):
            pids.add(pid)
    return pids


def signal_all(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def children_of(root: int) -> set[int]:
    """Every descendant of a process, found by walking down: cheap, but may miss a process that is just starting."""
    pids: set[int] = set()
    unvisited = [root]
    while unvisited:
        pid = unvisited.pop()
        for thread in _entries(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError):
                below = {int(child) for child in (thread / "children").read_text().split()} - pids
                pids |= below
                unvisited += below
    return pids


def memory_bytes(pids: Collection[int], limit: int) -> int:
    """The memory that processes use together; exact only if a cheap upper bound exceeds the limit."""
    page = os.sysconf("SC_PAGE_SIZE")
    resident = page * sum(int(fields[21]) for pid in pids if (fields := _stat(pid)))
    # The bound counts a page once for every process that shares it; dividing shared pages is more expensive.
    return resident if resident <= limit else sum(_proportional_bytes(pid) for pid in pids)


def _proportional_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        # The name before them, in parentheses, may contain spaces and parentheses.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
