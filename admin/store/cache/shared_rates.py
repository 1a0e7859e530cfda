"""How far ahead of its rate each user and project is, in memory that the worker processes of one admin share."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import threading
from functools import lru_cache

#: What a place holds: whose it is, and until when what was counted lasts at its rate.
_PLACE = struct.Struct("=Qd")
_PLACES = 32_768
#: Places in which a key may be found, all named by its hash.
_PROBES = 16


class SharedRates:
    """Until when what each key was counted for lasts; of this process alone without a file to share.

    The memory is of a fixed size. A key whose time is over leaves its place to others; where too many are in use at
    once, some share a place. Two workers that count the same key at the same moment may count one of them only.
    """

    def __init__(self, file: int | None = None) -> None:
        size = _PLACE.size * _PLACES
        self._lock = threading.Lock()
        if file is None:
            self._memory = mmap.mmap(-1, size)
        else:
            os.ftruncate(file, size)
            self._memory = mmap.mmap(file, size)

    def seconds_ahead(self, key: str, now: float) -> float:
        """For how long what was counted still lasts."""
        return max(0.0, self._find(_tag(key), now)[1] - now)

    def add(self, key: str, seconds: float, now: float) -> None:
        """Count something that lasts so many seconds at the key's rate."""
        tag = _tag(key)
        with self._lock:
            offset, until = self._find(tag, now)
            _PLACE.pack_into(self._memory, offset, tag, max(until, now) + seconds)

    def _find(self, tag: int, now: float) -> tuple[int, float]:
        """The place of a key, and until when it lasts; a place that is free where it has none."""
        free = offset = -1
        until = 0.0
        step = tag >> 32 | 1
        for probe in range(_PROBES):
            offset = (tag + probe * step) % _PLACES * _PLACE.size
            owner, until = _PLACE.unpack_from(self._memory, offset)
            if owner == tag:
                return offset, until
            if free < 0 and until <= now:
                free = offset
        return (offset, until) if free < 0 else (free, now)


@lru_cache(maxsize=4096)
def _tag(key: str) -> int:
    """A number that hardly any other key has, the same in every process."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
