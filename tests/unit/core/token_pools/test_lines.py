"""In which order those that wait are served, and what is kept for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Exhausted, Granted
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import Caps, TokenPool
from admin.core.token_pools.limits import WHOLE_POOL, buckets_of, execution_bucket
from admin.core.token_pools.lines import Age, Room, Standing, Status, Waiter, place_in_line, rank, serve, statuses
from admin.core.token_pools.queues import Queue, queue_of
from tests.unit.core.token_pools.ledgers import NOON, Pools, claim


def waiting(token: str, pools: dict[str, int] | None = None, **fields: Any) -> Claim:
    return claim(token, pools, wait_seconds=30, lease_seconds=600, **fields)


def full_pool(capacity: int = 1) -> Pools:
    """A pool that project `old` holds whole."""
    pools = Pools(TokenPool(name="hive", capacity=capacity))
    pools.granted(waiting("old", {"hive": capacity}, project="old"))
    return pools


def served(pools: Pools, claims: list[Claim]) -> list[str]:
    """Who gets a token, in which order, if all ask over and over and one gives back after the other."""
    order: list[str] = []
    claims = list(claims)
    while claims:
        for asked in claims:
            if isinstance(pools.allocate(asked), Granted):
                order.append(asked.token)
                claims.remove(asked)
                break
        else:
            raise AssertionError(f"nobody is served of {[asked.token for asked in claims]}")
        pools.release(order[-1])
    return order


def test_the_oldest_is_served_first() -> None:
    pools = full_pool()
    claims = [waiting(token) for token in "abc"]
    assert [pools.refused(asked).place for asked in claims] == [1, 2, 3]
    pools.release("old")
    pools.refused(claims[1])
    assert served(pools, claims[::-1]) == ["a", "b", "c"]


def test_priority_comes_before_age() -> None:
    pools = full_pool()
    claims = [waiting("a"), waiting("b", priority=5), waiting("c", priority=9)]
    for asked in claims:
        pools.refused(asked)
    assert pools.refused(claims[1]).place == 2
    pools.release("old")
    assert served(pools, claims) == ["c", "b", "a"]


def test_the_smallest_share_for_its_weight_comes_before_age() -> None:
    pools = Pools(TokenPool(name="hive", capacity=10))
    pools.granted(waiting("h1", {"hive": 6}, project="big"))
    pools.granted(waiting("h2", {"hive": 3}, project="small"))
    pools.granted(waiting("h3", {"hive": 1}, project="other"))
    heavy = waiting("a", project="big", weight=3.0)  # 6 for 3
    light = waiting("b", project="small")  # 3 for 1
    for asked in (light, heavy):
        pools.refused(asked)
    pools.release("h3")
    assert isinstance(pools.allocate(light), Exhausted)
    assert isinstance(pools.allocate(heavy), Granted)


def test_shares_count_what_those_ahead_are_about_to_get() -> None:
    pools = full_pool(2)
    for asked in (waiting("a1", project="a"), waiting("a2", project="a"), waiting("b1", project="b")):
        pools.refused(asked)
    pools.release("old")
    assert isinstance(pools.allocate(waiting("b1", project="b")), Granted)
    assert isinstance(pools.allocate(waiting("a2", project="a")), Exhausted)
    assert isinstance(pools.allocate(waiting("a1", project="a")), Granted)


def test_a_large_request_at_the_head_reserves_what_comes_free() -> None:
    pools = Pools(TokenPool(name="hive", capacity=3))
    for token in ("x", "y", "z"):
        pools.granted(waiting(token))
    pools.refused(waiting("large", {"hive": 3}))
    pools.release("x")
    answer = pools.refused(waiting("small"))
    [full] = answer.full
    assert (full.limit.level, full.used, full.promised, answer.place) == ("pool", 2, 1, 2)
    pools.release("y")
    pools.refused(waiting("small"))
    pools.release("z")
    pools.granted(waiting("large", {"hive": 3}))


def test_one_that_its_own_cap_blocks_reserves_nothing() -> None:
    pools = Pools(TokenPool(name="hive", capacity=10, caps=Caps(project=4)))
    pools.granted(waiting("x", {"hive": 3}))
    answer = pools.refused(waiting("blocked", {"hive": 4}))
    assert [full.limit.level for full in answer.full] == ["project"]
    pools.granted(waiting("other", {"hive": 4}, project="search"))
    pools.granted(waiting("same"))


def test_one_that_no_longer_fits_into_a_lowered_capacity_holds_nobody_up() -> None:
    pools = full_pool(5)
    pools.refused(waiting("large", {"hive": 5}))
    pools.pools["hive"] = TokenPool(name="hive", capacity=3)
    pools.release("old")
    pools.granted(waiting("small"))


def test_one_that_waits_for_another_pool_reserves_only_where_that_is_short() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1), TokenPool(name="spark", capacity=1))
    pools.granted(waiting("x", {"spark": 1}))
    pools.refused(waiting("both", {"hive": 1, "spark": 1}))
    pools.granted(waiting("y", {"hive": 1}))
    pools.release("x", "spark")
    assert pools.refused(waiting("z", {"spark": 1})).full[0].promised == 1  # it fitted into hive when it asked last
    pools.refused(waiting("both", {"hive": 1, "spark": 1}))
    pools.granted(waiting("z", {"spark": 1}))
    pools.release("y", "hive")
    assert pools.refused(waiting("y2", {"hive": 1})).full[0].promised == 1
    pools.release("z", "spark")
    pools.granted(waiting("both", {"hive": 1, "spark": 1}))


def test_who_asks_no_longer_leaves_the_line() -> None:
    pools = full_pool()
    pools.refused(waiting("gone"))
    pools.release("old")
    pools.refused(waiting("b"))
    pools.after(31)
    pools.granted(waiting("b"))


def test_who_gives_up_leaves_the_line_at_once() -> None:
    pools = full_pool()
    pools.refused(waiting("gone"))
    pools.release("old")
    pools.release("gone")
    pools.granted(waiting("b"))


def test_asking_without_waiting_takes_no_place() -> None:
    pools = full_pool()
    assert pools.refused(claim("a")).place is None
    pools.release("old")
    pools.granted(waiting("b"))


def serve_one_by_one(waiter: Waiter, others: list[Waiter], rooms: Mapping[str, Room]) -> dict[str, Status]:
    """The rule of the line, looking at everybody each time."""
    ahead = [other for other in others if Status.BLOCKED not in statuses(other, rooms).values()]
    standing = statuses(waiter, rooms)
    while all(status is Status.FITS for status in standing.values()) and ahead:
        first = min(ahead, key=lambda other: rank(other, rooms))
        if rank(waiter, rooms) < rank(first, rooms):
            break
        ahead.remove(first)
        status = statuses(first, rooms)
        if Status.BLOCKED not in status.values():
            for pool in first.amounts.keys() & rooms.keys():
                if Status.SHORT in status.values():
                    rooms[pool].reserved |= status[pool] is Status.SHORT
                else:
                    rooms[pool].taken.update(dict.fromkeys(buckets_of(first.place, ""), first.amounts[pool]))
        standing = statuses(waiter, rooms)
    return standing


@pytest.mark.parametrize("seed", range(40))
def test_the_line_serves_as_one_that_looks_at_everybody(seed: int) -> None:
    dice = Random(seed)
    names, number = ("hive", "spark", "elsewhere"), dice.choice((3, 30, 120))

    def any_waiter(position: int) -> Waiter:
        place = Scope(dice.choice(("dev", "prod")), dice.choice(("ads", "maps", "search")))
        pools = dice.sample(names, dice.choice((1, 1, 2, 3)))
        if pools == ["elsewhere"]:
            pools = ["hive"]
        return Waiter(
            token=f"t{position}",
            number=position,
            amounts={pool: dice.choice((1, 1, 1, 2, 4)) for pool in pools},
            caps={pool: {Scope(project=place.project).path: dice.choice((2, 4, 50))} for pool in pools},
            standings={"elsewhere": Standing(dice.choice(list(Status)), dice.choice((0.0, 0.1, 0.5)))},
            place=place,
            execution="",
            holder="",
            priority=dice.choice((0, 0, 1)),
            weight=dice.choice((1.0, 1.0, 2.0)),
            since=NOON + timedelta(seconds=dice.randrange(5)),
            wait_seconds=10,
            expires_at=NOON,
        )

    waiter, *others = [any_waiter(position) for position in range(number)]
    used = {name: Counter({Scope(project="ads").path: 2, WHOLE_POOL: 2}) for name in names[:2]}
    capacity = dice.choice((4, 20, 200))
    quick, slow = ({name: Room.of(capacity, used[name].copy()) for name in names[:2]} for _ in range(2))
    assert serve(waiter, others, quick) == serve_one_by_one(waiter, others, slow)
    assert quick == slow


class LineOfParts:
    """A line in memory that is read in parts."""

    def __init__(self, waiters: Iterable[Waiter]) -> None:
        self._waiters: dict[Queue, list[Waiter]] = {}
        for waiter in sorted(waiters, key=lambda waiter: waiter.age):
            queue = queue_of(waiter.amounts, waiter.caps, waiter.place, waiter.priority, waiter.weight)
            assert queue is not None
            self._waiters.setdefault(Queue.read(queue.text), []).append(waiter)
        self.queues = {queue: len(own) for queue, own in self._waiters.items()}
        self.read: set[Queue] = set()

    def load(self, queues: Iterable[Queue]) -> None:
        self.read.update(queues)

    def waiter(self, queue: Queue, position: int) -> Waiter:
        assert queue in self.read
        return self._waiters[queue][position]

    def count_older(self, queues: Iterable[Queue], age: Age) -> int:
        return sum(waiter.age < age for queue in queues for waiter in self._waiters[queue])


@pytest.mark.parametrize("seed", range(60))
def test_a_line_that_is_read_in_parts_serves_as_one_that_is_read_whole(seed: int) -> None:
    dice = Random(seed)
    capacity = dice.choice((2, 8, 40, 400))

    def any_waiter(position: int) -> Waiter:
        place = Scope(dice.choice(("dev", "prod")), dice.choice(("ads", "maps", "search")))
        execution = dice.choice(("", "r1", "r2"))
        caps = {Scope(project=place.project).path: dice.choice((2, 20, 300))}
        if execution:
            caps[execution_bucket(place, execution)] = dice.choice((2, 50))
        return Waiter(
            token=f"t{position}",
            number=position,
            amounts={"hive": dice.choice((1, 1, 1, 2, 4))},
            caps={"hive": caps},
            standings={},
            place=place,
            execution=execution,
            holder="",
            priority=dice.choice((0, 0, 1)),
            weight=dice.choice((1.0, 1.0, 2.0)),
            since=NOON + timedelta(seconds=dice.randrange(5)),
            wait_seconds=10,
            expires_at=NOON,
        )

    waiters = [any_waiter(position) for position in range(dice.choice((4, 40, 150)))]
    used = Counter({Scope(project="ads").path: 2, WHOLE_POOL: 2})
    for waiter in dice.sample(waiters, 4):
        others = [other for other in waiters if other is not waiter]
        at_hand = others[: dice.choice((0, 2))]
        line = LineOfParts(others[len(at_hand) :])
        parts, whole = ({"hive": Room.of(capacity, used.copy())} for _ in range(2))
        assert place_in_line(waiter, at_hand, parts, line) == place_in_line(waiter, others, whole)
        standing = serve(waiter, at_hand, parts, line)
        assert standing == serve(waiter, others, whole)
        if standing["hive"] is not Status.FITS:  # otherwise nobody looks at what is left
            assert (parts["hive"].reserved, +parts["hive"].taken) == (whole["hive"].reserved, +whole["hive"].taken)
