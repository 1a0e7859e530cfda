"""Ledgers: the grants and waiters of some pools, and what each operation does to them.

A ledger is filled with values and asked for answers; what is to be stored then is in `changes`. It knows no clock:
`now` is given, and for how long that has been steady.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Protocol

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import (
    MOST_HOLDERS,
    Allocation,
    Conflict,
    Exhausted,
    Full,
    Granted,
    NeverFits,
    NotHeld,
    Released,
    Renewed,
    UnknownPools,
)
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.core.token_pools.limits import WHOLE_POOL, Terms, all_limits, never_fits, tightest, weight_of
from admin.core.token_pools.lines import (
    MOST_WAITERS,
    Line,
    Room,
    Standing,
    Status,
    Waiter,
    place_in_line,
    serve,
    share_in,
    statuses,
)
from admin.core.token_pools.steadiness import JUMP_SECONDS

#: When to ask again at the latest and at the earliest.
RETRY_SECONDS, SOONEST_RETRY_SECONDS = 2.0, 0.1
#: How often a second those at the head of a line ask together, at most, where a pool serves many at once.
_HEAD_ASKS_PER_SECOND = 40


class Sums(Protocol):
    """What there is of a pool's grants as they were read, where not all of them are at hand."""

    def used(self, bucket: str) -> int:
        """How many tokens count in a bucket."""

    def soonest_end(self) -> datetime | None:
        """When the first lease is over."""

    def others(self, bucket: str) -> tuple[Sequence[Grant], int]:
        """The largest in a bucket that are not at hand, and how many there are."""


class _Used(Counter[str]):
    """Tokens by bucket, found when they are asked for."""

    def __init__(self, find: Callable[[str], int]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, bucket: str) -> int:
        self[bucket] = amount = self._find(bucket)
        return amount


@dataclass(frozen=True, kw_only=True)
class Added:
    """By bucket, what the operations on a pool have added to what counted before."""

    amounts: Counter[str] = field(default_factory=Counter)  #: of tokens
    numbers: Counter[str] = field(default_factory=Counter)  #: of grants


class Book:
    """The grants and waiters of one pool, and the last number that it gave."""

    def __init__(
        self,
        number: int = 0,
        grants: Iterable[Grant] = (),
        waiters: Iterable[Waiter] = (),
        *,
        sums: Sums | None = None,
        line: Line | None = None,
    ) -> None:
        """With `sums` the grants are those that operations are about, and those whose leases are over.

        With a `line`, which the others stand in, the waiters are the same.
        """
        self.line = line
        self.number = number
        self.grants = {grant.token: grant for grant in grants}
        self.waiters = {waiter.token: waiter for waiter in waiters}
        self.added = Added()
        self._sums = sums
        self.used: Counter[str] = Counter() if sums is None else _Used(self._find)  #: by bucket
        for grant in self.grants.values() if sums is None else ():
            for bucket in grant.buckets:
                self.used[bucket] += grant.amount

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self.waiters) + (0 if self.line is None else sum(self.line.queues.values()))

    def add(self, grant: Grant) -> None:
        """Count a new grant."""
        self.grants[grant.token] = grant
        self._count(grant, 1)

    def remove(self, token: str) -> None:
        """Count a grant no longer."""
        self._count(self.grants.pop(token), -1)

    def soonest_end(self) -> datetime | None:
        """When the first lease ends, or sooner; None where nothing is held."""
        ends = [grant.expires_at for grant in self.grants.values()]
        if self._sums is not None and (first := self._sums.soonest_end()) is not None:
            ends.append(first)
        return min(ends, default=None)

    def holders(self, bucket: str) -> tuple[tuple[Grant, ...], int]:
        """The grants that count in a bucket, the largest and oldest first, as many as are named; and their number."""
        grants = [grant for grant in self.grants.values() if bucket in grant.buckets]
        others, number = ((), 0) if self._sums is None else self._sums.others(bucket)
        largest = sorted([*grants, *others], key=lambda grant: (-grant.amount, grant.number))
        return tuple(largest[:MOST_HOLDERS]), len(grants) + number

    def _count(self, grant: Grant, sign: int) -> None:
        for bucket in grant.buckets:
            if self._sums is None or bucket in self.used:
                self.used[bucket] += sign * grant.amount
            self.added.amounts[bucket] += sign * grant.amount
            self.added.numbers[bucket] += sign

    def _find(self, bucket: str) -> int:
        assert self._sums is not None
        return self._sums.used(bucket) + self.added.amounts[bucket]


