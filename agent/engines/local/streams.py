"""What a job prints: read from a pipe by the supervisor, which keeps as much of it in files as the limit allows."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from agent.engines.kept_streams import KeptStream

_PIECE_BYTES = 1 << 16
#: How much of its end is kept in memory.
_TAIL_BYTES = 4096


class Stream:
    """One stream of a job, of which the beginning and the end are kept."""

    def __init__(self, path: Path, limit: int) -> None:
        self._kept = KeptStream(path, limit)
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
            self._kept.append(data)
