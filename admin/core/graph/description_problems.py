"""Problems of descriptions: as many as are reported, after which reading stops."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from admin.core.problems import Path, Problem, dotted, shorten, unknown_problem

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

    def add_unknown(self, where: Path, names: Iterable[Any], known: Collection[str], remedy: str = "") -> None:
        """A problem for each of some keys that its format does not have there."""
        for name in [str(name) for name in names if name not in known]:
            self.add((*where, name), unknown_problem("", "field", name, known).reason + remedy)

    def stop_if_any(self) -> None:
        if self.all:
            raise Stop
