"""Compound leaves: lists, mappings and records that are set, unset or inherited as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from admin.core.fields.leaves import Field, Leaf, Schema, known_keys, not_null
from admin.core.problems import Path, Problem, add_problem, shorten

Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class _Collection(Leaf):
    """Entries of one type."""

    max_problems: int | None = None  #: entries are read until so many problems are found; None reads them all

    def _read_entries(
        self, leaf: Leaf, entries: Sequence[tuple[Key, Any]], most: int, path: Path, problems: list[Problem]
    ) -> Iterator[tuple[Key, Any]]:
        """The entries in their normal form, up to the one that makes the problems too many."""
        if len(entries) > most:
            raise ValueError(f"has {len(entries)} entries; the most is {most}")
        before = len(problems)
        for key, value in entries:
            where = (*path, shorten(key))
            if value is None:
                add_problem(problems, where, "null cannot stand in a list or map: leave it out, or put it in quotes.")
                yield key, None
            else:
                yield key, leaf.read(value, where, problems)
            if self.max_problems is not None and len(problems) - before >= self.max_problems:
                return


@dataclass(frozen=True, kw_only=True)
class ListOf(_Collection):
    """A list that is replaced as a whole."""

    item: Leaf
    min_items: int = 1
    max_items: int = 256
    unique: bool = True

    json_type = "array"
    remedy = "give a list, such as [first, second]"

    @property
    def phrase(self) -> str:
        return f"a list, each entry {self.item.phrase}"

    @cached_property
    def _entry(self) -> Leaf:
        return replace(self.item, nullable=False)

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> list[Any]:
        if not isinstance(value, list):
            raise self.wrong_type()
        if len(value) < self.min_items:
            raise ValueError(f"has {len(value)} entries; give {self.min_items} to {self.max_items}")
        before = len(problems)
        entries = self._read_entries(self._entry, list(enumerate(value)), self.max_items, path, problems)
        items = [item for _, item in entries]
        if self.unique and len(problems) == before and any(item in items[:index] for index, item in enumerate(items)):
            add_problem(problems, path, "the same entry is listed twice: remove one.")
        return items

    def details(self) -> Schema:
        details: Schema = {
            "items": self._entry.schema(),
            "minItems": self.min_items,
            "maxItems": self.max_items,
        }
        return details | {"uniqueItems": True} if self.unique else details


@dataclass(frozen=True, kw_only=True)
class DictOf(_Collection):
    """A mapping of free keys to values of one type that is replaced as a whole."""

    key: Leaf
    value: Leaf
    max_entries: int

    json_type = "object"
    remedy = "give a mapping of names to values"

    @property
    def phrase(self) -> str:
        return f"a map, each value {self.value.phrase}"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong_type()
        for key in value:
            try:
                self.key.parse(key, path, problems)
            except ValueError as error:
                raise ValueError(f"has a name that {error}") from None
        return dict(self._read_entries(self.value, list(value.items()), self.max_entries, path, problems))

    def details(self) -> Schema:
        return {
            "additionalProperties": replace(self.value, nullable=False).schema(),
            "maxProperties": self.max_entries,
            "x-rainbow-leaf": True,
        }


@dataclass(frozen=True, kw_only=True)
class Record(Leaf):
    """Several values that only make sense together, so that none is inherited alone."""

    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()
    drop_empty: bool = False  #: an empty text means "absent" here, as in Flyte's files

    json_type = "object"
    phrase = "a mapping"

    @cached_property
    def _given(self) -> dict[str, Field]:
        """The fields as they are read where they are not null, which here is the same as absent."""
        return {name: not_null(item) for name, item in self.fields.items()}

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong_type()
        entries = known_keys(value, self.fields, path, problems)
        if self.drop_empty:
            entries = {name: item for name, item in entries.items() if item not in ("", None)}
        record = {
            name: self._given[name].read(item, (*path, name), problems)
            for name, item in entries.items()
            if item is not None
        }
        for name in self.required:
            if entries.get(name) is None:
                add_problem(problems, (*path, name), "is missing.")
        if not any(item is not None for item in entries.values()):
            raise ValueError(f"says nothing: give at least one of {', '.join(self.fields)}")
        return {name: item for name, item in record.items() if item is not None}

    def details(self) -> Schema:
        details: Schema = {
            "properties": {name: item.schema() for name, item in self.fields.items()},
            "additionalProperties": False,
            "minProperties": 1,
            "x-rainbow-leaf": True,
        }
        return details | {"required": list(self.required)} if self.required else details


@dataclass(frozen=True, kw_only=True)
class FreeForm(Leaf):
    """A JSON object whose contents are not checked here."""

    json_type = "object"
    phrase = "a mapping"

    def parse(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong_type()
        return value

    def details(self) -> Schema:
        return {"additionalProperties": True, "x-rainbow-leaf": True}
