"""What the engines share that run commands, with a directory for the files of each task that the agent can read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import Handle, OptionError, Task, parse_seconds, refuse_unknown
from agent.engines.limits import log_sizes
from agent.engines.users import User, file_access_of, find_user, own_name
from agent.files import open_beneath, open_without_links, read_file, read_json

#: What the engine must know of a task later, its working directory (`work`) included.
TASK = "task.json"
_STREAMS = ("stdout", "stderr")
#: What the name of a stream's file ends with, but for the first one.
_PLACE = re.compile(r"|[0-9]{1,18}")
_FORGOTTEN = "forgotten"


class CommandEngine:
    """Options, logs, output files and the removal of old directories."""

    name: str
    #: The options with their defaults; `ignoreImage`, `graceSeconds`, `keepSeconds`,
    #: `logLimitBytes` and `runAs` among them.
    defaults: ClassVar[Mapping[str, Any]]
    #: Whether an engine of root's can run jobs as another user (`runAs`).
    can_switch_user: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        refuse_unknown(options, self.defaults)
        self.options = {**self.defaults, **options}
        if not isinstance(self.options["ignoreImage"], bool):
            raise OptionError("engineOptions.ignoreImage: must be true or false")
        for name in ("graceSeconds", "keepSeconds"):
            self.options[name] = parse_seconds(self.options, name)
        limit = self.options["logLimitBytes"]
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise OptionError("engineOptions.logLimitBytes: must be a number of bytes, 0 or more")
        self.directory = directory
        #: The user that jobs run as, if it is not the agent's own.
        self.user = self._find_user(self.options["runAs"])
        self._clock = clock

    def _find_user(self, name: object) -> User | None:
        if not name:
            return None
        user = find_user(name) if isinstance(name, str) else None
        if user is None:
            raise OptionError(f"runAs: there is no user {name!r} on this machine")
        if user.uid == os.geteuid():
            return None
        if not self.can_switch_user:
            raise OptionError(
                f"runAs: the jobs of the {self.name} engine run as the user who submits them: start the agent as "
                f"'{name}', or say {own_name()}"
            )
        if os.geteuid() != 0:
            raise OptionError(
                f"runAs: only root may run jobs as another user, and the agent runs as '{own_name()}': start it as "
                f"'{name}', or as root"
            )
        return user

    def _check_command(self, task: Task) -> str:
        """Why a task must be declined whatever its size, or an empty text."""
        if task.job.get("image") and not self.options["ignoreImage"]:
            return (
                f"the {self.name} engine runs commands, not images: leave out the image, or set "
                "engineOptions.ignoreImage to run the command without it"
            )
        return "" if task.job.get("command") else f"the {self.name} engine needs a command"

    def _make_directories(self, task: Task) -> tuple[Path, Path]:
        """The task's directory, and below it the working directory, unless the job names an absolute path."""
        directory = self.directory / task.key
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = Path(os.path.normpath(directory / "work" / (task.job.get("working_directory") or "")))
        if work.is_relative_to(directory / "work"):
            work.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._give_away(directory, work)
        return directory, work

    def _give_away(self, directory: Path, work: Path) -> None:
        """Let the user that the job runs as have the working directory, and reach it."""
        if self.user is not None:
            directory.chmod(0o711)
            for path in (work, *work.parents[: len(work.relative_to(directory).parts) - 1]):
                os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """A piece of what the job printed."""
        if stream not in _STREAMS:
            raise ValueError(f"there is no stream {stream}")
        path = self.directory / handle.key / stream
        try:
            data = read_file(path, limit, offset)
            if data and offset + len(data) <= self._head_bytes:
                return data
            for start, end in self.log_parts(handle, stream):
                if start <= offset < end:
                    part = path.with_name(f"{stream}.{start}") if start else path
                    return read_file(part, min(limit, end - offset), offset - start)
        except FileNotFoundError:
            pass
        return b""

    def log_parts(self, handle: Handle, stream: str) -> list[tuple[int, int]]:
        """Where each file of a stream begins and ends; `agent.engines.limits` says which there are."""
        parts = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.directory / handle.key) as entries:
            for entry in entries:
                name, _, start = entry.name.partition(".")
                if name != stream or not _PLACE.fullmatch(start) or not entry.is_file(follow_symlinks=False):
                    continue
                with contextlib.suppress(FileNotFoundError):  # it was dropped while the directory is listed
                    place = int(start or 0)
                    parts.append((place, place + entry.stat(follow_symlinks=False).st_size))
        parts.sort()
        if len(parts) > 1 and parts[0][0] == 0:
            # What Slurm itself adds to the first file when the job ends is not in its place.
            parts[0] = (0, min(parts[0][1], parts[1][0], self._head_bytes))
        return parts

    @property
    def _head_bytes(self) -> int:
        return log_sizes(self.options["logLimitBytes"]).head

    def read_output(self, handle: Handle, path: str, limit: int, offset: int = 0) -> tuple[bytes, int, bool] | None:
        """A regular file beneath the job's working directory."""
        record = read_json(self.directory / handle.key / TASK)
        if record is None:
            return None
        work = Path(record["work"])
        try:
            if Path(path).is_absolute():
                path = str(Path(path).relative_to(work))
            with file_access_of(self.user):
                directory = self._open_work(work)
                try:
                    descriptor = open_beneath(directory, path)
                finally:
                    os.close(directory)
        except (OSError, ValueError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            file.seek(offset)
            return file.read(limit), size, size > offset + limit

    def _open_work(self, work: Path) -> int:
        """Open the working directory; one that the engine made must not have become a link."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        if not work.is_relative_to(self.directory):
            return os.open(work, flags)
        jobs = os.open(self.directory, flags)
        try:
            return open_without_links(jobs, str(work.relative_to(self.directory)), last=flags)
        finally:
            os.close(jobs)

    def forget(self, handle: Handle) -> None:
        """Mark the job's directory, and remove those marked keepSeconds ago, until when they can be inspected."""
        directory = self.directory / handle.key
        if directory.is_dir():
            (directory / _FORGOTTEN).touch()
        for mark in self.directory.glob(f"*/{_FORGOTTEN}"):
            with contextlib.suppress(OSError):
                if time.time() - mark.stat().st_mtime >= self.options["keepSeconds"]:
                    shutil.rmtree(mark.parent, ignore_errors=True)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock (flock) on a file."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
