"""Branches: values made of leaves, merged leaf by leaf."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, ClassVar

from admin.core import names
from admin.core.fields.compounds import Record
from admin.core.fields.leaves import PRINTABLE, Field, Leaf, Leaves, Schema, known_keys, without_null
from admin.core.problems import (
    Invalid,
    Path,
    Problem,
    add_problem,
    dotted,
    invalid,
    quoted,
    raise_problems,
    repeated,
    shorten,
    unknown_problem,
)


@dataclass(frozen=True, kw_only=True)
class Branch(Field):
    """A value made of leaves. Null is refused: it could mean to unset every leaf or to inherit them."""

    is_inherited: bool = True  #: whether there may be one above that counts where this one is left out

    holds: ClassVar[type] = dict

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if value is None:
            ways = (
                "set a single field to null to unset it, or remove the line to inherit"
                if self.is_inherited
                else "or remove the line"
            )
            add_problem(problems, path, f"is left empty. Write what is below it, {ways}.")
            return {}
        return self.read_branch(value, path, problems)

    @abstractmethod
    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        """The normal form of a branch that is not null."""

    @abstractmethod
    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        """Every leaf of a value in normal form, with its path from here."""

    @abstractmethod
    def nest(self, leaves: Leaves) -> Any:
        """The normal form again, from its leaves."""

    def find(self, text: str, path: Path = ()) -> Path:
        """The path that a dotted text names; Invalid with the closest known words where there is none."""
        return (*path, text)  # of a free key, which may hold dots, so all that remains is the key

    def has_free_key(self, path: Path) -> bool:
        """Whether the last word of a leaf's path is a key that rows choose."""
        return True


@dataclass(frozen=True, kw_only=True)
class Section(Branch):
    """Named fields."""

    fields: Mapping[str, Field]
    exclusive: tuple[str, ...] = ()  #: at most one of these may be present
    also: Mapping[str, str] = dataclass_field(default_factory=dict)  #: other spellings that are accepted
    refused: Mapping[str, str] = dataclass_field(default_factory=dict)  #: names that have no meaning here, with why
    keeps_empty: bool = False  #: whether an empty branch in it counts; elsewhere it is the same as none

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            add_problem(problems, path, f"{quoted(value)} is not a mapping of fields.")
            return {}
        entries = known_keys(value, self.fields, path, problems, self.also, self.refused)
        both = [name for name in self.exclusive if name in entries]
        if len(both) > 1:
            add_problem(problems, (*path, both[1]), f"give either {' or '.join(both)}, not both.")
        read = {
            name: self.fields[name].read(entries[name], (*path, name), problems)
            for name in self.fields
            if name in entries
        }
        return {
            name: item
            for name, item in read.items()
            if item not in ({}, []) or self.keeps_empty or isinstance(self.fields[name], Leaf)
        }

    def shape(self) -> Schema:
        schema: Schema = {
            "type": "object",
            "properties": {name: item.schema() for name, item in self.fields.items()},
            "additionalProperties": False,
        }
        if self.exclusive:
            schema["not"] = {"required": list(self.exclusive)}
        return schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        for name, item in value.items():
            field = self.fields.get(name)
            if isinstance(field, Branch) and isinstance(item, field.holds):
                yield from (((name, *path), leaf) for path, leaf in field.leaves(item))
            elif field is not None:
                yield (name,), item

    def outline(self, value: Any) -> Hashable:
        if type(value) is not dict:
            return super().outline(value)
        fields = self.fields
        return tuple([(name, fields[name].outline(item) if name in fields else None) for name, item in value.items()])

    def worth(self, value: Any, path: Path = ()) -> Any:
        field = self.fields.get(path[0]) if path else None
        return value if field is None else field.worth(value, path[1:])

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        below: dict[str, Leaves] = {}
        for path, leaf in leaves.items():
            below.setdefault(path[0], {})[path[1:]] = leaf
        nested: dict[str, Any] = {}
        for name in self.fields if below else ():
            if name in below:
                field, inner = self.fields[name], below[name]
                is_leaf = () in inner  # a leaf, or a value stored when the field was declared as one
                nested[name] = field.nest(inner) if isinstance(field, Branch) and not is_leaf else inner[()]
        return nested

    def find(self, text: str, path: Path = ()) -> Path:
        head, dot, rest = text.partition(".")
        if dot and not rest:
            raise invalid(dotted((*path, shorten(head))), "is followed by a dot and nothing; name a field.")
        name = next((name for name in self.fields if head in (name, names.camel(name))), None)
        if name is None:
            raise Invalid(unknown_problem(dotted((*path, head)), "field", head, self.fields))
        field = self.fields[name]
        if isinstance(field, Branch):
            if not rest:
                raise invalid(dotted((*path, name)), "holds several fields: name one of them.")
            return field.find(rest, (*path, name))
        if rest:
            raise invalid(dotted((*path, name)), f"is a single value and has no field '{shorten(rest)}'.")
        return (*path, name)

    def has_free_key(self, path: Path) -> bool:
        field = self.fields.get(path[0])
        return isinstance(field, Branch) and field.has_free_key(path[1:])


