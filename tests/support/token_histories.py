"""Histories of calls to token pools, and whether they could have happened one after the other.

The model knows no lines and no leases: what is granted must fit below every bound, and what is refused must not fit,
or somebody else must stand in line. Grants of a pool happened in the order of their numbers; the rest is placed between
the begin and the end of each call, refusals as soon as they are right, and everything else as late as it may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from admin.core.settings.scopes import Scope

#: A bound of a pool: the pool, and what is counted together.
Bound = tuple[str, ...]


class Call(NamedTuple):
    """One call, between the times that it began and ended at, on a clock that all processes share."""

    begin: float
    end: float
    result: str  #: granted, refused, waits, freed or left
    token: str
    amounts: Mapping[str, int]
    place: Scope
    execution: str
    number: int = 0  #: of a grant

    def bounds(self) -> Iterator[tuple[Bound, int]]:
        """What it counts in, and by how much."""
        for pool, amount in self.amounts.items():
            project, domain = self.place.project, self.place.domain
            yield (pool, "pool"), amount
            yield (pool, "project", project), amount
            yield (pool, "namespace", project, domain), amount
            if self.execution:
                yield (pool, "execution", project, domain, self.execution), amount


class History:
    """Replays calls in an order in which they could have happened."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = caps  #: by level
        self._used: Counter[Bound] = Counter()
        self._held: dict[str, Call] = {}
        self._waiting: dict[str, Call] = {}
        self._numbers: Counter[str] = Counter()  #: the last one of each pool
        self._open: dict[int, Call] = {}  #: begun, and not placed yet
        self.wrong: list[str] = []
        self.unexplained = 0  #: refusals that are right only if others happened in another order

    def replay(self, calls: Iterable[Call]) -> None:
        """Place every call."""
        numbered = list(enumerate(calls))
        times = [(call.begin, 0, key) for key, call in numbered] + [(call.end, 1, key) for key, call in numbered]
        by_key = dict(numbered)
        for _time, is_end, key in sorted(times):
            if not is_end:
                self._open[key] = by_key[key]
                self._place_refusals([key])
            elif key in self._open:
                self._place(key)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held and nobody waits in the end."""
        return not self._held and not self._waiting and not +self._used

    def _place(self, key: int) -> None:
        call = self._open[key]
        if call.result == "granted":
            self._grant(key)
        elif call.result in ("freed", "left"):
            self._give_back(key)
        else:
            for other, _call in self._open_grants(lambda grant: _share(grant, call)):
                if other in self._open:
                    self._grant(other)
                if key not in self._open:
                    return
            del self._open[key]
            self.unexplained += 1
            if call.result == "waits":
                self._waiting[call.token] = call

    def _open_grants(self, is_meant: Callable[[Call], bool]) -> list[tuple[int, Call]]:
        grants = [(key, call) for key, call in self._open.items() if call.result == "granted" and is_meant(call)]
        return sorted(grants, key=lambda entry: entry[1].number)

    def _grant(self, key: int) -> None:
        """Place a grant, and before it those of its pools that have smaller numbers."""
        call = self._open[key]
        for earlier, _call in self._open_grants(lambda grant: grant.number < call.number and _share(grant, call)):
            if earlier in self._open:
                self._grant(earlier)
        del self._open[key]
        for release, other in sorted(self._open.items(), key=lambda entry: entry[1].end):
            if self._fits(call):
                break
            if other.result == "freed" and other.token in self._held and _share(other, call):
                self._give_back(release)
        if not self._fits(call):
            self.wrong.append(
                f"{call} does not fit: {[bound for bound in call.bounds() if not self._has_room(*bound)]}"
            )
        for pool in call.amounts:
            if call.number <= self._numbers[pool]:
                self.wrong.append(f"{call} has a number of {pool} that is not larger than {self._numbers[pool]}")
            self._numbers[pool] = call.number
        self._waiting.pop(call.token, None)
        self._held[call.token] = call
        self._used.update(dict(call.bounds()))
        self._place_refusals(list(self._open))

    def _give_back(self, key: int) -> None:
        call = self._open.pop(key)
        if call.result == "left":
            self._waiting.pop(call.token, None)
            return
        held = self._held.pop(call.token, None)
        if held is None:
            self.wrong.append(f"{call} gives back what is not held")
            return
        self._used.subtract(dict(held.bounds()))
        self._place_refusals(list(self._open))

    def _place_refusals(self, keys: Iterable[int]) -> None:
        for key in keys:
            call = self._open[key]
            if call.result in ("refused", "waits") and self._is_right(call):
                del self._open[key]
                if call.result == "waits":
                    self._waiting[call.token] = call

    def _is_right(self, call: Call) -> bool:
        return not self._fits(call) or any(
            _share(other, call) for other in self._waiting.values() if other.token != call.token
        )

    def _fits(self, call: Call) -> bool:
        return all(self._has_room(bound, amount) for bound, amount in call.bounds())

    def _has_room(self, bound: Bound, amount: int) -> bool:
        return self._used[bound] + amount <= self._caps[bound[1]]


def _share(call: Call, other: Call) -> bool:
    """Whether two calls are about a pool together."""
    return not call.amounts.keys().isdisjoint(other.amounts)
