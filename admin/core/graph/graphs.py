"""Cluster graphs: what a cluster has, as the shape of its root and the ids of its vertices."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from admin.core.graph.shapes import Runs, Shape, Shapes
from admin.core.problems import invalid, quoted

Amounts = Mapping[str, int]  #: by type of resource: see `units`


class Use(NamedTuple):
    """What is taken of a vertex and of what is inside it."""

    vertex: int  #: its position
    amounts: Amounts
    is_whole: bool = False  #: the vertex with everything inside it


class Ids:
    """The ids of a graph's vertices by position, in one text: hundreds of thousands of them take little memory."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._text = "\n".join(ids)
        lengths = array("Q", [0])
        for id_ in ids:
            lengths.append(lengths[-1] + len(id_) + 1)
        self._starts = lengths

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, position: int) -> str:
        return self._text[self._starts[position] : self._starts[position + 1] - 1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._text.split("\n"))


@dataclass(frozen=True, eq=False)
class ClusterGraph:
    """A cluster's resources. Positions number the vertices: a vertex, then all that is inside it, child by child."""

    root: Shape
    ids: Ids
    positions: Mapping[str, int]  #: of the vertices that hold others, by id and of nodes by name too
    shapes: Shapes = field(repr=False)
    is_free_part: bool = False  #: only what is free of a cluster
    #: How many vertices of each subsystem stood among those of its document; known while that is read.
    inline_subsystem_counts: Mapping[str, int] = field(default_factory=dict, repr=False)
    #: How many nodes have a name that others have too, known as long.
    repeated_names: Mapping[str, int] = field(default_factory=dict, repr=False)
    scope: Shape = field(init=False, repr=False)  #: what holds the root, so that a request may ask for the root too

    def __post_init__(self) -> None:
        scope = self.shapes.shape("", 0, self.root.features, ((self.root, 1),))
        object.__setattr__(self, "scope", scope)

    def position_of(self, vertex: str) -> int:
        """The position of a vertex by its id, of a node by its name too; Invalid where there is none."""
        position = self.positions.get(vertex)
        if position is None:
            position = next((position for position, id_ in enumerate(self.ids) if id_ == vertex), None)
        if position is None:
            raise invalid("vertex", f"{quoted(vertex)} is no vertex of the graph: describe the cluster again.")
        return position

    def shape_at(self, position: int) -> Shape:
        """The shape of the vertex at a position."""
        shape, start = self.root, 0
        while start != position:
            shape, start = _child_at(shape, start, position)
        return shape

    def without(self, uses: Iterable[Use]) -> ClusterGraph:
        """What is left of it when something is taken; never less than nothing.

        An amount that is taken of a vertex which holds others is taken from the first of those that have it: which
        core of a node a job runs on is known to nobody, and only matters to jobs that ask for less than a node.
        """
        ordered = sorted(uses, key=lambda use: use.vertex)
        root = _Taking(self.shapes).within(self.root, 0, ordered) if ordered else self.root
        return ClusterGraph(root, self.ids, self.positions, self.shapes, is_free_part=True)

    def with_free(self, free: Mapping[str, Amounts], closed: Iterable[str] = ()) -> ClusterGraph:
        """What is left of it when only so much is free in some vertices; types that are not named are free.

        Closed vertices, such as nodes that are down, have nothing free. Vertices are given by id, nodes by name too;
        Invalid where there is none.
        """
        uses = [Use(self.position_of(vertex), {}, is_whole=True) for vertex in closed]
        for vertex, amounts in free.items():
            position = self.position_of(vertex)
            shape = self.shape_at(position)
            has = shape.below if shape.runs else {shape.type: shape.amount}
            used = {name: has[name] - amount for name, amount in amounts.items() if has.get(name, 0) > amount}
            if used:
                uses.append(Use(position, used))
        return self.without(uses)


