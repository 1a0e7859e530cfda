"""Directories of an export: one file a scope; files of scopes that are no longer set are removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ctl.client.errors import InvalidInput
from ctl.files.exports import MARK


def write_directory(directory: Path, files: Mapping[str, str], *, is_forced: bool) -> int:
    """
    Write files below a directory and answer how many of an earlier export were removed.

    A directory that is not empty is refused unless forced. Then only files that begin with the mark of an export are
    written over or removed; hidden files and directories are never looked at.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise InvalidInput(f"{directory} is not a directory.")
        before = list(_below(directory)) if directory.is_dir() else []
        if before and not is_forced:
            raise InvalidInput(f"{directory} is not empty: use --force, or choose another directory.")
        ours = {path for path in before if _is_export(path)}
        targets = {directory / name: text for name, text in files.items()}
        for path in targets:
            if path.exists() and path not in ours:
                raise InvalidInput(f"{path} exists and no export wrote it: move it elsewhere. Nothing was written.")
        for path, text in targets.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        return _remove(directory, ours - set(targets))
    except OSError as error:
        raise InvalidInput(f"{error.filename or directory} cannot be written: {error.strerror}.") from None


def _remove(directory: Path, stale: set[Path]) -> int:
    for path in stale:
        path.unlink()
        for folder in path.parents:
            if folder == directory or any(folder.iterdir()):
                break
            folder.rmdir()
    return len(stale)


def _below(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
        else:
            yield entry


def _is_export(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline(len(MARK) + 2).rstrip(b"\r\n") == MARK.encode()
