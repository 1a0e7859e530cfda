"""What programs print when the system gives them no more memory: they end by themselves, and say it at best."""

from __future__ import annotations

import re

_WORDS = re.compile(
    rb"(?<!OutOf)MemoryError|std::bad_alloc|[Cc]annot allocate memory|memory exhausted"
    rb"|memory allocation of [0-9]+ bytes failed"
)
#: What they print then too, but also when a heap of their own is full, or a server that they call has no more memory.
_DOUBTFUL_WORDS = re.compile(rb"OutOfMemoryError|[Oo]ut of memory")
#: What lines contain that are about the memory of a device, which the limit does not include.
_DEVICE = re.compile(rb"cuda|cudnn|cublas|\bnccl|\bgpu|\bhip|\brocm|\bxpu|\bmps\b|device memory", re.IGNORECASE)
_LAST_LINES = 5


def find_lack_of_memory(end: bytes, *, is_near: bool) -> str:
    """What the last lines of a job's stderr say of its memory, or an empty text.

    A large request fails far below the limit; doubtful words count only of a job that is known to have come near it.
    """
    lines = [line for line in end.splitlines()[-_LAST_LINES:] if not _DEVICE.search(line)]
    last_lines = b"\n".join(lines)
    printed = _WORDS.search(last_lines) or (_DOUBTFUL_WORDS.search(last_lines) if is_near else None)
    return printed[0].decode() if printed else ""


def lack_of_memory_message(printed: str, limit_bytes: int) -> str:
    """The message of a job that said so."""
    return f"It got no more memory ({printed}); the limit of each process is {limit_bytes >> 20} MiB."
