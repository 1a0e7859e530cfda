"""Histories of calls to token pools, and whether they could have happened one after the other.

The model knows no lines and no leases: what is granted must fit below every bound, and what is refused must not fit,
or somebody else must stand in line. Grants of a pool happened in the order of their numbers; the rest is placed between
the begin and the end of each call, refusals as soon as they are right, and everything else as late as it may be.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from admin.core.settings.scopes import Scope

#: A bound of a pool: the pool, and what is counted together.
Bound = tuple[str, ...]
#: What a claim comes to that gets nothing.
REFUSED = ("refused", "waits")


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

    def bounds(self) -> list[tuple[Bound, int]]:
        """What it counts in, and by how much."""
        bounds: list[tuple[Bound, int]] = []
        for pool, amount in self.amounts.items():
            project, domain = self.place.project, self.place.domain
            bounds.append(((pool, "pool"), amount))
            bounds.append(((pool, "project", project), amount))
            bounds.append(((pool, "namespace", project, domain), amount))
            if self.execution:
                bounds.append(((pool, "execution", project, domain, self.execution), amount))
        return bounds


class _ByPool:
    """The keys of some calls, found by any of their pools."""

    def __init__(self) -> None:
        self._keys: dict[str, set[int]] = {}

    def add(self, key: int, call: Call) -> None:
        for pool in call.amounts:
            self._keys.setdefault(pool, set()).add(key)

    def remove(self, key: int, call: Call) -> None:
        for pool in call.amounts:
            self._keys[pool].discard(key)

    def sharing(self, call: Call) -> set[int]:
        """Those that are about a pool of a call."""
        return set().union(*(self._keys.get(pool, ()) for pool in call.amounts))


class History:
    """Replays calls in an order in which they could have happened."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._caps = caps  #: by level
        self._calls: list[Call] = []
        self._bounds: list[list[tuple[Bound, int]]] = []
        self._used: Counter[Bound] = Counter()
        self._held: dict[str, int] = {}  #: the key of its grant, by token
        self._waiting: dict[str, int] = {}  #: the key of its claim, by token
        self._in_line = _ByPool()
        self._grants: dict[str, deque[int]] = {}  #: of each pool that are to be placed, by number
        #: Begun, and not placed yet.
        self._open: set[int] = set()
        self._early: set[int] = set()  #: placed though they have not begun, which is wrong
        self._open_refusals, self._open_releases = _ByPool(), _ByPool()
        self.wrong: list[str] = []
        self.unexplained = 0  #: refusals that are right only if others happened in another order

    def replay(self, calls: Iterable[Call]) -> None:
        """Place every call."""
        self._calls = list(calls)
        shared: dict[object, list[tuple[Bound, int]]] = {}  # those of a million calls are few
        self._bounds = [
            shared.setdefault((tuple(call.amounts.items()), call.place, call.execution), call.bounds())
            for call in self._calls
        ]
        grants = [(call.number, key) for key, call in enumerate(self._calls) if call.result == "granted"]
        for _number, key in sorted(grants):
            for pool in self._calls[key].amounts:
                grants_of_pool = self._grants.setdefault(pool, deque())
                if grants_of_pool and self._calls[grants_of_pool[-1]].number == self._calls[key].number:
                    self.wrong.append(f"{self._calls[key]} has a number that {pool} gave before")
                grants_of_pool.append(key)
        begins = [(call.begin, 0, key) for key, call in enumerate(self._calls)]
        ends = [(call.end, 1, key) for key, call in enumerate(self._calls)]
        for _time, is_end, key in sorted([*begins, *ends]):
            if not is_end:
                self._begin(key)
            elif key in self._open:
                self._end(key)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held and nobody waits in the end."""
        return not self._held and not self._waiting and not +self._used

    def _begin(self, key: int) -> None:
        call = self._calls[key]
        if key in self._early:
            return
        self._open.add(key)
        if call.result in REFUSED:
            self._open_refusals.add(key, call)
            self._place_refusals([key])
        elif call.result == "freed":
            self._open_releases.add(key, call)

    def _end(self, key: int) -> None:
        """Place a call at the latest time that it could have happened at."""
        call = self._calls[key]
        if call.result == "granted":
            self._grant(key)
        elif call.result == "left":
            self._open.discard(key)
            self._leave(call.token)
        elif call.result == "freed":
            self._give_back(key)
        else:
            self._explain(key)

    def _explain(self, key: int) -> None:
        """Place a refusal that nothing placed so far explains: after grants that may have happened before it."""
        call = self._calls[key]
        for pool in call.amounts:
            while key in self._open and (queue := self._grants.get(pool)) and self._grant_early(queue[0]):
                pass
        if key in self._open:
            self.unexplained += 1
            self._place_refusal(key)

    def _grant_early(self, key: int) -> bool:
        """Place a grant that need not be placed yet, and those before it, if they have begun and fit."""
        while True:
            first = self._first_before(key)
            if first not in self._open or not self._make_room(first):
                return False
            self._place_grant(first)
            if first == key:
                return True

    def _grant(self, key: int) -> None:
        """Place a grant, and before it those of its pools that have smaller numbers."""
        while key in self._open:
            first = self._first_before(key)
            call = self._calls[first]
            if first not in self._open:
                self.wrong.append(f"{self._calls[key]} has a larger number than {call}, which began later")
                self._early.add(first)
            elif not self._make_room(first):
                full = [bound for bound in self._bounds[first] if not self._has_room(*bound)]
                self.wrong.append(f"{call} does not fit: {full}")
            self._place_grant(first)

    def _first_before(self, key: int) -> int:
        """The grant that has to be placed first, so that a grant can be: each pool gave its numbers in their order."""
        for pool in self._calls[key].amounts:
            if (first := self._grants[pool][0]) != key:
                return self._first_before(first)
        return key

    def _make_room(self, key: int) -> bool:
        """Place releases that have begun, as many as a grant needs; returns whether it fits then."""
        if not self._fits(key):
            releases = self._open_releases.sharing(self._calls[key])
            for release in sorted(releases, key=lambda other: self._calls[other].end):
                if self._calls[release].token in self._held:
                    self._give_back(release)
                if self._fits(key):
                    break
        return self._fits(key)

    def _place_grant(self, key: int) -> None:
        call = self._calls[key]
        self._open.discard(key)
        for pool in call.amounts:
            self._grants[pool].popleft()
        self._leave(call.token)
        self._held[call.token] = key
        for bound, amount in self._bounds[key]:
            self._used[bound] += amount
        self._place_refusals(self._open_refusals.sharing(call))

    def _give_back(self, key: int) -> None:
        call = self._calls[key]
        self._open.discard(key)
        self._open_releases.remove(key, call)
        held = self._held.pop(call.token, None)
        if held is None:
            self.wrong.append(f"{call} gives back what is not held")
            return
        for bound, amount in self._bounds[held]:
            self._used[bound] -= amount

    def _place_refusals(self, keys: Iterable[int]) -> None:
        """Place refusals that are right now, and those that are right because these wait."""
        for key in keys:
            if key in self._open and self._is_right(key):
                self._place_refusal(key)
                if self._calls[key].result == "waits":
                    self._place_refusals(self._open_refusals.sharing(self._calls[key]))

    def _place_refusal(self, key: int) -> None:
        call = self._calls[key]
        self._open.discard(key)
        self._open_refusals.remove(key, call)
        if call.result == "waits":
            self._waiting[call.token] = key
            self._in_line.add(key, call)

    def _leave(self, token: str) -> None:
        if (key := self._waiting.pop(token, None)) is not None:
            self._in_line.remove(key, self._calls[key])

    def _is_right(self, key: int) -> bool:
        """Whether a claim does not fit, or somebody else is in line."""
        return not self._fits(key) or bool(self._in_line.sharing(self._calls[key]))

    def _fits(self, key: int) -> bool:
        used, caps = self._used, self._caps
        return all(used[bound] + amount <= caps[bound[1]] for bound, amount in self._bounds[key])

    def _has_room(self, bound: Bound, amount: int) -> bool:
        return self._used[bound] + amount <= self._caps[bound[1]]
