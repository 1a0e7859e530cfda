"""Memos: values that are computed once for each version of what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """Values of one version by key; dropped when the version changes or there are too many."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._current: tuple[Hashable, dict[Hashable, Value]] = (None, {})

    def find(self, key: Hashable, compute: Callable[[], Value], version: Hashable = None) -> Value:
        """The value of a key at a version, computed where it is missing; values of other versions are dropped."""
        current_version, values = self._current
        if current_version != version:
            values = {}
            self._current = version, values
        value = values.get(key)
        if value is None:
            value = compute()
            if len(values) >= self._most:
                values.clear()
            values[key] = value
        return value

    def latest(self, key: Hashable) -> tuple[Hashable, Value | None]:
        """The version that values are kept of, and the value of a key at it; None where that is not computed."""
        version, values = self._current
        return version, values.get(key)
