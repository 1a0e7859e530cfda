"""RAINBOW_* variables: single configuration keys, set by the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from admin.configuration.keys import CONFIGURATION
from admin.core import names
from admin.core.fields.branches import Section
from admin.core.fields.compounds import ListOf
from admin.core.fields.leaves import Boolean, Field, Integer, Leaf
from admin.core.problems import Invalid, Path, unknown_problem
from admin.core.quantities import is_whole_number

#: The sections whose single values the environment may set; the rest are lists and maps, which belong in a file.
_SECTIONS = (
    *("server", "openid", "limits", "database", "resourcemanager", "logging"),
    *("attributes", "agents", "retention", "audit", "console"),
)
_PREFIXES = tuple(f"RAINBOW_{section.upper()}_" for section in _SECTIONS)


@cache
def environment_variables() -> Mapping[str, tuple[Path, Leaf]]:
    """The variables that set configuration keys: their key path and type."""
    variables: dict[str, tuple[Path, Leaf]] = {}
    for section in _SECTIONS:
        for path, leaf in _single_values(CONFIGURATION.fields[section], (section,)):
            variables["RAINBOW_" + "_".join(map(names.snake, path)).upper()] = (path, leaf)
    return MappingProxyType(variables)


def _single_values(field: Field, path: Path) -> Iterator[tuple[Path, Leaf]]:
    if isinstance(field, Section):
        for name, inner in field.fields.items():
            yield from _single_values(inner, (*path, name))
    elif isinstance(field, Leaf) and not isinstance(field, ListOf):
        yield path, field


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that the environment sets; Invalid for a variable that looks like ours and is not known."""
    variables = environment_variables()
    document: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIXES):
            continue
        if variable not in variables:
            raise Invalid(unknown_problem(variable, "variable", variable, variables))
        path, leaf = variables[variable]
        section = document
        for part in path[:-1]:
            section = section.setdefault(part, {})
        section[path[-1]] = _parse(leaf, text)
    return document


def _parse(leaf: Leaf, text: str) -> Any:
    if isinstance(leaf, Integer) and is_whole_number(text.removeprefix("-")):
        return int(text)
    if isinstance(leaf, Boolean) and text in ("true", "false"):
        return text == "true"
    return text
