"""SharedCounter: numbers that the workers of one admin tell each other, without asking the database."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBER = struct.Struct("=Q")


class SharedCounter:
    """The highest number that any worker has announced; of this process alone where there is no file to share.

    Whoever has written announces it before it answers, so that whoever is asked next knows that it must look.
    """

    def __init__(self, path: str | None = None) -> None:
        self._among_threads = threading.Lock()
        self._file = None if path is None else os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        if self._file is None:
            self._memory = mmap.mmap(-1, _NUMBER.size)
        else:
            os.ftruncate(self._file, _NUMBER.size)
            self._memory = mmap.mmap(self._file, _NUMBER.size)

    def latest(self) -> int:
        """The highest number so far."""
        return int(_NUMBER.unpack_from(self._memory)[0])

    def announce(self, number: int) -> None:
        """Let everyone know that there is a number; a lower one than the highest changes nothing."""
        with self._alone():
            if number > self.latest():
                _NUMBER.pack_into(self._memory, 0, number)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time, of all threads and processes; the lock of a process that is killed is given up."""
        with self._among_threads:
            if self._file is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                if self._file is not None:
                    fcntl.lockf(self._file, fcntl.LOCK_UN)
