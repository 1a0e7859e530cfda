"""A stream of a job in files: its beginning and its end are kept, as `agent.engines.limits` says."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

from agent.engines.limits import log_sizes

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class KeptStream:
    """The files of one stream, to which is appended; from `end` on, if there is something already."""

    def __init__(self, path: Path, limit: int, end: int = 0) -> None:
        self._path = path
        self._sizes = log_sizes(limit)
        self._parts: deque[Path] = deque()
        #: How many bytes were printed, and up to where they belong into the file that is open.
        self.end, self._file_end = 0, self._sizes.head
        self._file = -1
        if end:
            self._resume(end)
        else:
            self._file = os.open(path, _FLAGS, 0o600)

    def append(self, data: bytes) -> None:
        """Keep what was printed, as far as the limit allows."""
        while data:
            if self.end == self._file_end and not self._sizes.part:
                self.end += len(data)
                self._file_end = self.end
                break
            if self.end == self._file_end:
                self._begin_part()
            fitting = data[: self._file_end - self.end]
            self._write(fitting)
            self.end += len(fitting)
            data = data[len(fitting) :]

    def _resume(self, end: int) -> None:
        """Open the file that the stream ended in, and remove what is beyond its end."""
        starts = {self._path: 0}
        for path in self._path.parent.glob(f"{self._path.name}.[0-9]*"):
            starts[path] = int(path.suffix[1:])
        kept = sorted((start, path) for path, start in starts.items() if start < end)
        for path, start in starts.items():
            if start >= end:
                path.unlink(missing_ok=True)
        self._parts.extend(path for _, path in kept[1:])
        start, path = kept[-1]
        self._file_end = start + self._sizes.part if start else self._sizes.head
        self.end = end
        with contextlib.suppress(OSError):
            self._file = os.open(path, _FLAGS, 0o600)
            if end <= self._file_end:
                os.truncate(path, end - start)
            else:
                self._file_end = end

    def _begin_part(self) -> None:
        """Go on in a new file, and remove the oldest but for the beginning."""
        self.close()
        if len(self._parts) == self._sizes.parts:
            with contextlib.suppress(OSError):
                self._parts.popleft().unlink()
        path = self._path.with_name(f"{self._path.name}.{self.end}")
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
            self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
