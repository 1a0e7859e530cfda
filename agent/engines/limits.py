"""How much is kept on the node of each stream that a job prints.

The first quarter of the limit is the beginning of the stream, in a file of its name. The rest is the end of the stream,
in parts whose files have the place of their first byte after the name: `stdout.16777216`. The oldest part is removed
when a new one is begun, so that what is kept never exceeds the limit.
"""

from __future__ import annotations

from typing import NamedTuple

LOG_LIMIT_BYTES = 64 << 20

_PARTS = 8


class LogSizes(NamedTuple):
    """The sizes of the files of a stream."""

    head: int
    part: int
    parts: int


def log_sizes(limit: int) -> LogSizes:
    """How large the beginning is, how large each part of the end, and how many of those there are."""
    tail = limit - max(min(1, limit), limit // 4)
    part = max(min(1, tail), tail // _PARTS)
    parts = tail // part if part else 0
    return LogSizes(head=limit - part * parts, part=part, parts=parts)
