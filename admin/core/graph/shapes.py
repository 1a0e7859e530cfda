"""Shapes: what a vertex is with everything inside it; equal vertices share one, however many there are.

A cluster of thousands of equal nodes has a handful of shapes, and whatever is computed for a shape holds for all of its
vertices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from admin.core.graph.requirements import Feature, Value
from admin.core.graph.units import NODE

Runs = tuple[tuple["Shape", int], ...]  #: neighbouring children of the same shape, and how many they are


class Shape:
    """A vertex without its id, and what is inside it; within one `Shapes`, equal ones are one object."""

    __slots__ = (
        "__weakref__",
        "_groups",
        "_in_all_nodes",
        "_nodes",
        "amount",
        "below",
        "containers",
        "features",
        "holds",
        "is_untouched",
        "runs",
        "type",
        "vertices",
    )

    def __init__(
        self, type_: str, amount: int, features: tuple[Feature, ...], runs: Runs, *, is_untouched: bool
    ) -> None:
        self.type = type_
        self.amount = amount  #: free of the vertex itself
        self.features = features  #: its own, and those of the subsystem vertices linked to it
        self.runs = runs
        self.is_untouched = is_untouched  #: nothing of it or inside it is taken
        self.vertices: int = 1 + sum(child.vertices * times for child, times in runs)
        below: dict[str, int] = {}
        holds: set[str] = set()
        containers: set[str] = set()
        for child, times in runs:
            holds.add(child.type)
            holds |= child.holds
            containers |= child.containers
            if NODE in child.holds:
                containers.add(child.type)
            below[child.type] = below.get(child.type, 0) + child.amount * times
            for name, amount in child.below.items():
                below[name] = below.get(name, 0) + amount * times
        self.below: Mapping[str, int] = below  #: free amounts by type, inside it
        self.holds: frozenset[str] = frozenset(holds)  #: types of what is inside it, free or not
        self.containers: frozenset[str] = frozenset(containers)  #: those of them that hold nodes
        self._groups: Mapping[Shape, int] | None = None
        self._nodes: Mapping[Shape, int] | None = None
        self._in_all_nodes: frozenset[str] | None = None

    @property
    def groups(self) -> Mapping[Shape, int]:
        """Its children by shape, the tightest first: those with the least free, so that large ones stay whole."""
        if self._groups is None:
            groups: dict[Shape, int] = {}
            for child, times in self.runs:
                groups[child] = groups.get(child, 0) + times
            order = sorted(groups, key=lambda shape: sorted(shape.below.items())) if len(groups) > 1 else list(groups)
            self._groups = {shape: groups[shape] for shape in order}
        return self._groups

    @property
    def nodes(self) -> Mapping[Shape, int]:
        """The shapes of the nodes inside it, and how many nodes have each."""
        if self._nodes is None:
            nodes: dict[Shape, int] = {}
            for child, times in self.runs:
                inner = {child: 1} if child.type == NODE else child.nodes
                for shape, count in inner.items():
                    nodes[shape] = nodes.get(shape, 0) + count * times
            self._nodes = nodes
        return self._nodes

    @property
    def in_all_nodes(self) -> frozenset[str]:
        """The types that all nodes inside it hold; where there are no nodes, that it holds itself."""
        if self._in_all_nodes is None:
            held = [node.holds for node in self.nodes]
            self._in_all_nodes = held[0].intersection(*held[1:]) if held else self.holds
        return self._in_all_nodes

    def occurrences(self) -> dict[Shape, int]:
        """Its own shape and every one in it, and how many vertices have each; each before those inside it."""
        counts = dict.fromkeys(reversed(list(self._innermost_first())), 0)
        counts[self] = 1
        for shape, count in counts.items():
            for child, times in shape.runs:
                counts[child] += count * times
        return counts

    def _innermost_first(self) -> Iterator[Shape]:
        done: set[Shape] = set()
        waiting = [(self, False)]
        while waiting:
            shape, is_ready = waiting.pop()
            if shape in done:
                continue
            if is_ready:
                done.add(shape)
                yield shape
            else:
                waiting.append((shape, True))
                waiting.extend((child, False) for child, _ in shape.runs if child not in done)


class Shapes:
    """The shapes of one or more graphs, which share those that are equal; unused ones are forgotten."""

    def __init__(self) -> None:
        self._shapes: WeakValueDictionary[tuple[Any, ...], Shape] = WeakValueDictionary()
        self._features: WeakValueDictionary[tuple[Any, ...], Feature] = WeakValueDictionary()

    def shape(
        self,
        type_: str,
        amount: int,
        features: tuple[Feature, ...] = (),
        runs: Runs = (),
        *,
        is_untouched: bool = True,
    ) -> Shape:
        """The one shape of these parts."""
        key = (type_, amount, features, runs, is_untouched)
        shape = self._shapes.get(key)
        if shape is None:
            shape = Shape(type_, amount, features, runs, is_untouched=is_untouched)
            self._shapes[key] = shape
        return shape

    def feature(self, subsystem: str, fields: Mapping[str, Value]) -> Feature:
        """The one feature with these fields."""
        # The type belongs to the key, since 1, 1.0 and True are equal to Python.
        key = (subsystem, *sorted((name, type(value).__name__, value) for name, value in fields.items()))
        feature = self._features.get(key)
        if feature is None:
            feature = Feature(subsystem, dict(fields))
            self._features[key] = feature
        return feature


def runs_of(children: Sequence[Shape]) -> Runs:
    """Neighbouring children of the same shape, counted."""
    runs: list[tuple[Shape, int]] = []
    for child in children:
        if runs and runs[-1][0] is child:
            runs[-1] = (child, runs[-1][1] + 1)
        else:
            runs.append((child, 1))
    return tuple(runs)
