"""The drawing of a description: boxes of equal parts, each above what it contains, as wide as what it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_WIDTH, _ROW = 560, 30
#: Parts without others in them beyond which a drawing cannot be read: the tree below tells it then.
_MOST_LEAVES = 48
#: The width of a letter, about, and what stays free beside a text.
_LETTER, _MARGIN = 7, 10

Branch = Mapping[str, Any]


def draw_tree(tree: Branch, is_match: Callable[[Branch], bool]) -> dict[str, Any] | None:
    """The boxes of a tree in which equal parts are counted; None where they are too many to draw."""
    leaves = _leaves(tree)
    if leaves > _MOST_LEAVES:
        return None
    boxes = list(_boxes(tree, is_match, 0.0, _WIDTH / leaves, 0))
    return {"boxes": boxes, "width": _WIDTH, "height": _ROW * (1 + max(box["row"] for box in boxes)), "row": _ROW}


def _boxes(
    branch: Branch, is_match: Callable[[Branch], bool], x: float, leaf_width: float, row: int
) -> Iterator[dict[str, Any]]:
    width = leaf_width * _leaves(branch)
    size = f" {branch['size']}" if branch.get("size") else ""
    number = f" ×{branch['count']:,}".replace(",", "\u202f") if branch["count"] > 1 else ""
    title = f"{branch['type']}{size}{number}"
    letters = int((width - _MARGIN) / _LETTER)
    yield {
        "x": round(x, 1),
        "row": row,
        "y": row * _ROW,
        "width": round(width - 1, 1),
        "title": title,
        "text": title if len(title) <= letters else f"{title[: letters - 1]}…" if letters > 2 else "",
        "type": branch["type"],
        "is_match": is_match(branch),
    }
    for child in branch.get("contains") or ():
        yield from _boxes(child, is_match, x, leaf_width, row + 1)
        x += leaf_width * _leaves(child)


def _leaves(branch: Branch) -> int:
    """How many parts without others in them a part leads to, equal ones once."""
    return sum(map(_leaves, branch.get("contains") or ())) or 1
