"""Trees of descriptions as pages show them: searched, and cut where they are too large to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

#: Branches that a page shows.
_MOST_SHOWN = 500


class FoundTree(NamedTuple):
    """What is shown of a tree."""

    tree: dict[str, Any] | None  #: None where nothing has the text that is searched
    matches: int  #: vertices whose type or size has the text, equal ones counted
    is_cut: bool  #: whether there are too many branches to show all


def search_tree(tree: Mapping[str, Any], text: str) -> FoundTree:
    """The branches whose type or size has a text, what they contain, and what leads to them; all without a text."""
    wanted = text.strip().lower()
    kept = _matching(tree, wanted) if wanted else dict(tree)
    matches = _count(tree, wanted, 1) if wanted else 0
    if kept is None:
        return FoundTree(None, matches, False)
    numbers = count()
    shown = _cut(kept, numbers)
    return FoundTree(shown, matches, next(numbers) > _MOST_SHOWN)


def has_text(branch: Mapping[str, Any], wanted: str) -> bool:
    """Whether a branch itself has a text, in small letters."""
    return wanted in f"{branch['type']} {branch.get('size') or ''}".lower()


def _matching(branch: Mapping[str, Any], wanted: str) -> dict[str, Any] | None:
    if has_text(branch, wanted):
        return dict(branch)
    inner = [kept for child in _inside(branch) if (kept := _matching(child, wanted)) is not None]
    return {**branch, "contains": inner} if inner else None


def _count(branch: Mapping[str, Any], wanted: str, around: int) -> int:
    number = around * int(branch["count"])
    own = number if has_text(branch, wanted) else 0
    return own + sum(_count(child, wanted, number) for child in _inside(branch))


def _cut(branch: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, Any] | None:
    if next(numbers) >= _MOST_SHOWN:
        return None
    inner = (_cut(child, numbers) for child in _inside(branch))
    return {**branch, "contains": [child for child in inner if child is not None]}


def _inside(branch: Mapping[str, Any]) -> list[dict[str, Any]]:
    return branch.get("contains") or []
