"""The drawing of the topology: boxes of pools and labels, boxes of clusters, and the lines between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ROW, _TOP = 32, 8
#: Boxes on a side, and lines, beyond which a drawing cannot be read: the table tells it then.
_MOST_BOXES, _MOST_LINES = 24, 80
_RIGHT = 480


def draw_topology(groups: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any] | None:
    """Pools and labels, each with its noun, and the clusters that they lead to; None where that is too much to draw."""
    clusters = list(dict.fromkeys(member["id"] for _, group in groups for member in group["members"]))
    lines = sum(len(group["members"]) for _, group in groups)
    if not clusters or max(len(groups), len(clusters)) > _MOST_BOXES or lines > _MOST_LINES:
        return None
    return {
        "height": _ROW * max(len(groups), len(clusters)) + _TOP,
        "boxes": [
            *({"x": 8, "y": _top(row), "text": f"{noun} {group['name']}"} for row, (noun, group) in enumerate(groups)),
            *({"x": _RIGHT, "y": _top(row), "text": name} for row, name in enumerate(clusters)),
        ],
        "lines": [line for row, (_, group) in enumerate(groups) for line in _lines(group, row, clusters)],
    }


def _lines(group: Mapping[str, Any], row: int, clusters: Sequence[str]) -> list[dict[str, Any]]:
    weights = sum(member["weight"] for member in group["members"])
    off = group.get("switched_off") or {}
    return [
        {
            "from": _middle(row),
            "to": _middle(clusters.index(member["id"])),
            "width": round(1 + 5 * member["weight"] / weights, 1) if weights else 1,
            "is_off": member["id"] in off or member["expected"] or not member["weight"],
        }
        for member in group["members"]
    ]


def _top(row: int) -> int:
    return _TOP // 2 + _ROW * row


def _middle(row: int) -> int:
    return _top(row) + 12
