"""A counter that the worker processes of one admin share, without asking the database."""

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
    """The highest number that any worker has announced; of this process alone without a file to share.

    A worker announces what it has committed before it answers, so that the next request, at any worker, sees it.
    """

    def __init__(self, file: int | None = None) -> None:
        self._thread_lock = threading.Lock()
        self._file = file
        if file is None:
            self._memory = mmap.mmap(-1, _NUMBER.size)
        else:
            os.ftruncate(file, _NUMBER.size)
            self._memory = mmap.mmap(file, _NUMBER.size)

    def latest(self) -> int:
        """The highest number so far."""
        return int(_NUMBER.unpack_from(self._memory)[0])

    def announce(self, number: int) -> None:
        """Raise the counter to a number; a lower one changes nothing."""
        with self._locked():
            if number > self.latest():
                _NUMBER.pack_into(self._memory, 0, number)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, over all threads and processes; the lock of a killed process is released."""
        with self._thread_lock:
            if self._file is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                if self._file is not None:
                    fcntl.lockf(self._file, fcntl.LOCK_UN)
