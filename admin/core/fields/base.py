"""What leaves and branches have in common, and the words in which a wrong value is reported."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from admin.core import names
from admin.core.problems import Problem, shorten, unknown_fields

Path = tuple[str, ...]
Leaves = dict[Path, Any]
Schema = dict[str, Any]

#: Printable text: no control characters, which no setting needs and terminals and templates stumble over.
PRINTABLE = r"[^\x00-\x1f\x7f]*"


@lru_cache(maxsize=4096)
def dotted(path: Path) -> str:
    """A path as people write it."""
    return ".".join(path)


def add_problem(problems: list[Problem], path: Path, reason: str, near: tuple[str, ...] = ()) -> None:
    """Report what is wrong with the field at a path."""
    problems.append(Problem(field=dotted(path), reason=reason, closest=near))


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One named value of a payload or of the configuration."""

    description: str = ""

    @abstractmethod
    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its normal form; whatever is wrong with it is added to the problems."""

    @abstractmethod
    def schema(self) -> Schema:
        """JSON Schema of the value."""

    def outline(self, value: Any) -> Hashable:
        """A key that two values share exactly when they set the same leaves and unset the same leaves."""
        return value is None


def quoted(value: Any) -> str:
    """A value as a sentence shows it: text in quotes, so that '5' and 5 can be told apart."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{shorten(value)}'"
        case int() | float():
            return shorten(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case dt.date():
            return f"the time '{shorten(value.isoformat())}'"
    return f"a value of type {type(value).__name__}"


def known_keys(
    document: Mapping[str, Any],
    known: Mapping[str, Any],
    path: Path,
    problems: list[Problem],
    also: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The entries of a document under their canonical names; unknown and repeated names become problems."""
    entries: dict[str, Any] = {}
    unknown: list[str] = []
    canonical: dict[str, str] | None = None
    for key, value in document.items():
        name = key if key in known else None
        if name is None:
            if canonical is None:
                canonical = {names.camel(name): name for name in known} | dict(also or {})
            name = canonical.get(key)
        if name is None:
            unknown.append(key)
        elif name in entries:
            add_problem(problems, (*path, name), "is given twice, in two spellings.")
        else:
            entries[name] = value
    problems.extend(unknown_fields(unknown, known, dotted(path)))
    return entries
