"""Which files a set of documents is read from: files, directories with all below them, or stdin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.words import count, listed

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 20_000


def find_files(paths: Sequence[str]) -> list[str]:
    """
    The files that paths stand for, directories in the order of their names.

    In a directory hidden files and directories are passed over, and anything else that is no document is refused, so
    that a file with a mistyped name is not left out in silence. A file named itself may be called anything.
    """
    if list(paths).count("-") > 1:
        raise InvalidInput("stdin can be read once: keep one `-f -`.")
    files: list[str] = []
    strays: list[str] = []
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            files.append(path)
            continue
        before = len(files)
        for file in _below(Path(path), ()):
            is_document = file.suffix.lower() in SUFFIXES and file.is_file()
            (files if is_document else strays).append(str(file))
            if len(files) + len(strays) > MAX_FILES:
                raise InvalidFile(f"{path} holds more than {MAX_FILES} files: apply its parts one by one.")
        if len(files) == before and not strays:
            raise InvalidFile(f"{path} holds no documents: no file below it ends in {listed(SUFFIXES, 'or')}.")
    if strays:
        raise InvalidFile(
            f"{count(len(strays), 'file')} that cannot be documents: nothing was read. Move them elsewhere, put a dot "
            f"before their names, or name the files you mean with -f.",
            details=[{"position": path, "reason": _why(Path(path))} for path in strays],
        )
    return files


def _below(directory: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(directory)
    if real in above:
        raise InvalidFile(f"{directory} is a link to a directory above it: remove the link.")
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise InvalidFile(f"{directory} cannot be read: {error.strerror}.") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(entry, (*above, real))
        else:
            yield entry


def _why(path: Path) -> str:
    if path.suffix.lower() not in SUFFIXES:
        return f"a document's name ends in {listed(SUFFIXES, 'or')}"
    return "not a regular file" if path.exists() else "a broken link"
