"""Trees: a graph as people read it, with equal siblings counted instead of listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from admin.core.graph.requirements import CONTAINMENT
from admin.core.graph.shapes import Shape
from admin.core.graph.units import show_amount, unit_amount


@dataclass(frozen=True)
class Branch:
    """Equal siblings, with what is inside each."""

    type: str
    count: int
    size: str | None  #: of each, where it is not one
    linked: tuple[tuple[str, int], ...]  #: vertices of subsystems that are linked to each, by subsystem
    contains: tuple[Branch, ...]

    def as_json(self) -> dict[str, Any]:
        """The branch as answers have it."""
        fields: dict[str, Any] = {"type": self.type, "count": self.count}
        if self.size is not None:
            fields["size"] = self.size
        if self.linked:
            fields["linked"] = dict(self.linked)
        if self.contains:
            fields["contains"] = [branch.as_json() for branch in self.contains]
        return fields


def tree_of(root: Shape) -> Branch:
    """A graph as a tree; siblings that differ in nothing that it shows are one branch."""
    drawn: dict[Shape, Branch] = {}
    for shape in reversed(root.occurrences()):  # each after those inside it
        linked = Counter(feature.subsystem for feature in shape.features if feature.subsystem != CONTAINMENT)
        is_one = shape.amount == unit_amount(shape.type)
        drawn[shape] = Branch(
            type=shape.type,
            count=1,
            size=None if is_one else show_amount(shape.type, shape.amount),
            linked=tuple(sorted(linked.items())),
            contains=_counted((drawn[child], times) for child, times in shape.runs),
        )
    return drawn[root]


def _counted(children: Iterable[tuple[Branch, int]]) -> tuple[Branch, ...]:
    counts: Counter[Branch] = Counter()
    for branch, times in children:
        counts[branch] += times
    return tuple(replace(branch, count=times) for branch, times in counts.items())
