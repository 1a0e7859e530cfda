"""What every field is, leaf or branch, and what reading one may find wrong."""

from __future__ import annotations

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


def fault(problems: list[Problem], path: Path, reason: str, near: tuple[str, ...] = ()) -> None:
    """Note what is wrong with the field at a path."""
    problems.append(Problem(field=dotted(path), reason=reason, closest=near))


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One named value of a payload or of the configuration."""

    description: str = ""

    @abstractmethod
    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The value in its one normal form; what is wrong with it is added to the problems."""

    @abstractmethod
    def schema(self) -> Schema:
        """JSON Schema of the value."""

    def outline(self, value: Any) -> Hashable:
        """What values have in common that set the same leaves and unset the same ones."""
        return value is None


def quoted(value: Any) -> str:
    """A value as it may stand in a sentence."""
    return f"'{shorten(value)}'" if isinstance(value, str | int | float) else f"a {_json_name(value)}"


def _json_name(value: Any) -> str:
    kinds = {dict: "mapping", list: "list", bool: "boolean", int: "number", float: "number", str: "text"}
    return kinds.get(type(value), "null")


def known_keys(
    given: Mapping[str, Any],
    known: Mapping[str, Any],
    path: Path,
    problems: list[Problem],
    also: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What was given, under its canonical names; unknown and doubled names become problems."""
    found: dict[str, Any] = {}
    unknown: list[str] = []
    canonical: dict[str, str] | None = None
    for key, value in given.items():
        name = key if key in known else None
        if name is None:
            if canonical is None:
                canonical = {names.camel(name): name for name in known} | dict(also or {})
            name = canonical.get(key)
        if name is None:
            unknown.append(key)
        elif name in found:
            fault(problems, (*path, name), "is given twice, in two spellings.")
        else:
            found[name] = value
    problems.extend(unknown_fields(unknown, known, dotted(path)))
    return found