def _child_at(shape: Shape, start: int, position: int) -> tuple[Shape, int]:
    """The child of a vertex in which a position lies, and where that child starts."""
    start += 1
    for child, times in shape.runs:
        length = child.vertices * times
        if position < start + length:
            return child, start + (position - start) // child.vertices * child.vertices
        start += length
    raise IndexError(position)


class _Taking:
    """Shapes with something taken from them; equal cases are worked out once."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._taken: dict[tuple[Shape, tuple[tuple[str, int], ...]], tuple[Shape, Amounts]] = {}
        self._emptied: dict[Shape, Shape] = {}

    def within(self, shape: Shape, start: int, uses: Sequence[Use]) -> Shape:
        """A shape without the uses of its vertices, which are ordered by position; the innermost are taken first."""
        own = [use for use in uses if use.vertex == start]
        inner = uses[len(own) :]
        if inner:
            shape = self._with_runs(shape, tuple(self._runs_within(shape, start, inner)))
        if any(use.is_whole for use in own):
            return self._empty(shape)
        for use in own:
            shape, _ = self._take(shape, tuple(sorted((name, n) for name, n in use.amounts.items() if n > 0)))
        return shape

    def _runs_within(self, shape: Shape, start: int, uses: Sequence[Use]) -> Iterator[tuple[Shape, int]]:
        position, first = start + 1, 0
        for child, times in shape.runs:
            end, done = position + child.vertices * times, 0
            while first < len(uses) and uses[first].vertex < end:
                number = (uses[first].vertex - position) // child.vertices
                child_start = position + number * child.vertices
                last = first
                while last < len(uses) and uses[last].vertex < child_start + child.vertices:
                    last += 1
                if number > done:
                    yield child, number - done
                yield self.within(child, child_start, uses[first:last]), 1
                done, first = number + 1, last
            if times > done:
                yield child, times - done
            position = end

    def _take(self, shape: Shape, amounts: tuple[tuple[str, int], ...]) -> tuple[Shape, Amounts]:
        """A shape without some amounts, and what it could not give of them."""
        if not amounts or not any(name == shape.type or shape.below.get(name) for name, _ in amounts):
            return shape, dict(amounts)
        key = (shape, amounts)
        if key not in self._taken:
            self._taken[key] = self._take_anew(shape, dict(amounts))
        return self._taken[key]

    def _take_anew(self, shape: Shape, left: dict[str, int]) -> tuple[Shape, Amounts]:
        if not shape.runs:  # what holds others is shared, and only taken whole
            given = min(left.get(shape.type, 0), shape.amount)
            left[shape.type] = left.get(shape.type, 0) - given
            rest = self._shapes.shape(shape.type, shape.amount - given, shape.features, is_untouched=False)
            return (rest if given else shape), {name: amount for name, amount in left.items() if amount}
        runs: list[tuple[Shape, int]] = []
        for child, times in shape.runs:
            for number in range(times):
                before = left
                rest, left_over = self._take(child, tuple(sorted(left.items())))
                left = dict(left_over)
                if left == before:  # neither this child nor the equal ones after it have any of it
                    runs.append((child, times - number))
                    break
                runs.append((rest, 1))
        return self._with_runs(shape, tuple(runs)), left

    def _empty(self, shape: Shape) -> Shape:
        if shape not in self._emptied:
            runs = tuple((self._empty(child), times) for child, times in shape.runs)
            self._emptied[shape] = self._shapes.shape(shape.type, 0, shape.features, runs, is_untouched=False)
        return self._emptied[shape]

    def _with_runs(self, shape: Shape, runs: Runs) -> Shape:
        merged: list[tuple[Shape, int]] = []
        for child, times in runs:
            if merged and merged[-1][0] is child:
                merged[-1] = (child, merged[-1][1] + times)
            else:
                merged.append((child, times))
        same = tuple(merged)
        if same == shape.runs:
            return shape
        return self._shapes.shape(shape.type, shape.amount, shape.features, same, is_untouched=False)
