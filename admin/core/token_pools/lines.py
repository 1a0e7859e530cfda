"""Lines: those that wait for tokens, in which order they are served, and what is kept for those ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, Protocol

from admin.core.settings.scopes import Scope
from admin.core.token_pools.limits import WHOLE_POOL, buckets_of, is_of_execution, share_bucket
from admin.core.token_pools.queues import Queue

#: Claims that may stand in line for one pool.
MOST_WAITERS = 1000


#: Since when something waits, and by which number: of those alike the smaller is served first.
Age = tuple[datetime, int]


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

    @property
    def age(self) -> Age:
        return self.since, self.number


class Line(Protocol):
    """A long line for one pool, of which only those are read that matter: all in it ask for that pool alone."""

    @property
    def queues(self) -> Mapping[Queue, int]:
        """How many stand in each queue."""

    def load(self, queues: Iterable[Queue]) -> None:
        """Read the first of some queues together."""

    def waiter(self, queue: Queue, position: int) -> Waiter:
        """One of a queue, by its position; the oldest is at 0."""

    def count_older(self, queues: Iterable[Queue], age: Age) -> int:
        """How many stand in some queues that are older."""


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
    return _share(share_bucket(waiter.place), waiter.weight, room)


def _share(bucket: str, weight: float, room: Room) -> float:
    return room.total(bucket) / (weight * max(room.capacity, 1))


def statuses(waiter: Waiter, rooms: Mapping[str, Room]) -> dict[str, Status]:
    """How a claim stands in each of its pools; in those that are not at hand, as it stood last."""
    return {
        pool: status_in(waiter, pool, rooms[pool]) if pool in rooms else _standing(waiter, pool).status
        for pool in waiter.amounts
    }


#: Where one stands, the smaller is first.
Rank = tuple[int, float, datetime, int, str]
#: Before every time that something waits since.
_NEVER = datetime.min.replace(tzinfo=UTC)


def rank(waiter: Waiter, rooms: Mapping[str, Room]) -> Rank:
    """The smaller is served first: by priority, by the largest share of any of its pools, by age."""
    share = max(
        share_in(waiter, rooms[pool]) if pool in rooms else _standing(waiter, pool).share for pool in waiter.amounts
    )
    return -waiter.priority, share, waiter.since, waiter.number, waiter.token


def _standing(waiter: Waiter, pool: str) -> Standing:
    return waiter.standings.get(pool, Standing(Status.FITS, 0.0))


class _Alike(Protocol):
    """Those that wait of which the older one is always served first."""

    def bound(self, rooms: Mapping[str, Room]) -> Rank:
        """The rank of the first, or a smaller one where that is not read yet."""

    @property
    def first(self) -> Waiter | None:
        """The oldest; None where nobody is left."""

    def remove(self, rooms: Mapping[str, Room]) -> None:
        """Take out the first."""


class _ReadWhole:
    """Those alike of a line that was read whole."""

    def __init__(self, waiters: list[Waiter]) -> None:
        self._waiters = sorted(waiters, key=lambda waiter: (*waiter.age, waiter.token), reverse=True)

    def bound(self, rooms: Mapping[str, Room]) -> Rank:
        return rank(self._waiters[-1], rooms)

    @property
    def first(self) -> Waiter | None:
        return self._waiters[-1] if self._waiters else None

    def remove(self, rooms: Mapping[str, Room]) -> None:
        self._waiters.pop()


class _ReadInParts:
    """A queue of a long line."""

    def __init__(self, line: Line, queue: Queue, number: int, pool: str) -> None:
        self.line = line
        self.queue = queue
        self.is_begun = False  #: whether its first was looked at
        self._number = number
        self._pool = pool
        self._position = 0

    def bound(self, rooms: Mapping[str, Room]) -> Rank:
        if self.is_begun and (first := self.first) is not None:
            return rank(first, rooms)
        share = _share(self.queue.share_bucket, self.queue.weight, rooms[self._pool])
        return -self.queue.priority, share, _NEVER, 0, ""

    @property
    def first(self) -> Waiter | None:
        return self.line.waiter(self.queue, self._position) if self._position < self._number else None

    def remove(self, rooms: Mapping[str, Room]) -> None:
        first = self.first
        assert first is not None
        shared = {bucket: cap for bucket, cap in first.caps.get(self._pool, {}).items() if not is_of_execution(bucket)}
        is_blocked = any(rooms[self._pool].total(bucket) + self.queue.amount > cap for bucket, cap in shared.items())
        self._position = self._number if is_blocked else self._position + 1  # what blocks one of them blocks all


class _Ahead:
    """Those that wait, of which the next to be served is found while the rooms are used up.

    What is taken raises the share of one project and lowers no other, so that a rank that is out of date is too small:
    it is looked at anew when it comes up.
    """

    def __init__(self, waiters: Iterable[Waiter], rooms: Mapping[str, Room], line: Iterable[_ReadInParts]) -> None:
        self._rooms = rooms
        alike: dict[Hashable, list[Waiter]] = {}
        for waiter in waiters:
            if Status.BLOCKED not in statuses(waiter, rooms).values():
                alike.setdefault(_shared(waiter, rooms), []).append(waiter)
        queues: list[_Alike] = [*map(_ReadWhole, alike.values()), *line]
        self._heap = [(queue.bound(rooms), position, queue) for position, queue in enumerate(queues)]
        heapify(self._heap)

    def first(self) -> Waiter | None:
        """The one that is served next; None where nobody is left."""
        while self._heap:
            known, position, queue = self._heap[0]
            self._begin(queue, known)
            now = queue.bound(self._rooms)
            if now == known:
                return queue.first
            heapreplace(self._heap, (now, position, queue))
        return None

    def _begin(self, queue: _Alike, known: Rank) -> None:
        """Read the first of a queue that comes up, together with those that may come up as soon."""
        if not isinstance(queue, _ReadInParts) or queue.is_begun:
            return
        others = (other for bound, _, other in self._heap if bound[:2] == known[:2])
        begun = [other for other in others if isinstance(other, _ReadInParts) and not other.is_begun]
        queue.line.load(other.queue for other in begun)
        for other in begun:
            other.is_begun = True

    def remove_first(self) -> None:
        """Take out the one that `first` has found."""
        _, position, queue = self._heap[0]
        queue.remove(self._rooms)
        if queue.first is not None:
            heapreplace(self._heap, (queue.bound(self._rooms), position, queue))
        else:
            heappop(self._heap)


def _shared(waiter: Waiter, rooms: Mapping[str, Room]) -> Hashable:
    """What those have in common of which the older one is always served first."""
    at_hand = frozenset(waiter.amounts.keys() & rooms.keys())
    others = max((_standing(waiter, pool).share for pool in waiter.amounts if pool not in rooms), default=0.0)
    return waiter.priority, share_bucket(waiter.place), waiter.weight, at_hand, others


def serve(
    waiter: Waiter, others: Sequence[Waiter], rooms: Mapping[str, Room], line: Line | None = None
) -> dict[str, Status]:
    """How a claim stands once those ahead of it in line have what they can have; the rooms are used up by that.

    One that a cap of its own blocks is passed over. One that a pool is too short for reserves what is free there. One
    that fits takes its tokens, which raises the share of its project. That goes on until it is the claim's turn, or it
    no longer fits. Besides the others there may be a line for its one pool that is read as far as that.
    """
    standing = statuses(waiter, rooms)
    if not _fits(standing) or (line is not None and _has_room_for_all(waiter, others, rooms, line)):
        return standing
    ahead = _Ahead(others, rooms, _parts(waiter, rooms, line))
    while _fits(standing) and (first := ahead.first()) is not None:
        if rank(waiter, rooms) < rank(first, rooms):
            break
        has_taken = _take(first, rooms)
        ahead.remove_first()
        if has_taken:
            standing = statuses(waiter, rooms)
    return standing


def _has_room_for_all(waiter: Waiter, others: Sequence[Waiter], rooms: Mapping[str, Room], line: Line) -> bool:
    """Whether a claim fits even if everybody who waits gets everything, in whatever order they are served."""
    [(pool, amount)] = waiter.amounts.items()
    asked = amount + sum(queue.amount * number for queue, number in line.queues.items())
    asked += sum(other.amounts[pool] for other in others)
    room, caps = rooms[pool], waiter.caps.get(pool, {})
    return asked <= room.free and all(room.total(bucket) + asked <= cap for bucket, cap in caps.items())


def _parts(waiter: Waiter, rooms: Mapping[str, Room], line: Line | None) -> list[_ReadInParts]:
    """The queues of a line in which somebody may take or reserve something."""
    if line is None:
        return []
    [pool] = waiter.amounts
    return [
        _ReadInParts(line, queue, number, pool)
        for queue, number in line.queues.items()
        if queue.amount <= rooms[pool].capacity and number
    ]


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


def place_in_line(waiter: Waiter, others: Sequence[Waiter], rooms: Mapping[str, Room], line: Line | None = None) -> int:
    """The place of a claim among those that wait for any of its pools; the first is 1."""
    own = rank(waiter, rooms)
    return 1 + sum(rank(other, rooms) < own for other in others) + _number_ahead(waiter, own, rooms, line)


def _number_ahead(waiter: Waiter, own: Rank, rooms: Mapping[str, Room], line: Line | None) -> int:
    """How many of a line stand before one of some rank."""
    if line is None:
        return 0
    [pool] = waiter.amounts
    number, level = 0, []
    for queue, length in line.queues.items():
        rank_of_queue = -queue.priority, _share(queue.share_bucket, queue.weight, rooms[pool])
        if rank_of_queue < own[:2]:
            number += length
        elif rank_of_queue == own[:2]:
            level.append(queue)
    return number + (line.count_older(level, waiter.age) if level else 0)


def in_order(waiters: Iterable[Waiter], rooms: Mapping[str, Room]) -> list[Waiter]:
    """Those that wait, the first to be served first."""
    return sorted(waiters, key=lambda waiter: rank(waiter, rooms))
