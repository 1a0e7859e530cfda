"""Branches: values made of leaves, merged leaf by leaf."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from admin.core import names
from admin.core.fields.base import PRINTABLE, Field, Leaves, Path, Schema, dotted, fault, known_keys, quoted
from admin.core.fields.leaves import Leaf, Record, without_null
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word


@dataclass(frozen=True, kw_only=True)
class Branch(Field):
    """A value made of leaves; null on it is refused, since it could mean too many things."""

    holds: ClassVar[type] = dict

    def read(self, value: Any, path: Path, problems: list[Problem]) -> Any:
        if value is None:
            fault(
                problems,
                path,
                "is left empty. Write what is below it, set a single field to null to unset it, "
                "or remove the line to inherit.",
            )
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

    @abstractmethod
    def find(self, text: str, path: Path = ()) -> Path:
        """The path a dotted text names; Invalid with the nearest right word where there is none."""


@dataclass(frozen=True, kw_only=True)
class Section(Branch):
    """Named fields."""

    fields: Mapping[str, Field]
    exclusive: tuple[str, ...] = ()  #: at most one of these may be given
    also: Mapping[str, str] = field(default_factory=dict)  #: other spellings that are accepted

    def read_branch(self, value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, dict):
            fault(problems, path, f"{quoted(value)} is not a mapping of fields.")
            return {}
        given = known_keys(value, self.fields, path, problems, self.also)
        both = [name for name in self.exclusive if name in given]
        if len(both) > 1:
            fault(problems, (*path, both[1]), f"give either {' or '.join(both)}, not both.")
        read = {
            name: self.fields[name].read(given[name], (*path, name), problems) for name in self.fields if name in given
        }
        return {
            name: item for name, item in read.items() if item not in ({}, []) or isinstance(self.fields[name], Leaf)
        }

    def schema(self) -> Schema:
        schema: Schema = {
            "type": "object",
            "properties": {name: item.schema() for name, item in self.fields.items()},
            "additionalProperties": False,
        }
        if self.exclusive:
            schema["not"] = {"required": list(self.exclusive)}
        return schema | {"description": self.description} if self.description else schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        for name, item in value.items():
            known = self.fields.get(name)
            if isinstance(known, Branch) and isinstance(item, known.holds):
                yield from (((name, *path), leaf) for path, leaf in known.leaves(item))
            elif known is not None:
                yield (name,), item

    def outline(self, value: Any) -> Hashable:
        if type(value) is not dict:
            return super().outline(value)
        fields = self.fields
        return tuple([(name, fields[name].outline(item) if name in fields else None) for name, item in value.items()])

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        below: dict[str, Leaves] = {}
        for path, leaf in leaves.items():
            below.setdefault(path[0], {})[path[1:]] = leaf
        nested: dict[str, Any] = {}
        for name in self.fields if below else ():
            if name in below:
                known, mine = self.fields[name], below[name]
                is_whole = () in mine  # a leaf, or a value stored when the field was declared as one
                nested[name] = known.nest(mine) if isinstance(known, Branch) and not is_whole else mine[()]
        return nested

    def find(self, text: str, path: Path = ()) -> Path:
        head, dot, rest = text.partition(".")
        if dot and not rest:
            raise Invalid(
                Problem(field=dotted((*path, shorten(head))), reason="is followed by a dot and nothing; name a field.")
            )
        name = next((name for name in self.fields if head in (name, names.camel(name))), None)
        if name is None:
            reason = unknown_word("field", head, self.fields)
            raise Invalid(Problem(field=dotted((*path, head)), reason=reason, closest=closest(head, self.fields)))
        known = self.fields[name]
        if isinstance(known, Branch):
            if not rest:
                reason = "holds several fields: name one of them."
                raise Invalid(Problem(field=dotted((*path, name)), reason=reason))
            return known.find(rest, (*path, name))
        if rest:
            raise Invalid(
                Problem(field=dotted((*path, name)), reason=f"has no parts, so '{shorten(rest)}' is too much.")
            )
        return (*path, name)


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
            fault(problems, path, f"{quoted(value)} is not a mapping of names to values.")
            return {}
        if len(value) > self.max_entries:
            reason = f"has {len(value)} entries; the most is {self.max_entries}."
            fault(problems, path, reason)
            return {}
        return {key: self._read_entry(key, item, path, problems) for key, item in value.items()}

    def _read_entry(self, key: str, item: Any, path: Path, problems: list[Problem]) -> Any:
        where = dotted((*path, shorten(key)))
        if not key or len(key) > 317 or not names.matches(self.key_pattern, key):
            problems.append(
                Problem(field=where, reason=f"'{shorten(key)}' is not allowed as a name: use {self.key_rule}.")
            )
        elif key in self.reserved:
            problems.append(Problem(field=where, reason="this name is filled in by the platform; choose another."))
        return self.value.read(item, (*path, key), problems)

    def schema(self) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.value.schema()}
        schema |= {
            "maxProperties": self.max_entries,
            "propertyNames": {"pattern": f"^{self.key_pattern}$", "minLength": 1},
        }
        if self.reserved:
            schema["propertyNames"]["not"] = {"enum": list(self.reserved)}
        return schema | {"description": self.description} if self.description else schema

    def leaves(self, value: Any) -> Iterator[tuple[Path, Any]]:
        yield from (((key,), item) for key, item in value.items())

    def outline(self, value: Any) -> Hashable:
        if type(value) is not dict:
            return super().outline(value)
        return tuple([(key, item is None) for key, item in value.items()])

    def nest(self, leaves: Leaves) -> dict[str, Any]:
        return {path[0]: leaf for path, leaf in leaves.items()}

    def find(self, text: str, path: Path = ()) -> Path:
        return (*path, text)  # a key may hold dots, so all that remains is the key


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
            fault(problems, path, reason)
            return []
        entries = [self._read_entry(item, (*path, str(index)), problems) for index, item in enumerate(value)]
        keys = [entry[self.key] for entry in entries if entry.get(self.key) is not None]
        for key in {key for key in keys if keys.count(key) > 1}:
            fault(problems, (*path, key), f"the {self.key} '{shorten(key)}' is listed twice.")
        return entries

    def _read_entry(self, item: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
        unset = isinstance(item, dict) and any(
            item.get(spelling, self) is None for spelling in (self.marker, names.camel(self.marker))
        )
        if item is None:
            fault(problems, path, "null cannot stand in a list.")
        if not unset:
            return self.entry.read(item, path, problems) or {}
        given = known_keys(item, self.entry.fields, path, problems)
        for name in given.keys() - {self.key, self.marker}:
            fault(problems, (*path, name), f"stands beside {self.marker}: null, which unsets the entry; leave it out.")
        if given.get(self.key) is None:
            fault(problems, (*path, self.key), "is missing.")
        key = self.entry.fields[self.key].read(given.get(self.key), (*path, self.key), problems)
        return {self.key: key, self.marker: None}

    def schema(self) -> Schema:
        entry = without_null(self.entry.schema())
        schema: Schema = {
            "type": "array",
            "items": entry,
            "maxItems": self.max_entries,
            "x-rainbow-keyed-by": self.key,
        }
        return schema | {"description": self.description} if self.description else schema

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

    def find(self, text: str, path: Path = ()) -> Path:
        return (*path, text)


def read(description: Branch, value: Any) -> Any:
    """The normal form of a whole value, or Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = description.read(value, (), problems)
    if problems:
        raise Invalid(*problems)
    return normal
