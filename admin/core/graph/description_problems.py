"""Problems of descriptions: as many as are reported, after which reading stops."""

from __future__ import annotations

from collections.abc import Iterable

from admin.core.problems import Path, Problem, dotted, shorten

#: Problems that are reported; a large document that is wrong throughout would have a million.
MOST_PROBLEMS = 20


class Stop(Exception):
    """Enough problems were found."""


class DescriptionProblems:
    """The problems of a description, up to the most that are reported."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Problem] = []

    def add(self, where: Iterable[str], reason: str) -> None:
        self.all.append(Problem(field=dotted((*self.path, *map(shorten, where))), reason=reason))
        if len(self.all) >= MOST_PROBLEMS:
            raise Stop

    def stop_if_any(self) -> None:
        if self.all:
            raise Stop
