"""Files that survive a crash: replaced as a whole or not at all, and synced to disk where the machine may crash too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


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


def write_json(path: Path, document: Any, *, is_durable: bool = True) -> None:
    """Replace a file by a JSON document; unless durable, it survives a crash of the agent but not of the machine."""
    write_file(path, json.dumps(document, separators=(",", ":")).encode(), is_durable=is_durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no file, or no object in it."""
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return document if isinstance(document, dict) else None
