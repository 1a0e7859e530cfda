"""Shapes: which leaves a payload sets and which it unsets. Of a million payloads there are few.

Whatever an answer says besides values follows from shapes, and so is worked out once for all rows that share them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from admin.core.fields import Path
from admin.core.json_text import json_text, json_value
from admin.core.settings.kinds import Kind, Kinds, Payload

#: So many shapes are told apart; rows beyond them are looked at when they are asked for.
_MOST = 20_000

#: What one scope has, row by row: the shape of its payload, its version, and the payload, both as JSON. One flat tuple,
#: for a million rows must fit.
Said = tuple[Any, ...]
WIDTH = 3


class Shape:
    """What payloads of one kind set and unset."""

    __slots__ = ("kind", "paths", "sample", "unset")

    def __init__(self, kind: Kind, sample: Payload | None) -> None:
        self.kind = kind
        self.sample = sample  #: one of them; None where it is not known what they set
        leaves = {} if sample is None else kind.leaves(sample)
        self.paths: tuple[Path, ...] = tuple(leaves)
        self.unset = frozenset(path for path, value in leaves.items() if value is None)


class Shapes:
    """The shapes of one admin's payloads."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._known: dict[tuple[str, Hashable], Shape] = {}
        self._others = {kind.name: Shape(kind, None) for kind in kinds}

    def read(self, kind_name: str, text: str) -> tuple[Shape, bytes] | None:
        """The shape of a stored payload, and the payload as answers write it; None for a kind that is not known."""
        return self.of(kind_name, json_value(text))

    def of(self, kind_name: str, payload: Payload) -> tuple[Shape, bytes] | None:
        """The same of a payload."""
        if kind_name not in self._kinds:
            return None
        kind = self._kinds[kind_name]
        key = kind_name, kind.payload.outline(payload)
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) < _MOST:
                shape = self._known[key] = Shape(kind, payload)
            else:
                shape = self._others[kind_name]
        return shape, bytes(memoryview(json_text(payload)))  # a copy: new texts have room for kilobytes more


def rows_of(said: Said) -> Iterator[tuple[Shape, bytes, bytes]]:
    """What a scope has: shapes, versions and payloads."""
    parts = iter(said)
    return zip(parts, parts, parts, strict=True)


def looked_at(said: Said) -> Said:
    """The same, with every shape known."""
    seen: list[Any] = []
    for shape, version, payload in rows_of(said):
        seen += (Shape(shape.kind, json_value(payload)) if shape.sample is None else shape, version, payload)
    return tuple(seen)
