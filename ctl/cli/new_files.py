"""Files that a command writes: an existing one is replaced only when that is confirmed or forced."""

from __future__ import annotations

from pathlib import Path

from ctl.cli.prompts import confirm, is_terminal
from ctl.client.contexts import write_private
from ctl.client.errors import InvalidInput


def write_new(path: Path, text: str, *, is_forced: bool) -> None:
    """Write a file; one that exists is replaced only when that is confirmed or forced."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a directory.")
    if path.exists() and not is_forced:
        if not is_terminal():
            raise InvalidInput(f"{path} exists: use --force to overwrite it.")
        confirm(f"{path} exists. Overwrite it?", f"{path} was left as it is.")
    write_private(path, text)
