"""Lines: those that wait for tokens, in which order they are served, and what is kept for those ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from admin.core.settings.scopes import Scope
from admin.core.token_pools.limits import WHOLE_POOL, buckets_of, share_bucket


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


def serve(waiter: Waiter, others: Iterable[Waiter], rooms: Mapping[str, Room]) -> dict[str, Status]:
    """How a claim stands once those ahead of it in line have what they can have; the rooms are used up by that.

    One that a cap of its own blocks is passed over. One that a pool is too short for reserves what is free there. One
    that fits takes its tokens, which raises the share of its project. That goes on until it is the claim's turn, or it
    no longer fits.
    """
    ahead = [other for other in others if Status.BLOCKED not in statuses(other, rooms).values()]
    standing = statuses(waiter, rooms)
    while all(status is Status.FITS for status in standing.values()) and ahead:
        first = min(ahead, key=lambda other: rank(other, rooms))
        if rank(waiter, rooms) < rank(first, rooms):
            break
        ahead.remove(first)
        _take(first, rooms)
        standing = statuses(waiter, rooms)
    return standing


def _take(waiter: Waiter, rooms: Mapping[str, Room]) -> None:
    standing = statuses(waiter, rooms)
    if Status.BLOCKED in standing.values():
        return
    is_short = Status.SHORT in standing.values()
    for pool in waiter.amounts.keys() & rooms.keys():
        if is_short:
            rooms[pool].reserved |= standing[pool] is Status.SHORT
        else:
            for bucket in buckets_of(waiter.place, waiter.execution):
                rooms[pool].taken[bucket] += waiter.amounts[pool]


def place_in_line(waiter: Waiter, others: Sequence[Waiter], rooms: Mapping[str, Room]) -> int:
    """The place of a claim among those that wait for any of its pools; the first is 1."""
    own = rank(waiter, rooms)
    return 1 + sum(rank(other, rooms) < own for other in others)


def in_order(waiters: Iterable[Waiter], rooms: Mapping[str, Room]) -> list[Waiter]:
    """Those that wait, the first to be served first."""
    return sorted(waiters, key=lambda waiter: rank(waiter, rooms))
