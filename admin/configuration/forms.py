"""Fields of the configuration that may be written in several forms, mostly because Flyte's files do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admin.core.fields import Boolean, Leaf, MapOf, Record, Schema
from admin.core.problems import Path, Problem, add_problem


@dataclass(frozen=True, kw_only=True)
class NamedRecord(Record):
    """A record that may also be written as its id alone."""

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        return super().parse({"id": value} if isinstance(value, str) else value, path, problems)


@dataclass(frozen=True, kw_only=True)
class TemplateData(Leaf):
    """Template variables, as `name: text` or in Flyte's form `name: {value: text}`; a list of such maps will do."""

    phrase = "a mapping of variables"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(entry, dict) for entry in entries):
            raise self.wrong_type()
        merged = {name: item for entry in entries for name, item in entry.items()}
        return {name: self._text(item, (*path, name), problems) for name, item in merged.items()}

    def _text(self, item: Any, path: Path, problems: list[Problem]) -> str:
        if isinstance(item, dict) and set(item) == {"value"}:
            item = item["value"]
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            reason = "is not text: write name: text, or name: {value: text}; valueFrom is not supported."
            add_problem(problems, path, reason)
        return str(item)

    def details(self) -> Schema:
        return {}


@dataclass(frozen=True, kw_only=True)
class ListedMap(MapOf):
    """A map that may also be written as a list of maps, as Flyte's files do to keep upper case."""

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            value = {name: item for entry in value for name, item in entry.items()}
        return super().read_branch(value, path, problems)


@dataclass(frozen=True, kw_only=True)
class ByDomain(Leaf):
    """One boolean for every domain, or a mapping of domains to booleans."""

    json_type = "boolean"
    phrase = "a boolean or a mapping of domains to booleans"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> bool | dict[str, bool]:
        if isinstance(value, dict):
            return {domain: Boolean().read(item, (*path, str(domain)), problems) for domain, item in value.items()}
        if not isinstance(value, bool):
            raise self.wrong_type()
        return value

    def details(self) -> Schema:
        return {"type": ["boolean", "object"], "additionalProperties": {"type": "boolean"}}