@dataclass(frozen=True, kw_only=True)
class MapOf(Branch):
    """Free keys, each with a leaf of one type; merged key by key."""

    value: Leaf
    key_pattern: str = PRINTABLE
    key_rule: str = "text without control characters, at most 255"
    reserved: tuple[str, ...] = ()
    max_entries: int = 1024

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            add_problem(problems, path, f"{quoted(value)} is not a mapping of names to values.")
            return {}
        if len(value) > self.max_entries:
            add_problem(problems, path, f"has {len(value)} entries; the most is {self.max_entries}.")
            return {}
        return {key: self._read_entry(key, item, path, problems) for key, item in value.items()}

    def _read_entry(self, key: str, item: Any, path: Path, problems: list[Problem]) -> Any:
        self.check_key(key, path, problems)
        return self.value.read(item, (*path, key), problems)

    def check_key(self, key: str, path: Path, problems: list[Problem]) -> None:
        """Add a problem for a key that is ill-formed or reserved."""
        where = (*path, shorten(key))
        if not key or len(key) > 317 or not names.matches(self.key_pattern, key):
            add_problem(problems, where, f"'{shorten(key)}' is not allowed as a name: use {self.key_rule}.")
        elif key in self.reserved:
            add_problem(problems, where, "this name is filled in by the platform; choose another.")

    def shape(self) -> Schema:
        schema: Schema = {
            "type": "object",
            "additionalProperties": self.value.schema(),
            "maxProperties": self.max_entries,
            "propertyNames": {"pattern": f"^{self.key_pattern}$", "minLength": 1},
        }
        if self.reserved:
            schema["propertyNames"]["not"] = {"enum": list(self.reserved)}
        return schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        yield from (((key,), item) for key, item in value.items())

    def outline(self, value: Any) -> Hashable:
        if type(value) is not dict:
            return super().outline(value)
        return tuple([(key, item is None) for key, item in value.items()])

    def worth(self, value: Any, path: Path = ()) -> Any:
        return self.value.worth(value)

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        return {path[0]: leaf for path, leaf in leaves.items()}


@dataclass(frozen=True, kw_only=True)
class KeyedList(Branch):
    """A list whose entries are known by one of their fields; merged entry by entry.

    An entry whose `marker` is null unsets that key.
    """

    entry: Record
    key: str
    marker: str

    holds: ClassVar[type] = list
    max_entries: int = 1024

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
        if isinstance(value, dict) and set(self.entry.fields) == {self.key, self.marker}:
            value = [{self.key: key, self.marker: item} for key, item in value.items()]  # the short form, a map
        if not isinstance(value, list) or len(value) > self.max_entries:
            reason = f"give a list of at most {self.max_entries} entries, each with its {self.key}."
            add_problem(problems, path, reason)
            return []
        entries = [self._read_entry(item, (*path, str(index)), problems) for index, item in enumerate(value)]
        for key in repeated(entry[self.key] for entry in entries if entry.get(self.key) is not None):
            add_problem(problems, (*path, key), f"the {self.key} '{shorten(key)}' is listed twice.")
        return entries

    def _read_entry(self, item: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        unset = isinstance(item, dict) and any(
            item.get(spelling, self) is None for spelling in (self.marker, names.camel(self.marker))
        )
        if item is None:
            add_problem(problems, path, "null cannot stand in a list.")
        if not unset:
            return self.entry.read(item, path, problems) or {}
        entries = known_keys(item, self.entry.fields, path, problems)
        for name in entries.keys() - {self.key, self.marker}:
            add_problem(
                problems, (*path, name), f"stands beside {self.marker}: null, which unsets the entry; leave it out."
            )
        if entries.get(self.key) is None:
            add_problem(problems, (*path, self.key), "is missing.")
        key = self.entry.fields[self.key].read(entries.get(self.key), (*path, self.key), problems)
        return {self.key: key, self.marker: None}

    def shape(self) -> Schema:
        return {
            "type": "array",
            "items": without_null(self.entry.schema()),
            "maxItems": self.max_entries,
            "x-rainbow-keyed-by": self.key,
        }

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        for entry in value:
            rest = {name: item for name, item in entry.items() if name != self.key}
            yield (entry[self.key],), None if rest == {self.marker: None} else rest

    def outline(self, value: Any) -> Hashable:
        if type(value) is not list:
            return super().outline(value)
        return tuple([(entry[self.key], *entry, entry.get(self.marker, self) is None) for entry in value])

    def nest(self, leaves: Leaves) -> list[dict[str, Any]]:
        return [
            {self.key: path[0], **(leaf if isinstance(leaf, dict) else {self.marker: leaf})}
            for path, leaf in leaves.items()
        ]


def read(field: Field, value: Any, path: Path = ()) -> Any:
    """The normal form of a value, or Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = field.read(value, path, problems)
    raise_problems(problems)
    return normal
