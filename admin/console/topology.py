"""The drawing of the topology: boxes of pools and labels, boxes of clusters, and the lines between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_ROW, _TOP = 32, 8
#: Boxes on a side: where there are more, the last stands for all the others.
_MOST_BOXES = 24
_RIGHT = 330

Group = tuple[str, Mapping[str, Any]]


def draw_topology(groups: Sequence[Group]) -> dict[str, Any] | None:
    """Pools and labels, each with its noun, and the clusters that they lead to; None where they lead nowhere.

    Beyond what can be read the clusters with the least weight are drawn as one box, and so are the last pools and
    labels.
    """
    weights: Counter[str] = Counter()
    for _, group in groups:
        for member in group["members"]:
            weights[member["id"]] += member["weight"]
    if not weights:
        return None
    clusters = sorted(weights, key=lambda name: -weights[name])
    rows_of_clusters = {name: min(row, _shown(len(clusters))) for row, name in enumerate(clusters)}
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    for row, (_, group) in enumerate(groups):
        _add_lines(lines, group, min(row, _shown(len(groups))), rows_of_clusters)
    left = [
        {"text": f"{noun} {group['name']}", "path": (f"{noun}s", group["name"])}
        for noun, group in groups[: _shown(len(groups))]
    ]
    right = [{"text": name, "path": ("clusters", name)} for name in clusters[: _shown(len(clusters))]]
    sides = (
        (8, _with_others(left, len(groups), "pools and labels")),
        (_RIGHT, _with_others(right, len(clusters), "clusters")),
    )
    return {
        "height": _ROW * max(len(boxes) for _, boxes in sides) + _TOP,
        "boxes": [{**box, "x": x, "y": _top(row)} for x, boxes in sides for row, box in enumerate(boxes)],
        "lines": [
            {
                "from": _middle(row),
                "to": _middle(to),
                "width": round(1 + 5 * line["share"], 1),
                "is_off": line["is_off"],
            }
            for (row, to), line in lines.items()
        ],
    }


def _shown(number: int) -> int:
    """How many of so many have a box of their own."""
    return number if number <= _MOST_BOXES else _MOST_BOXES - 1


def _with_others(boxes: list[dict[str, Any]], number: int, noun: str) -> list[dict[str, Any]]:
    others = number - len(boxes)
    return [*boxes, {"text": f"{others} more {noun}", "path": None}] if others else boxes


def _add_lines(
    lines: dict[tuple[int, int], dict[str, Any]], group: Mapping[str, Any], row: int, rows: Mapping[str, int]
) -> None:
    """Add the lines of the pool or label in a row to those between the same boxes, which are drawn as one.

    Each has its share of the weight, and is off where nothing goes along it.
    """
    weights = sum(member["weight"] for member in group["members"])
    off = group.get("switched_off") or {}
    for member in group["members"]:
        id, weight = member["id"], member["weight"]
        drawn = lines.setdefault((row, rows[id]), {"share": 0, "is_off": True})
        drawn["share"] = min(1, drawn["share"] + (weight / weights if weights else 0))
        drawn["is_off"] = drawn["is_off"] and (id in off or member["expected"] or not weight)


def _top(row: int) -> int:
    return _TOP // 2 + _ROW * row


def _middle(row: int) -> int:
    return _top(row) + 12
