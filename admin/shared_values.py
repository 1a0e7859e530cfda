"""Numbers that the worker processes of one admin share, in memory that belongs to no file system.

Each worker counts in a segment of its own, which it keeps locked; the next worker after its end counts on there, so
that totals never go back. Nothing that happens to disks or directories reaches them: they cannot run full, be removed
or lose their rights. Where a segment cannot grow, new values are counted by their process alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

_BLOCK = 2**16
_USED = struct.Struct("=Q")  #: at the beginning of a segment: how many of its bytes are used
_ENTRY = struct.Struct("=I4xd")  #: the length of a key, and its value; the key follows, up to a multiple of 8 bytes
_VALUE = struct.Struct("=d")
_VALUE_OFFSET = 8


class Key(NamedTuple):
    """What a value counts."""

    type: str  #: of the metric
    metric: str
    help: str
    name: str  #: of the sample
    labels: tuple[tuple[str, str], ...]


def memory_file(name: str) -> int:
    """The descriptor of an empty file in memory, which child processes inherit."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:  # other systems have none: a file without a name is the closest to it
        return os.dup(file.fileno())


class Segment:
    """The values of one process; other processes read them."""

    def __init__(self, file: int) -> None:
        """OSError where another process has the segment."""
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file = file
        self._lock = threading.Lock()
        if os.fstat(file).st_size == 0:
            os.pwrite(file, _USED.pack(_USED.size).ljust(_BLOCK, b"\0"), 0)
        self._memory = mmap.mmap(file, os.fstat(file).st_size)
        self._offsets = {key: offset for key, offset, _ in _entries(self._memory[:])}
        for key, offset in self._offsets.items():
            if key.type == "gauge":  # what the process before had went with it
                self.write(offset, 0.0)

    def offset(self, key: Key) -> int | None:
        """Where a value is; None where there is no room for it."""
        with self._lock:
            offset = self._offsets.get(key)
            if offset is None:
                with suppress(OSError):
                    offset = self._offsets[key] = self._append(json.dumps(key).encode())
            return offset

    def read(self, offset: int) -> float:
        """A value."""
        value: float = _VALUE.unpack_from(self._memory, offset)[0]
        return value

    def write(self, offset: int, value: float) -> None:
        """Set a value in one assignment, for readers take no lock."""
        self._memory[offset : offset + _VALUE.size] = _VALUE.pack(value)

    def _append(self, key: bytes) -> int:
        begin: int = _USED.unpack_from(self._memory)[0]
        end = begin + _size(len(key))
        if end > len(self._memory):
            # Zeros are written, for a file that is merely made longer has no room of its own.
            more = -(-(end - len(self._memory)) // _BLOCK) * _BLOCK
            if os.pwrite(self._file, bytes(more), len(self._memory)) < more:
                raise OSError(errno.ENOSPC, "no room")
            self._memory = mmap.mmap(self._file, len(self._memory) + more)
        self._memory[begin:end] = (_ENTRY.pack(len(key), 0.0) + key).ljust(end - begin, b"\0")
        self._memory[: _USED.size] = _USED.pack(end)
        return begin + _VALUE_OFFSET


def take_segment(files: Sequence[int]) -> Segment | None:
    """The first segment that no other process has; None where all are taken."""
    for file in files:
        with suppress(OSError):
            return Segment(file)
    return None


def read_values(file: int) -> Iterator[tuple[Key, float]]:
    """The values of a segment of any process."""
    for key, _, value in _entries(os.pread(file, os.fstat(file).st_size, 0)):
        yield key, value


def _entries(data: bytes) -> Iterator[tuple[Key, int, float]]:
    """The key, offset and value of each entry."""
    end = _USED.unpack_from(data)[0] if data else 0
    begin = _USED.size
    while begin < end:
        length, value = _ENTRY.unpack_from(data, begin)
        text = data[begin + _ENTRY.size : begin + _ENTRY.size + length]
        type_, metric, help_text, name, labels = json.loads(text)
        key = Key(type_, metric, help_text, name, tuple((label, text) for label, text in labels))
        yield key, begin + _VALUE_OFFSET, value
        begin += _size(length)


def _size(length: int) -> int:
    """The bytes of an entry whose key is so long."""
    return _ENTRY.size + -(-length // 8) * 8
