"""What the engines share whose jobs have a batch script: leases, the mark against a late start, and submission."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import EngineUnavailable, Handle
from agent.engines.batch.job_files import CANCELLED, ENDED, LEASE, marked_id, read_ending
from agent.engines.command_engine import CommandEngine, is_locked
from agent.files import rewrite_file


class BatchEngine(CommandEngine):
    """Jobs whose script runs the command once, guards its lease on its node and records its end."""

    guards_leases = True
    #: Jobs belong to the back end, not to the agent's machine.
    is_shared = True

    def __init__(self, options: Mapping[str, Any], directory: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(options, directory, clock=clock)
        #: Until when guarded jobs whose script has not begun yet may go on, by key.
        self._leases: dict[str, float] = {}
        #: When the back end was first found not to know a job, by key.
        self._missing_since: dict[str, float] = {}

    def _await_submission(self, lock: Path, name: str, seconds: float) -> None:
        """Wait for a submission that goes on although the agent that began it has ended."""
        deadline = self._clock.steady() + seconds
        while is_locked(lock):
            if self._clock.steady() > deadline:
                raise EngineUnavailable(f"an earlier submission of {name} has not ended yet")
            self._clock.sleep(0.02)

    def _was_signalled(self, key: str) -> bool:
        ending = read_ending(self.directory / key)
        return ending is not None and ending.is_signalled

    def _mark_cancelled(self, key: str) -> None:
        """Keep a job that the back end does not show yet from starting; on a full disk cancelling has to do."""
        with contextlib.suppress(OSError):
            if (self.directory / key).is_dir():
                (self.directory / key / CANCELLED).touch()

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        """Tell batch scripts how long their jobs may go on, from when they read it."""
        for handle, left in seconds.items():
            directory = self.directory / handle.key
            if (directory / LEASE).exists() and not (directory / ENDED).exists():
                self._renew(handle.key, left)

    def _renew(self, key: str, seconds: float) -> None:
        directory = self.directory / key
        # A script that begins after this waits for another renewal, which states() gives.
        if marked_id(directory) is None:
            self._leases[key] = self._clock.steady() + seconds
        else:
            self._leases.pop(key, None)
        # The clocks of nodes differ: a script counts the seconds from when it sees that the text has changed.
        rewrite_file(directory / LEASE, f"{secrets.token_hex(8)} {int(seconds):<10}\n".encode())

    def _renew_begun(self) -> None:
        """Renew the leases of jobs whose script has begun since they were last renewed, for what is left of them."""
        for key, until in list(self._leases.items()):
            left = until - self._clock.steady()
            if left <= 0:
                del self._leases[key]
                continue
            with contextlib.suppress(OSError):  # tried again; the others must not wait for it
                if marked_id(self.directory / key) is not None:
                    self._renew(key, left)


@contextlib.contextmanager
def lock_submission(path: Path, name: str) -> Iterator[int]:
    """A lock that whatever submits inherits, so that a later agent can tell whether it still does."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        take_lock(lock, name)
        yield lock
    finally:
        os.close(lock)


def take_lock(lock: int, name: str) -> None:
    """Lock an open file; EngineUnavailable while an earlier process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise EngineUnavailable(f"an earlier submission of {name} has not ended yet") from error
