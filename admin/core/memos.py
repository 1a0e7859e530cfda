"""Memos: answers that are worked out once, for as long as what they follow from stays the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """Answers of one moment, by what was asked; at most so many."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._held: tuple[Hashable, dict[Hashable, Value]] = (None, {})

    def find(self, key: Hashable, make: Callable[[], Value], moment: Hashable = None) -> Value:
        """The answer of a moment, made if it is not there yet; those of other moments are forgotten."""
        held_at, held = self._held
        if held_at != moment:
            held = {}
            self._held = moment, held
        found = held.get(key)
        if found is None:
            found = make()
            if len(held) >= self._most:
                held.clear()
            held[key] = found
        return found
