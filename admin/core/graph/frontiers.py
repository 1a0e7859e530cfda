"""Frontiers: the ways to provide several resources that no other way outdoes, added up over vertices.

A frontier may have as many points as the product of what is needed. The quick form keeps a few of them and notes that
it has left some out; the other counts its steps, and gives up beyond a number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv

from admin.core.graph.points import Point, Product, Sum, Vector

#: Steps of the search in one graph; a matcher takes a few times as many in all the graphs that it is asked about.
MOST_STEPS = 50_000
_MOST_GRAPHS = 3
#: Ways that the first, quick search keeps of each frontier.
_KEPT = 64


class TooComplex(Exception):
    """A request whose needs compete in more ways than are tried."""


class Frontiers:
    """The arithmetic of frontiers, with the steps that are left to it."""

    def __init__(self, most_steps: int = MOST_STEPS) -> None:
        self._steps_left = self._most_steps = most_steps
        self._steps_in_all = most_steps * _MOST_GRAPHS
        self._is_quick = False
        self._is_cut = False  #: a quick search has left something out

    def _begin_steps(self, *, is_quick: bool) -> None:
        self._steps_left = min(self._most_steps, self._steps_in_all)
        self._is_quick = is_quick

    def _times(self, points: Sequence[Point], times: int, caps: Vector) -> Sequence[Point]:
        """The frontier of several equal vertices."""
        if times == 1:
            return points
        if len(points) == 1:
            point = points[0]
            vector = tuple(min(cap, have * times) for cap, have in zip(caps, point.vector, strict=True))
            return (Point(vector, Product(point, times)),)
        result: Sequence[Point] | None = None
        power = points
        while True:
            if times & 1:
                result = power if result is None else self._sum(result, power, caps)
            times >>= 1
            if not times:
                return result or ()
            power = self._sum(power, power, caps)

    def _sum(self, first: Sequence[Point], second: Sequence[Point], caps: Vector) -> Sequence[Point]:
        """The frontier of two groups of vertices together."""
        sums = []
        for one in first:
            for other in second:
                vector = tuple(
                    [min(cap, have + more) for cap, have, more in zip(caps, one.vector, other.vector, strict=True)]
                )
                point = Point(vector, Product(other, 1) if one.origin is None else Sum(one, other))
                if vector == caps:  # nothing outdoes it
                    return (point,)
                sums.append(point)
            self._count_steps(len(second) - 1)
        return sums if len(sums) == 1 else self._best(sums, caps)

    def _best(self, points: Sequence[Point], caps: Vector) -> Sequence[Point]:
        """The points that no other point outdoes."""
        if len(points) < 2:
            return points
        if self._is_quick and len(points) > 4 * _KEPT:
            points = self._cut(points, caps, 4 * _KEPT)
        by_vector = {point.vector: point for point in reversed(points)}
        highest = tuple(map(max, zip(*by_vector, strict=True)))
        if highest in by_vector:
            return [by_vector[highest]]
        ordered = sorted(by_vector, reverse=True)  # what outdoes another comes before it
        best: list[Vector] = []
        if len(highest) == 2:
            for vector in ordered:
                if not best or vector[1] > best[-1][1]:
                    best.append(vector)
        else:
            for vector in ordered:
                self._count_steps(1 + len(best) // 4)
                if not any(all(map(int.__ge__, other, vector)) for other in best):
                    best.append(vector)
        best_points = [by_vector[vector] for vector in best]
        return self._cut(best_points, caps, _KEPT) if self._is_quick and len(best) > _KEPT else best_points

    def _cut(self, points: Sequence[Point], caps: Vector, most: int) -> Sequence[Point]:
        """A few of many points: those that provide the most of what they provide least of, and some of all others."""
        self._is_cut = True
        half = most // 2
        even = sorted(points, key=lambda point: -min(map(truediv, point.vector, caps)))[:half]
        return [*even, *points[:: 1 + len(points) // half]]

    def _count_steps(self, steps: int) -> None:
        self._steps_left -= steps
        self._steps_in_all -= steps
        if self._steps_left < 0:
            raise TooComplex
