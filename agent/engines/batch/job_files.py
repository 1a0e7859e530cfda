"""The files in the directory of a job with a batch script, which outlast what its back end remembers of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.files import read_file

_MOST_BYTES = 1000
#: What a back end may end a job with.
_SIGNALLED = {128 + number for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGALRM, signal.SIGHUP)}

#: Locked (flock) while the job is being submitted.
LOCK = "lock"
#: The native id of the job that runs the command; whichever job creates the file first is the only one.
MARK = "native-id"
#: Keeps a job that has not started from starting.
CANCELLED = "cancelled"
#: The agent's last renewal of the lease: a text that differs each time, and for how many seconds; only if guarded.
LEASE = "lease"
#: The process id of the command.
PROCESS = "pid"
#: The pipes through which the command prints; removed as soon as they are open.
PIPES = ("stdout.pipe", "stderr.pipe")
#: The exit code of the command, and one of the reasons below or `-`.
ENDED = "ended"
#: Room on the disk for that, which must be recorded even if the job has filled the disk.
RESERVE = "ended.reserve"

TIME_LIMIT, COMMAND_NOT_FOUND, NO_WORKING_DIRECTORY = "TIME_LIMIT", "COMMAND_NOT_FOUND", "NO_WORKING_DIRECTORY"
#: The kernel ended a process of its control group, and so the command.
OUT_OF_MEMORY = "OUT_OF_MEMORY"
#: The lease is over; recorded before the command is ended.
LEASE_OVER = "LEASE_OVER"
#: The back end sent a signal: only it knows why.
TERMINATED = "TERMINATED"


@dataclass(frozen=True)
class Ending:
    """How the command ended, as the batch script recorded it."""

    code: int
    #: One of the reasons above; CANCELLED if the command was never started; empty if it ended by itself.
    reason: str
    finished_at: datetime

    @property
    def is_signalled(self) -> bool:
        """Whether the back end may have ended the command, which may die of a signal before the script gets it."""
        return self.reason == TERMINATED or self.code in _SIGNALLED


def marked_id(directory: Path) -> str | None:
    """The native id of the job that runs, or ran, the command; None if none has started."""
    try:
        return read_file(directory / MARK, _MOST_BYTES).decode().strip() or None
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None


def started_at(directory: Path) -> datetime | None:
    """When the command started."""
    return _modified_at(directory / MARK)


def read_ending(directory: Path) -> Ending | None:
    """How the command ended; None if it has not, or left no record."""
    try:
        code, reason = read_file(directory / ENDED, _MOST_BYTES).decode("ascii").split()
        finished = _modified_at(directory / ENDED)
        return None if finished is None else Ending(int(code), "" if reason == "-" else reason, finished)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _modified_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
