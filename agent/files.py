"""Files that survive a crash: replaced as a whole or not at all, and synced to disk where the machine may crash too.

Jobs may have replaced what the agent reads by links, pipes or devices: only regular files are read.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

#: The most that is read of a JSON document.
_MOST_BYTES = 64 << 20
#: A pipe must not make the reader wait.
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Of the system call openat2, which has this number on every machine.
_OPENAT2, _RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 437, 0x02, 0x08
_NO_OPENAT2 = (errno.ENOSYS, errno.EPERM, errno.EAGAIN)
_libc = ctypes.CDLL(None, use_errno=True)


def write_file(path: Path, data: bytes, *, mode: int = 0o600, is_durable: bool = True) -> None:
    """Replace a file, so that a reader sees the old content or the new; durable content is on disk afterwards."""
    draft = path.with_name(f".{path.name}.new")
    # A draft that a crash left may have another mode.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        if is_durable:
            stream.flush()
            os.fsync(stream.fileno())
    draft.replace(path)
    if is_durable:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def rewrite_file(path: Path, data: bytes) -> None:
    """Replace a file whose content always has the same length, or overwrite it where no new file can be made."""
    try:
        write_file(path, data, is_durable=False)
    except OSError:
        with path.open("r+b") as stream:
            stream.write(data)


def write_json(path: Path, document: Any, *, is_durable: bool = True) -> None:
    """Replace a file by a JSON document; unless durable, it survives a crash of the agent but not of the machine."""
    write_file(path, json.dumps(document, separators=(",", ":")).encode(), is_durable=is_durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no file, or no object in it."""
    try:
        document = json.loads(read_file(path, _MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def read_file(path: Path, limit: int, offset: int = 0) -> bytes:
    """At most so many bytes of a regular file, from an offset on; FileNotFoundError if there is none, or a link."""
    try:
        descriptor = _regular(os.open(path, _READING | os.O_NOFOLLOW))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EINVAL):
            raise FileNotFoundError(errno.ENOENT, "not a regular file", str(path)) from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        file.seek(offset)
        return file.read(limit)


def open_beneath(directory: int, path: str) -> int:
    """Open a regular file for reading whose path, with all links in it, stays beneath a directory; else OSError."""
    return _regular(_resolve_beneath(directory, path))


def _resolve_beneath(directory: int, path: str) -> int:
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path has no null character", path)
    how = (ctypes.c_uint64 * 3)(_READING, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    descriptor: int = _libc.syscall(
        _OPENAT2, directory, ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how), ctypes.sizeof(how)
    )
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number not in _NO_OPENAT2:
        raise OSError(number, os.strerror(number), path)
    return open_without_links(directory, path)


def open_without_links(directory: int, path: str, *, last: int = _READING) -> int:
    """Open what is at a path beneath a directory and has no link in it, with the flags `last`; else OSError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    descriptor = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    for number, part in enumerate(parts, 1):
        flags = last if number == len(parts) else os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _regular(descriptor: int) -> int:
    """A descriptor of a regular file; any other is closed, with OSError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor
