"""Shapes: which leaves a payload sets and which it unsets. A million payloads have few different shapes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from admin.core.json_text import json_text, json_value
from admin.core.settings.kinds import Kind, Kinds, Payload

#: The rows of one scope, each as five entries of one flat tuple, so that a million rows fit into memory: the shape of
#: the payload, the version and the payload as JSON, and when and by whom it was changed, of which answers here tell
#: nothing.
PackedRows = tuple[Any, ...]
WIDTH = 5


class Shape:
    """What payloads of one kind set and unset."""

    __slots__ = ("kind", "sample")

    def __init__(self, kind: Kind, sample: Payload | None) -> None:
        self.kind = kind
        self.sample = sample  #: one payload of this shape; None for payloads whose shapes are not known


class Shapes:
    """The shapes of one admin's payloads; beyond `most` of them, shapes are computed when their rows are read."""

    def __init__(self, kinds: Kinds, most: int = 20_000) -> None:
        self._kinds = kinds
        self._most = most
        self._known: dict[tuple[str, Hashable], Shape] = {}
        self._unknown = {kind.name: Shape(kind, None) for kind in kinds}

    def read(self, kind_name: str, text: str) -> tuple[Shape, bytes] | None:
        """The shape of a stored payload, and the payload as answers write it; None for a kind that is not known."""
        return self.of(kind_name, json_value(text))

    def of(self, kind_name: str, payload: Payload) -> tuple[Shape, bytes] | None:
        """The same for a payload that is not text."""
        if kind_name not in self._kinds:
            return None
        kind = self._kinds[kind_name]
        # Of rows that all hold, the values decide which one is the tightest.
        values = json_text(payload) if kind.is_quota else b""
        key = kind_name, (kind.payload.outline(payload), values)
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) < self._most:
                shape = self._known[key] = Shape(kind, payload)
            else:
                shape = self._unknown[kind_name]
        return shape, bytes(memoryview(json_text(payload)))  # a copy: the text itself has kilobytes of spare room


def unpack_rows(rows: PackedRows) -> Iterator[tuple[Shape, bytes, bytes, Any, Any]]:
    """The shapes, versions and payloads of packed rows, and when and by whom they were changed."""
    entries = iter(rows)
    return zip(entries, entries, entries, entries, entries, strict=True)


def with_known_shapes(rows: PackedRows) -> PackedRows:
    """The same rows, with the shapes that were not known."""
    packed: list[Any] = []
    for shape, version, payload, *last_change in unpack_rows(rows):
        known_shape = Shape(shape.kind, json_value(payload)) if shape.sample is None else shape
        packed += (known_shape, version, payload, *last_change)
    return tuple(packed)
