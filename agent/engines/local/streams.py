"""What a job prints: read from a pipe by the supervisor, which keeps as much of it in files as the limit allows."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from pathlib import Path

from agent.engines.limits import log_sizes

_PIECE_BYTES = 1 << 16
#: How much of its end is kept in memory.
_TAIL_BYTES = 4096
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Stream:
    """One stream of a job: its beginning and its end are kept, in files as `agent.engines.limits` says."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._sizes = log_sizes(limit)
        self._parts: deque[Path] = deque()
        self._file = os.open(path, _FLAGS, 0o600)
        #: How many bytes were printed, and up to where they belong into the file that is open.
        self._end, self._file_end = 0, self._sizes.head
        self._reader, self.writer = os.pipe()
        #: The last of what was printed.
        self.tail = b""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Read what the processes print that have got the writer."""
        os.close(self.writer)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait until everything is read; no longer, because a foreign process may hold the pipe."""
        self._thread.join(seconds)

    def _read(self) -> None:
        while data := os.read(self._reader, _PIECE_BYTES):
            self.tail = (self.tail + data)[-_TAIL_BYTES:]
            while data:
                if self._end == self._file_end and not self._sizes.part:
                    break
                if self._end == self._file_end:
                    self._begin_part()
                fitting = data[: self._file_end - self._end]
                self._write(fitting)
                self._end += len(fitting)
                data = data[len(fitting) :]

    def _begin_part(self) -> None:
        """Go on in a new file, and remove the oldest but for the beginning."""
        self._close()
        if len(self._parts) == self._sizes.parts:
            with contextlib.suppress(OSError):
                self._parts.popleft().unlink()
        path = self._path.with_name(f"{self._path.name}.{self._end}")
        self._parts.append(path)
        self._file_end += self._sizes.part
        with contextlib.suppress(OSError):
            self._file = os.open(path, _FLAGS, 0o600)

    def _write(self, data: bytes) -> None:
        """Append to the file; on a full disk the rest of the file is left out."""
        try:
            while data and self._file >= 0:
                data = data[os.write(self._file, data) :]
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
