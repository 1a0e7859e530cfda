"""Comparisons: where two effective values of a kind differ, leaf by leaf, with the origin on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from admin.core.problems import dotted
from admin.core.settings.field_revisions import FieldsByRow, RowVersion, with_revision
from admin.core.settings.kinds import Kind


class Leaf(NamedTuple):
    """A leaf on one side."""

    state: str  #: set, unset, or absent where no level says anything
    value: Any = None
    origin: Mapping[str, Any] | None = None  #: as trails have it
    worth: Any = None  #: the same for values that are only written otherwise


@dataclass(frozen=True, kw_only=True)
class LeafPair:
    """A leaf on both sides."""

    kind: str
    path: str
    first: Leaf
    second: Leaf

    @property
    def rows(self) -> set[RowVersion]:
        """Those that set it on one of the sides."""
        origins = (side.origin for side in (self.first, self.second) if side.origin)
        rows = (RowVersion.of_origin(self.kind, origin) for origin in origins)
        return {row for row in rows if row is not None}

    def with_revisions(self, fields: FieldsByRow) -> LeafPair:
        """The same with the revisions that set it on both sides."""

        def leaf(side: Leaf) -> Leaf:
            origin = side.origin and with_revision(self.kind, self.path, side.origin, fields)
            return side._replace(origin=origin)

        return replace(self, first=leaf(self.first), second=leaf(self.second))

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same value, wherever it is set; to unset a leaf is to have none."""
        return _worth(self.first) == _worth(self.second)


#: What a kind is worth that was declared later.
_NOTHING: Mapping[str, Any] = {"value": {}, "origins": {}, "unset": {}}


def pair_values(
    kinds: Sequence[Kind], first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> Iterator[LeafPair]:
    """Every leaf of two lists of effective values; of a kind that is no longer declared, each leaf that it had."""
    before, after = ({value["resource_type"]: value for value in values} for values in (first, second))
    for kind in kinds:
        yield from pair_leaves(kind, before.pop(kind.name, _NOTHING), after.pop(kind.name, _NOTHING))
    for name in dict.fromkeys((*before, *after)):
        yield from _pair(name, *(_leaves_of_undeclared(side.get(name, _NOTHING)) for side in (before, after)))


def pair_leaves(kind: Kind, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[LeafPair]:
    """Every leaf that one of two effective values has, as trails have these."""
    return _pair(kind.name, _leaves(kind, first), _leaves(kind, second))


def _pair(kind: str, first: Mapping[str, Leaf], second: Mapping[str, Leaf]) -> Iterator[LeafPair]:
    absent = Leaf("absent")
    for path in dict.fromkeys((*first, *second)):
        yield LeafPair(kind=kind, path=path, first=first.get(path, absent), second=second.get(path, absent))


def _leaves_of_undeclared(effective: Mapping[str, Any]) -> dict[str, Leaf]:
    """The leaves that a kind had which is no longer declared."""
    origins = effective["origins"]
    return {
        path: Leaf("set", value, origins.get(path), value)
        for path, value in _undeclared_leaves(effective["value"], origins)
    }


def _leaves(kind: Kind, effective: Mapping[str, Any]) -> dict[str, Leaf]:
    origins = effective["origins"]
    leaves = {
        (name := dotted(path)): Leaf("set", value, origins.get(name), kind.worth(path, value))
        for path, value in kind.leaves(effective["value"]).items()
    }
    undeclared = {name: value for name, value in effective["value"].items() if name not in kind.payload.fields}
    leaves |= {
        path: Leaf("set", value, origins.get(path), value) for path, value in _undeclared_leaves(undeclared, origins)
    }
    return leaves | {path: Leaf("unset", None, origin) for path, origin in effective["unset"].items()}


def _undeclared_leaves(
    value: Mapping[str, Any], origins: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any]]:
    """The leaves of fields that are no longer declared, by the paths that have an origin."""
    for name, part in value.items():
        path = f"{above}{name}"
        if path not in origins and isinstance(part, dict) and part:
            yield from _undeclared_leaves(part, origins, f"{path}.")
        else:
            yield path, part


def _worth(leaf: Leaf) -> tuple[bool, Any]:
    return leaf.state == "set", leaf.worth
