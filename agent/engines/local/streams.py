"""What a job prints: read from a pipe by the supervisor, which keeps as much of it in a file as the limit allows."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_PIECE_BYTES = 1 << 16
_DROPPED_PIECE_BYTES = 1 << 20


class Stream:
    """One stream of a job: its beginning is kept, and the file says how much of the rest was dropped."""

    def __init__(self, path: Path, limit: int) -> None:
        self._limit = limit
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._reader, self.writer = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Read what the processes print that have got the writer."""
        os.close(self.writer)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Wait until everything is read; no longer, because a process of somebody else's may hold the pipe."""
        self._thread.join(seconds)

    def _read(self) -> None:
        room = self._limit
        while data := os.read(self._reader, _PIECE_BYTES):
            written = self._write(data[:room])
            room -= written
            if written < len(data):
                self._drop(self._limit - room, len(data) - written)
                return

    def _drop(self, kept: int, dropped: int) -> None:
        """Let the job print on without keeping it."""
        self._write(f"\nrainbow: {kept} bytes are kept; what follows is dropped\n".encode())
        sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        while moved := os.splice(self._reader, sink, _DROPPED_PIECE_BYTES):
            dropped += moved
        self._write(f"rainbow: {dropped} bytes were dropped\n".encode())

    def _write(self, data: bytes) -> int:
        """Append to the file; returns how many bytes, which on a full disk are fewer."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            pass
        return written