@dataclass(kw_only=True)
class Changes:
    """What is to be stored: the pools whose number rose, and by pool and token what was written or removed."""

    numbers: set[str] = field(default_factory=set)
    grants: set[tuple[str, str]] = field(default_factory=set)
    waiters: set[tuple[str, str]] = field(default_factory=set)
    reclaimed: list[Grant] = field(default_factory=list)  #: whose leases were over
    freed: set[str] = field(default_factory=set)  #: the pools in which others may get something now


class Ledger:
    """The books of some pools at one time."""

    def __init__(self, books: Mapping[str, Book], now: datetime, *, steady_seconds: float = inf) -> None:
        self.books = books
        self.now = now
        self.changes = Changes()
        for pool, book in books.items():
            self._expire(pool, book, steady_seconds)

    def _expire(self, pool: str, book: Book, steady_seconds: float) -> None:
        """Take back what nobody has renewed, unless the clock has jumped since the holder could have done so."""
        for grant in list(book.grants.values()):
            corrected = grant.corrected(self.now)
            if corrected.is_over(self.now) and steady_seconds >= grant.lease_seconds:
                book.remove(grant.token)
                self.changes.reclaimed.append(grant)
                self.changes.freed.add(pool)
                self.changes.grants.add((pool, grant.token))
            elif corrected is not grant:
                book.grants[grant.token] = corrected
                self.changes.grants.add((pool, grant.token))
        for token, waiter in list(book.waiters.items()):
            if waiter.expires_at <= self.now and steady_seconds >= waiter.wait_seconds:
                self._leave(pool, token)

    def allocate(self, claim: Claim, terms: Mapping[str, Terms]) -> Allocation:
        """Grant a claim, or say what is full; a claim that waits takes or keeps its place in line."""
        unknown = tuple(sorted(claim.amounts.keys() - terms.keys()))
        if unknown:
            return UnknownPools(pools=unknown)
        held = self._held(claim.token, claim.amounts)
        if held:
            is_same = {pool: grant.amount for pool, grant in held.items()} == dict(claim.amounts)
            is_same = is_same and all(grant.is_of(claim.place) for grant in held.values())
            is_same = is_same and len({grant.number for grant in held.values()}) == 1  # which a renewal names
            return Granted(grants=held, is_new=False) if is_same else Conflict(held=held)
        for pool, amount in sorted(claim.amounts.items()):
            if too_small := never_fits(pool, amount, terms[pool]):
                self._leave_all(claim)
                return NeverFits(pool=pool, amount=amount, limit=too_small)
        waiter = self._waiter(claim, self._before(claim), terms)
        others = self._others(waiter)
        rooms = self._rooms(terms)
        standing = serve(waiter, others, rooms, self._line(claim))
        if all(status is Status.FITS for status in standing.values()):
            return self._grant(claim)
        return self._wait(claim, waiter, terms, others, rooms)

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        """Hold tokens for another lease: of all the pools, or of none."""
        held = self._held(renewal.token, renewal.amounts, renewal.place)
        if missing := tuple(sorted(renewal.amounts.keys() - held.keys())):
            return NotHeld(pools=missing)
        if other := [grant for grant in held.values() if grant.number != renewal.number]:
            return NotHeld(pools=tuple(grant.pool for grant in other), current=other[0].number)
        if amounts := {p: grant.amount for p, grant in held.items() if grant.amount != renewal.amounts[p]}:
            return NotHeld(pools=tuple(amounts), amounts=amounts)
        renewed = {pool: grant.renewed(self.now) for pool, grant in held.items()}
        for pool, grant in renewed.items():
            self.books[pool].grants[grant.token] = grant
            self.changes.grants.add((pool, grant.token))
        return Renewed(grants=renewed)

    def release(self, release: Release) -> Released | NotHeld:
        """Give back tokens of all the pools, or of none; or leave the line."""
        held = self._held(release.token, release.pools, release.place)
        waits = [pool for pool in release.pools if self._waits(pool, release)]
        if not held and waits:
            for pool in waits:
                self._leave(pool, release.token)
            self.changes.freed.update(waits)
            return Released(amounts={})
        if missing := tuple(sorted(set(release.pools) - held.keys())):
            return NotHeld(pools=missing)
        if release.number is not None:
            other = [grant for grant in held.values() if grant.number != release.number]
            if other:
                return NotHeld(pools=tuple(grant.pool for grant in other), current=other[0].number)
        for pool, grant in held.items():
            self.books[pool].remove(grant.token)
            self.changes.grants.add((pool, grant.token))
        self.changes.freed.update(held)
        return Released(amounts={pool: grant.amount for pool, grant in held.items()})

    def _held(self, token: str, pools: Iterable[str], place: Scope | None = None) -> dict[str, Grant]:
        """What a token holds in some pools; for a place only what belongs to that."""
        grants = {pool: self.books[pool].grants.get(token) for pool in sorted(pools) if pool in self.books}
        return {pool: grant for pool, grant in grants.items() if grant and (place is None or grant.is_of(place))}

    def _waits(self, pool: str, release: Release) -> bool:
        waiter = self.books[pool].waiters.get(release.token) if pool in self.books else None
        place = release.place
        return waiter is not None and (place is None or waiter.place[:2] == place[:2])

    def _next_number(self, pools: Iterable[str]) -> int:
        """A number that is larger than each that any of the pools has given."""
        number = 1 + max(self.books[pool].number for pool in pools)
        for pool in pools:
            self.books[pool].number = number
            self.changes.numbers.add(pool)
        return number

    def _grant(self, claim: Claim) -> Granted:
        self._leave_all(claim)
        number = self._next_number(claim.amounts)
        grants = {
            pool: Grant(
                pool=pool,
                token=claim.token,
                number=number,
                amount=amount,
                place=claim.place,
                execution=claim.execution,
                holder=claim.holder,
                lease_seconds=claim.lease_seconds,
                granted_at=self.now,
                expires_at=self.now + timedelta(seconds=claim.lease_seconds),
            )
            for pool, amount in sorted(claim.amounts.items())
        }
        for pool, grant in grants.items():
            self.books[pool].add(grant)
            self.changes.grants.add((pool, grant.token))
        return Granted(grants=grants)

    def _rooms(self, terms: Mapping[str, Terms]) -> dict[str, Room]:
        return {pool: Room.of(terms[pool].capacity, self.books[pool].used) for pool in terms}

    def _before(self, claim: Claim) -> Waiter | None:
        """The claim as it waits already; one that asks for something else now has to line up anew."""
        waited = (self.books[pool].waiters.get(claim.token) for pool in sorted(claim.amounts))
        return next((waiter for waiter in waited if waiter and waiter.amounts == claim.amounts), None)

    def _waiter(self, claim: Claim, before: Waiter | None, terms: Mapping[str, Terms]) -> Waiter:
        """A claim as one that waits, at the age of its first asking."""
        return Waiter(
            token=claim.token,
            number=before.number if before else 1 + max(self.books[pool].number for pool in claim.amounts),
            amounts=claim.amounts,
            caps={pool: tightest(terms[pool].limits) for pool in claim.amounts},
            standings={},
            place=claim.place,
            execution=claim.execution,
            holder=claim.holder,
            priority=claim.priority,
            weight=claim.weight * weight_of(terms),
            since=claim.since or (before.since if before else self.now),
            wait_seconds=claim.wait_seconds,
            expires_at=self.now + timedelta(seconds=claim.wait_seconds),
        )

    def _others(self, waiter: Waiter) -> list[Waiter]:
        """Those that wait for any of a claim's pools too."""
        others: dict[str, Waiter] = {}
        for pool in sorted(waiter.amounts):
            for other in self.books[pool].waiters.values():
                if other.token != waiter.token:
                    others.setdefault(other.token, other)
        return list(others.values())

    def _line(self, claim: Claim) -> Line | None:
        """The line that those stand in whom `_others` leaves out; only claims on one pool are asked of such pools."""
        lines = [line for pool in claim.amounts if (line := self.books[pool].line) is not None]
        assert not lines or len(claim.amounts) == 1
        return lines[0] if lines else None

    def _wait(
        self,
        claim: Claim,
        waiter: Waiter,
        terms: Mapping[str, Terms],
        others: Sequence[Waiter],
        served: Mapping[str, Room],
    ) -> Exhausted:
        rooms, line = self._rooms(terms), self._line(claim)
        standing = statuses(waiter, rooms)
        full = [full for pool in sorted(claim.amounts) for full in self._full(claim, pool, terms[pool], served[pool])]
        place, is_waiting = place_in_line(waiter, others, rooms, line), self._before(claim) is not None
        self._leave_all(claim)
        is_line_full = not is_waiting and any(self.books[pool].waiting >= MOST_WAITERS for pool in claim.amounts)
        waits = claim.wait_seconds > 0 and not is_line_full
        if waits:
            standings = {pool: Standing(status, share_in(waiter, rooms[pool])) for pool, status in standing.items()}
            number = waiter.number if is_waiting else self._next_number(claim.amounts)
            waiter = replace(waiter, number=number, standings=standings)
            for pool in claim.amounts:
                self.books[pool].waiters[claim.token] = waiter
                self.changes.waiters.add((pool, claim.token))
        told_place = place if waits else None
        return Exhausted(
            full=tuple(full),
            retry_seconds=retry_seconds(self._seconds_to_end(claim), told_place, served_at_once(claim.amounts, terms)),
            place=told_place,
            waiting=len(others) + waits + (0 if line is None else sum(line.queues.values())),
            is_repeated=is_waiting or claim.is_repeated,
            is_line_full=claim.wait_seconds > 0 and is_line_full,
        )

    def _full(self, claim: Claim, pool: str, terms: Terms, served: Room) -> list[Full]:
        """The limits of a pool that leave no room: by what is held, else by what is kept for those ahead."""
        book, amount = self.books[pool], claim.amounts[pool]
        limits = all_limits(pool, terms)
        by_use = [limit for limit in limits if book.used[limit.bucket] + amount > limit.cap]
        promised = Counter({limit.bucket: served.taken[limit.bucket] for limit in limits})
        if served.reserved:
            promised[WHOLE_POOL] = terms.capacity - book.used[WHOLE_POOL]
        by_line = [limit for limit in limits if book.used[limit.bucket] + promised[limit.bucket] + amount > limit.cap]
        holders = {limit: book.holders(limit.bucket) for limit in by_use or by_line}
        return [
            Full(
                pool=pool,
                limit=limit,
                amount=amount,
                used=book.used[limit.bucket],
                promised=0 if by_use else promised[limit.bucket],
                holders=largest,
                holder_count=number,
            )
            for limit, (largest, number) in holders.items()
        ]

    def _seconds_to_end(self, claim: Claim) -> float:
        """Until the first lease is over."""
        ends = [end for pool in claim.amounts if (end := self.books[pool].soonest_end()) is not None]
        return (min(ends) - self.now).total_seconds() + JUMP_SECONDS if ends else 0.0

    def _leave_all(self, claim: Claim) -> None:
        for pool in claim.amounts:
            self._leave(pool, claim.token)

    def _leave(self, pool: str, token: str) -> None:
        if self.books[pool].waiters.pop(token, None) is not None:
            self.changes.waiters.add((pool, token))


def served_at_once(amounts: Mapping[str, int], terms: Mapping[str, Terms]) -> int:
    """How many claims of such amounts idle pools would serve together."""
    return max(1, min(terms[pool].capacity // amount for pool, amount in amounts.items()))


def retry_seconds(seconds_to_end: float, place: int | None = None, at_once: int = 1) -> float:
    """When to ask again: when the first lease is over, or sooner, for tokens may be given back before.

    Those at the head of the line ask most often, so that what comes free is taken soon: of a pool that serves many at
    once, as many share what one may ask.
    """
    by_place = RETRY_SECONDS
    if place is not None:
        turns = -(-place // at_once)
        by_turn = turns * max(SOONEST_RETRY_SECONDS, at_once / _HEAD_ASKS_PER_SECOND)
        by_place = min(SOONEST_RETRY_SECONDS * place, by_turn)
    return max(SOONEST_RETRY_SECONDS, min(RETRY_SECONDS, by_place, seconds_to_end))
