"""Control groups (cgroup v2), where the agent may make them: no process of a job can leave its group by itself."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROCESSES = "cgroup.procs"


def own() -> Path | None:
    """The directory of this process's group; None if the machine has no cgroup v2."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return None
    name = next((line[3:] for line in groups if line.startswith("0::")), None)
    place = next((fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"), None)
    if name is None or place is None or not Path(place + name, _PROCESSES).exists():
        return None
    return Path(place + name)


def make(key: str) -> Path | None:
    """A group for the processes of a job; None where this process may not make one."""
    parent = own()
    if parent is None or not os.access(parent / _PROCESSES, os.W_OK):
        return None
    group = parent / f"rainbow-{key}"
    try:
        group.mkdir(exist_ok=True)
    except OSError:
        return None
    return group


def enter(group: Path) -> bool:
    """Move this process into a group; whether that was possible."""
    try:
        (group / _PROCESSES).write_text("0")
    except OSError:
        return False
    return True


def members(group: Path | None) -> set[int]:
    """The processes in a group and in those below it, except this one."""
    pids: set[int] = set()
    for file in group.glob(f"**/{_PROCESSES}") if group else ():
        with contextlib.suppress(OSError, ValueError):
            pids |= {int(pid) for pid in file.read_text().split()}
    return pids - {os.getpid()}


def remove(group: Path | None) -> None:
    """Remove a group, unless there are processes in it."""
    if group is not None:
        with contextlib.suppress(OSError):
            group.rmdir()
