"""The files in the directory of a local job, by which the engine and the job's supervisor communicate."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.clocks import boot_id
from agent.files import read_file, rewrite_file, write_file, write_json

#: What to run; written by the engine before the supervisor starts, and named as `CommandEngine` expects it.
TASK = "task.json"
#: Locked (flock) by the supervisor as long as it lives.
LOCK = "lock"
#: Written before the first process is started: from then on the job may have run.
STARTED = "started.json"
#: A request to end the job; SIGTERM makes the supervisor look for it.
CANCEL = "cancel"
#: Until when the job may go on, by the steady clock of one boot; there is none if the job is not guarded.
LEASE = "lease"
_LEASE_BYTES = 200
#: How the job ended.
ENDED = "ended.json"

#: Room on the disk for how the job ended, which must be recorded even if the job has filled the disk.
_RESERVE, _RESERVE_BYTES = "ended.reserve", 4096

#: The reason of a job one of whose watching processes was killed.
SUPERVISOR_LOST = "SUPERVISOR_LOST"


def write_lease(directory: Path, until: float) -> None:
    """Let a job go on until a time of the steady clock."""
    rewrite_file(directory / LEASE, f"{boot_id()} {until:020.3f}".encode())


def reserve_ended(directory: Path) -> None:
    """Keep room for the record of a job's end."""
    write_file(directory / _RESERVE, b" " * _RESERVE_BYTES, is_durable=False)


def write_ended(directory: Path, ended: Mapping[str, Any]) -> None:
    """Record how a job ended."""
    try:
        write_json(directory / ENDED, ended)
        (directory / _RESERVE).unlink(missing_ok=True)
    except OSError:
        data = json.dumps(ended).encode().ljust(_RESERVE_BYTES)
        with (directory / _RESERVE).open("r+b") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        (directory / _RESERVE).replace(directory / ENDED)


def read_lease(directory: Path) -> float | None:
    """Until when a job may go on; None if it is not guarded."""
    try:
        boot, until = read_file(directory / LEASE, _LEASE_BYTES).decode("ascii").split()
    except (OSError, ValueError):
        return None
    return float(until) if boot == boot_id() else 0.0
