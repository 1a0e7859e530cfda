"""Lines: what waits at clusters for their agents, in the order in which these get it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from admin.core.resources import Amounts, add, subtract

#: Sums are kept of every so many entries: each holds a name for every shape of job before it.
_STEP = 64


class Position(NamedTuple):
    """Where something stands in a line; the smaller one is given out first."""

    tier: int
    rank: int  #: the priority, negated
    id: float = math.inf  #: infinite for what comes after all of its tier and priority

    @classmethod
    def of(cls, tier: int, priority: int, id: float = math.inf) -> Position:
        return cls(tier, -priority, id)


class Entry(NamedTuple):
    """What something in a line takes of its cluster."""

    position: Position
    takes: Amounts


class Lines:
    """What waits at each of some clusters, with what is added and removed since it was read."""

    def __init__(self, entries: Mapping[str, Sequence[Entry]]) -> None:
        self._entries = {cluster: sorted(line, key=lambda entry: entry.position) for cluster, line in entries.items()}
        self._sums: dict[str, list[Amounts]] = {}
        self._read: dict[tuple[str, int], Amounts] = {}
        self._added: dict[str, list[Entry]] = {}
        self._removed: dict[str, list[Entry]] = {}

    def before(self, cluster: str, position: Position) -> Amounts:
        """What is taken of a cluster by all that it gets before something at a position."""
        amounts = self._read_before(cluster, position)
        for entry in self._added.get(cluster, ()):
            if entry.position < position:
                amounts = add(amounts, entry.takes)
        for entry in self._removed.get(cluster, ()):
            if entry.position < position:
                amounts = subtract(amounts, entry.takes)
        return amounts

    def add(self, cluster: str, entry: Entry) -> None:
        """Let something wait at a cluster."""
        self._added.setdefault(cluster, []).append(entry)

    def remove(self, cluster: str, entry: Entry) -> None:
        """Let something wait at a cluster no longer."""
        self._removed.setdefault(cluster, []).append(entry)

    def _read_before(self, cluster: str, position: Position) -> Amounts:
        entries = self._entries.get(cluster)
        if not entries:
            return {}
        end = bisect_left(entries, position, key=lambda entry: entry.position)
        if (cluster, end) not in self._read:
            if cluster not in self._sums:
                self._sums[cluster] = _sums_of(entries)
            whole = end // _STEP
            self._read[cluster, end] = _total(
                [Entry(position, self._sums[cluster][whole]), *entries[whole * _STEP : end]]
            )
        return self._read[cluster, end]


def _sums_of(entries: Sequence[Entry]) -> list[Amounts]:
    """What all entries before each step take."""
    sums: list[Amounts] = [{}]
    for start in range(0, len(entries), _STEP):
        last = Entry(entries[start].position, sums[-1])
        sums.append(_total([last, *entries[start : start + _STEP]]))
    return sums


def _total(entries: Sequence[Entry]) -> dict[str, int]:
    total: dict[str, int] = {}
    for entry in entries:
        for name, amount in entry.takes.items():
            total[name] = total.get(name, 0) + amount
    return total
