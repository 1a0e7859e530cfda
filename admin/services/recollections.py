"""Recollections: what a process remembers of the database, and the numbers at which it was true."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from admin.core.executions import Settled
from admin.core.placement.decisions import Judgement
from admin.store.registrations import Registered

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """Answers of one moment, by what was asked; at most so many."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._held: tuple[Hashable, dict[Hashable, Value]] = (None, {})

    def find(self, moment: Hashable, key: Hashable, make: Callable[[], Value]) -> Value:
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


@dataclass(kw_only=True)
class Recollection:
    """What creation need not ask for again. Whoever stores by it checks the numbers."""

    registrations: int = -1  #: how often something had been registered, when it was last asked
    registered: Memo[Registered] = field(default_factory=Memo)  #: by that number
    settled: Memo[Settled] = field(default_factory=Memo)  #: by revision
    judgements: Memo[Judgement] = field(default_factory=Memo)  #: by the number of the fleet
    patterns: Memo[Any] = field(default_factory=lambda: Memo(1024))  #: what requests come to, by all three
