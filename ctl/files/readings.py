"""Reading many documents from many files: every problem of all of them is reported at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import yaml

from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.words import count, listed
from ctl.client.yaml_files import MIB, Problem, Source, compose_all, read_source

MAX_BYTES = 32 * MIB
MAX_DOCUMENTS = 20_000
MAX_FILES = 20_000
SUFFIXES = (".yaml", ".yml", ".json")


class LocatedDocument(Protocol):
    """A document that knows what it is about and where it stands."""

    @property
    def identity(self) -> Hashable:
        """What no two documents of a set may share."""

    @property
    def title(self) -> str:
        """What it is about, in words."""

    @property
    def place(self) -> str:
        """Where it starts: `settings.yaml:12:1`."""


Item = TypeVar("Item", bound=LocatedDocument)

#: One document of the file of that name, and the problems with it.
Convert = Callable[[yaml.MappingNode, str], tuple[Item | None, list[Problem]]]


class DocumentReader(Generic[Item]):
    """Gathers documents and problems over several files."""

    def __init__(self, convert: Convert[Item]) -> None:
        self._convert = convert
        self._items: list[Item] = []
        self._details: list[dict[str, Any]] = []

    def read_all(self, paths: Sequence[str]) -> list[Item]:
        """Every document that files, directories and stdin hold."""
        for path in find_files(paths):
            try:
                self._add(read_source(path, MAX_BYTES))
            except InvalidFile as error:
                if not error.details:
                    raise
                self._details += error.details
        return self._finish()

    def parse(self, source: Source) -> list[Item]:
        """Every document of one text."""
        self._add(source)
        return self._finish()

    def _add(self, source: Source) -> None:
        try:
            nodes, problems = compose_all(source)
        except InvalidFile as error:
            self._details += error.details
            return
        if not nodes and not problems:
            problems.append(Problem(line=1, column=1, reason="the file holds no document: write one, or remove it"))
        if len(self._items) + len(nodes) > MAX_DOCUMENTS:
            raise InvalidFile(f"More than {MAX_DOCUMENTS} documents: split the set and send its parts one by one.")
        for node in nodes:
            item, item_problems = self._convert(node, source.name)
            problems += item_problems
            if item is not None and not item_problems:
                self._items.append(item)
        if problems:
            self._details += source.refuse(problems).details

    def _finish(self) -> list[Item]:
        """The documents, if there is no problem with any of them."""
        self._details += _duplicates(self._items)
        if self._details:
            places = [str(detail["position"]).rsplit(":", 2)[0] for detail in self._details]
            files = list(dict.fromkeys(places))
            subject = f"{files[0]} cannot be used" if len(files) == 1 else f"{len(files)} files cannot be used"
            raise InvalidFile(
                f"{subject}: {count(len(self._details), 'problem')}. Nothing was sent.", details=self._details
            )
        return self._items


def _duplicates(items: Iterable[LocatedDocument]) -> list[dict[str, Any]]:
    seen: dict[Hashable, LocatedDocument] = {}
    details = []
    for item in items:
        first = seen.setdefault(item.identity, item)
        if first is not item:
            reason = f"{item.title} is given twice: first at {first.place}. Keep one of the two"
            details.append({"position": item.place, "reason": reason})
    return details


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
