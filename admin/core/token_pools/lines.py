"""Lines: those that wait for tokens, in which order they are served, and what is kept for those ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, Protocol

from admin.core.settings.scopes import Scope
from admin.core.token_pools.limits import WHOLE_POOL, buckets_of, share_bucket

#: Claims that may stand in line for one pool: each that asks looks at them all.
MOST_WAITERS = 1000


class Status(Enum):
    """How a claim stands in one pool."""

    FITS = "fits"
    SHORT = "short"  # the pool itself has too little free
    BLOCKED = "blocked"  # by a cap of its own, or by a capacity that it never fits into


class Standing(NamedTuple):
    """How a claim stood in a pool when it asked last."""

    status: Status
    share: float  #: of the pool, that its project held for its weight


@dataclass(frozen=True, kw_only=True)
class Waiter:
    """A claim that waits, as it was when it asked last."""

    token: str
    number: int  #: the smaller came earlier
    amounts: Mapping[str, int]  #: by pool
    caps: Mapping[str, Mapping[str, int]]  #: by pool and bucket
    standings: Mapping[str, Standing]  #: by pool
    place: Scope
    execution: str
    holder: str
    priority: int
    weight: float
    since: datetime
    wait_seconds: float
    expires_at: datetime  #: when it leaves the line unless it asks again


@dataclass(kw_only=True)
class Room:
    """What is used of a pool, and what is left of it while a line is served."""

    capacity: int
    used: Counter[str]  #: by bucket
    taken: Counter[str]  #: by bucket, by those ahead
    reserved: bool = False  #: whether the rest is kept for one ahead that needs more

    @property
    def free(self) -> int:
        """What the next in line may take."""
        return 0 if self.reserved else self.capacity - self.total(WHOLE_POOL)

    def total(self, bucket: str) -> int:
        """What counts in a bucket by now."""
        return self.used[bucket] + self.taken[bucket]

    @classmethod
    def of(cls, capacity: int, used: Counter[str]) -> Room:
        """A pool before anyone in line is served."""
        return cls(capacity=capacity, used=used, taken=Counter())


def status_in(waiter: Waiter, pool: str, room: Room) -> Status:
    """How a claim stands in a pool now."""
    amount = waiter.amounts[pool]
    if amount > room.capacity:
        return Status.BLOCKED
    for bucket, cap in waiter.caps.get(pool, {}).items():
        if room.total(bucket) + amount > cap:
            return Status.BLOCKED
    return Status.SHORT if amount > room.free else Status.FITS


class Sharing(Protocol):
    """What has a share of a pool."""

    @property
    def place(self) -> Scope: ...

    @property
    def weight(self) -> float: ...


def share_in(waiter: Sharing, room: Room) -> float:
    """What a claim's project has of a pool, for its weight."""
    return room.total(share_bucket(waiter.place)) / (waiter.weight * max(room.capacity, 1))


def statuses(waiter: Waiter, rooms: Mapping[str, Room]) -> dict[str, Status]:
    """How a claim stands in each of its pools; in those that are not at hand, as it stood last."""
    return {
        pool: status_in(waiter, pool, rooms[pool]) if pool in rooms else _standing(waiter, pool).status
        for pool in waiter.amounts
    }


def rank(waiter: Waiter, rooms: Mapping[str, Room]) -> tuple[int, float, datetime, int, str]:
    """The smaller is served first: by priority, by the largest share of any of its pools, by age."""
    share = max(
        share_in(waiter, rooms[pool]) if pool in rooms else _standing(waiter, pool).share for pool in waiter.amounts
    )
    return -waiter.priority, share, waiter.since, waiter.number, waiter.token


def _standing(waiter: Waiter, pool: str) -> Standing:
    return waiter.standings.get(pool, Standing(Status.FITS, 0.0))


class _Ahead:
    """Those that wait, of which the next to be served is found while the rooms are used up.

    What is taken raises the share of one project and lowers no other, so that a rank that is out of date is too small:
    it is looked at anew when it comes up. Those whose ranks change together stand in one queue, by age.
    """

    def __init__(self, waiters: Iterable[Waiter], rooms: Mapping[str, Room]) -> None:
        self._rooms = rooms
        queues: dict[Hashable, list[Waiter]] = {}
        for waiter in waiters:
            if Status.BLOCKED not in statuses(waiter, rooms).values():
                queues.setdefault(_shared(waiter, rooms), []).append(waiter)
        for queue in queues.values():
            queue.sort(key=lambda waiter: (waiter.since, waiter.number, waiter.token), reverse=True)
        self._heap = [(rank(queue[-1], rooms), queue) for queue in queues.values()]
        heapify(self._heap)

    def first(self) -> Waiter | None:
        """The one that is served next; None where nobody is left."""
        while self._heap:
            known, queue = self._heap[0]
            now = rank(queue[-1], self._rooms)
            if now == known:
                return queue[-1]
            heapreplace(self._heap, (now, queue))
        return None

    def remove_first(self) -> None:
        """Take out the one that `first` has found."""
        _, queue = self._heap[0]
        queue.pop()
        if queue:
            heapreplace(self._heap, (rank(queue[-1], self._rooms), queue))
        else:
            heappop(self._heap)


def _shared(waiter: Waiter, rooms: Mapping[str, Room]) -> Hashable:
    """What those have in common of which the older one is always served first."""
    at_hand = frozenset(waiter.amounts.keys() & rooms.keys())
    others = max((_standing(waiter, pool).share for pool in waiter.amounts if pool not in rooms), default=0.0)
    return waiter.priority, share_bucket(waiter.place), waiter.weight, at_hand, others


def serve(waiter: Waiter, others: Iterable[Waiter], rooms: Mapping[str, Room]) -> dict[str, Status]:
    """How a claim stands once those ahead of it in line have what they can have; the rooms are used up by that.

    One that a cap of its own blocks is passed over. One that a pool is too short for reserves what is free there. One
    that fits takes its tokens, which raises the share of its project. That goes on until it is the claim's turn, or it
    no longer fits.
    """
    standing = statuses(waiter, rooms)
    if not _fits(standing):
        return standing
    ahead = _Ahead(others, rooms)
    while _fits(standing) and (first := ahead.first()) is not None:
        if rank(waiter, rooms) < rank(first, rooms):
            break
        ahead.remove_first()
        if _take(first, rooms):
            standing = statuses(waiter, rooms)
    return standing


def _fits(standing: Mapping[str, Status]) -> bool:
    return all(status is Status.FITS for status in standing.values())


def _take(waiter: Waiter, rooms: Mapping[str, Room]) -> bool:
    """Have one take what it can have; whether that leaves less to others."""
    standing = statuses(waiter, rooms)
    if Status.BLOCKED in standing.values():
        return False
    is_short = Status.SHORT in standing.values()
    for pool in waiter.amounts.keys() & rooms.keys():
        if is_short:
            rooms[pool].reserved |= standing[pool] is Status.SHORT
        else:
            for bucket in buckets_of(waiter.place, waiter.execution):
                rooms[pool].taken[bucket] += waiter.amounts[pool]
    return True


def place_in_line(waiter: Waiter, others: Sequence[Waiter], rooms: Mapping[str, Room]) -> int:
    """The place of a claim among those that wait for any of its pools; the first is 1."""
    own = rank(waiter, rooms)
    return 1 + sum(rank(other, rooms) < own for other in others)


def in_order(waiters: Iterable[Waiter], rooms: Mapping[str, Room]) -> list[Waiter]:
    """Those that wait, the first to be served first."""
    return sorted(waiters, key=lambda waiter: rank(waiter, rooms))
