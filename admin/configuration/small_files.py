"""Small files of the operator's, which are read again while the admin serves."""

from __future__ import annotations

import errno
import os
import stat

#: What one file may hold: the templates of a namespace and its secrets are a few kilobytes.
MOST_BYTES = 1024 * 1024


class FileTooLarge(Exception):
    """A file holds more than is read."""

    def __init__(self, size: int) -> None:
        super().__init__(f"has {size} bytes; the most is {MOST_BYTES}.")


def read_small(path: str | os.PathLike[str]) -> bytes:
    """What a regular file holds; OSError for anything else, since a pipe or a device may keep a reader for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise FileTooLarge(max(status.st_size, len(content)))
    return content
