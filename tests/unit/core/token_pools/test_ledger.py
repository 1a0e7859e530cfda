"""What operations on token pools come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import (
    Conflict,
    Granted,
    NeverFits,
    NotHeld,
    Released,
    Renewed,
    UnknownPools,
)
from admin.core.token_pools.definitions import Caps, TokenPool
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.ledger import retry_seconds
from admin.core.token_pools.steadiness import JUMP_SECONDS, Steadiness
from tests.unit.core.token_pools.ledgers import NOON, Pools, claim, quota


def test_a_full_pool_says_who_holds_it_and_when_to_ask_again() -> None:
    pools = Pools(TokenPool(name="hive", capacity=2))
    pools.granted(claim("a", {"hive": 2}, holder="maria", execution="run1", lease_seconds=60))
    answer = pools.refused(claim("b"))
    [full] = answer.full
    assert (full.pool, full.limit.level, full.limit.cap, full.used, full.amount) == ("hive", "pool", 2, 2, 1)
    assert full.limit.origin == "the capacity of token pool 'hive'"
    [holder] = full.holders
    assert (holder.token, holder.holder, holder.execution, holder.amount) == ("a", "maria", "run1", 2)
    assert (holder.granted_at, holder.expires_at) == (NOON, NOON + timedelta(seconds=60))
    assert (full.holder_count, answer.retry_seconds, answer.place) == (1, 2.0, None)


def test_the_same_token_gets_the_same_answer_and_takes_nothing_twice() -> None:
    pools = Pools(TokenPool(name="hive", capacity=2))
    first = pools.allocate(claim("a"))
    again = pools.allocate(claim("a"))
    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert (again.grants, first.is_new, again.is_new, pools.used()) == (first.grants, True, False, 1)


@pytest.mark.parametrize("pools", [{"hive": 2}, {"hive": 1, "spark": 1}])
def test_a_token_that_holds_something_else_is_in_conflict(pools: dict[str, int]) -> None:
    state = Pools(TokenPool(name="hive", capacity=5), TokenPool(name="spark", capacity=5))
    state.granted(claim("a"))
    assert isinstance(state.allocate(claim("a", pools)), Conflict)
    assert (state.used("hive"), state.used("spark")) == (1, 0)


def test_what_can_never_fit_is_refused_with_the_tightest_level() -> None:
    pools = Pools(TokenPool(name="hive", capacity=10, caps=Caps(project=5, namespace=3)))
    answer = pools.allocate(claim("a", {"hive": 4}, wait_seconds=60))
    assert isinstance(answer, NeverFits)
    assert (answer.pool, answer.amount, answer.limit.level, answer.limit.cap) == ("hive", 4, "namespace", 3)
    assert pools.books["hive"].waiters == {}


def test_unknown_pools_are_named() -> None:
    pools = Pools(TokenPool(name="hive", capacity=10))
    assert pools.allocate(claim("a", {"hive": 1, "hvie": 1})) == UnknownPools(pools=("hvie",))
    assert pools.used() == 0


@pytest.mark.parametrize(
    ("caps", "others", "level"),
    [
        (Caps(project=2), [("ads", "prod", "r1"), ("ads", "dev", "r2")], "project"),
        (Caps(namespace=2), [("ads", "prod", "r1"), ("ads", "prod", "r2")], "namespace"),
        (Caps(execution=1), [("ads", "prod", "r9")], "execution"),
    ],
)
def test_caps_nest(caps: Caps, others: list[tuple[str, str, str]], level: str) -> None:
    pools = Pools(TokenPool(name="hive", capacity=10, caps=caps))
    for number, (project, domain, execution) in enumerate(others):
        pools.granted(claim(f"t{number}", project=project, domain=domain, execution=execution))
    answer = pools.refused(claim("x", execution="r9"))
    assert [full.limit.level for full in answer.full] == [level]
    assert answer.full[0].limit.origin == "the caps of token pool 'hive'"
    pools.granted(claim("y", project="search", execution="r9"))


def test_every_quota_row_on_the_way_holds_and_counts_all_below_it() -> None:
    rows = (
        quota(7, Scope("prod"), hive=3),
        quota(8, Scope("", "ads"), hive=5),
        quota(9, Scope("prod", "ads"), hive=100),  # a narrower row does not widen
    )
    pools = Pools(TokenPool(name="hive", capacity=50), rows=rows)
    pools.granted(claim("a", {"hive": 2}, project="search"))
    pools.granted(claim("b", {"hive": 1}))
    answer = pools.refused(claim("c"))
    assert [(full.limit.level, full.used, full.limit.cap) for full in answer.full] == [("domain", 3, 3)]
    assert answer.full[0].limit.origin == "TOKEN_POOL_QUOTA at domain prod, version 7"
    pools.granted(claim("d", {"hive": 4}, domain="dev"))
    answer = pools.refused(claim("e", domain="dev"))
    assert [full.limit.origin for full in answer.full] == ["TOKEN_POOL_QUOTA at project ads, version 8"]


def test_quotas_are_read_when_granting() -> None:
    pools = Pools(TokenPool(name="hive", capacity=50))
    pools.granted(claim("a", {"hive": 5}))
    pools.rows = {Scope("", "ads"): quota(3, Scope("", "ads"), hive=5)}
    assert pools.refused(claim("b")).full[0].limit.level == "project"
    pools.rows = {}
    pools.granted(claim("b"))


def test_constraints_of_a_claim_bound_it_too() -> None:
    pools = Pools(TokenPool(name="hive", capacity=50))
    pools.granted(claim("a", {"hive": 2}))
    answer = pools.refused(claim("b", constraints=Caps(project=2)))
    assert answer.full[0].limit.origin == "the constraints of the request"
    pools.granted(claim("c"))


def test_capacity_lowered_under_use_takes_nothing_away_and_grants_nothing_until_it_fits() -> None:
    pools = Pools(TokenPool(name="hive", capacity=4))
    for token in "abcd":
        pools.granted(claim(token))
    pools.pools["hive"] = TokenPool(name="hive", capacity=2)
    assert pools.used() == 4
    pools.release("a")
    pools.release("b")
    assert (pools.refused(claim("e")).full[0].used, pools.used()) == (2, 2)
    pools.release("c")
    pools.granted(claim("e"))


def test_several_pools_are_granted_all_or_none_with_one_number() -> None:
    pools = Pools(TokenPool(name="hive", capacity=5), TokenPool(name="spark", capacity=1))
    pools.granted(claim("a", {"hive": 1}))
    both = pools.allocate(claim("b", {"spark": 1, "hive": 2}))
    assert isinstance(both, Granted)
    assert {pool: (grant.amount, grant.number) for pool, grant in both.grants.items()} == {
        "hive": (2, 2),
        "spark": (1, 2),
    }
    answer = pools.refused(claim("c", {"spark": 1, "hive": 1}))
    assert [full.pool for full in answer.full] == ["spark"]
    assert (pools.used("hive"), pools.used("spark")) == (3, 1)


def test_a_lease_that_is_not_renewed_is_over_and_not_before() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1))
    pools.granted(claim("a", lease_seconds=60))
    pools.after(60)
    pools.refused(claim("b"))  # the clock may have gone ahead by less than is noticed
    reclaimed = pools.after(JUMP_SECONDS).changes.reclaimed
    assert [grant.token for grant in reclaimed] == ["a"]
    pools.granted(claim("b"))


def test_a_renewed_lease_goes_on_and_the_old_holder_is_fenced_off() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1))
    first = pools.granted(claim("a", lease_seconds=60))
    renewal = Renewal(token="a", amounts={"hive": 1}, number=first, place=Scope("prod", "ads"))
    renewed = pools.after(50).renew(renewal)
    assert isinstance(renewed, Renewed)
    assert renewed.grants["hive"].expires_at == NOON + timedelta(seconds=110)
    assert pools.after(70).renew(renewal) == NotHeld(pools=("hive",))
    second = pools.granted(claim("a", lease_seconds=60))
    assert second > first
    assert pools.ledger().renew(renewal) == NotHeld(pools=("hive",), current=second)
    stale = Release(token="a", pools=("hive",), number=first)
    assert pools.ledger().release(stale) == NotHeld(pools=("hive",), current=second)
    assert pools.used() == 1


def test_release_of_what_is_not_held_changes_nothing() -> None:
    pools = Pools(TokenPool(name="hive", capacity=5), TokenPool(name="spark", capacity=5))
    pools.granted(claim("a"))
    answer = pools.ledger().release(Release(token="a", pools=("hive", "spark")))
    assert (answer, pools.used()) == (NotHeld(pools=("spark",)), 1)
    assert pools.ledger().release(Release(token="b", pools=("hive",))) == NotHeld(pools=("hive",))
    assert pools.ledger().release(Release(token="a", pools=("hive",))) == Released(amounts={"hive": 1})


def test_nothing_is_taken_back_before_the_clock_was_steady_for_a_lease() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1))
    number = pools.granted(claim("a", lease_seconds=60))
    pools.now += timedelta(hours=1)
    ledger = pools.ledger(steady_seconds=59)
    assert ledger.changes.reclaimed == []
    assert isinstance(
        ledger.renew(Renewal(token="a", amounts={"hive": 1}, number=number, place=Scope("prod", "ads"))), Renewed
    )


def test_a_clock_that_went_back_makes_no_lease_longer_than_it_can_be() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1))
    pools.granted(claim("a", lease_seconds=60))
    pools.now -= timedelta(hours=1)
    pools.ledger()
    assert pools.books["hive"].grants["a"].expires_at == pools.now + timedelta(seconds=60)
    pools.after(60 + JUMP_SECONDS)
    pools.granted(claim("b"))


def test_a_program_without_a_project_counts_in_the_pool_alone() -> None:
    pools = Pools(TokenPool(name="hive", capacity=2, caps=Caps(project=1)))
    for token in "ab":
        pools.granted(replace(claim(token), place=Scope()))
    assert pools.refused(claim("c")).full[0].limit.level == "pool"


def test_a_clock_is_steady_from_the_first_look_or_the_last_jump_on() -> None:
    steadiness = Steadiness()
    assert steadiness.look(NOON, 1000) == 0
    assert steadiness.look(NOON + timedelta(seconds=60), 1060.5) == 60.5
    assert steadiness.look(NOON + timedelta(hours=1), 1061) == 0
    assert steadiness.look(NOON + timedelta(hours=1, seconds=30), 1091) == 30
    assert steadiness.look(NOON, 1092) == 0


def test_a_grant_is_taken_back_no_sooner_than_its_holder_could_have_renewed_it() -> None:
    pools = Pools(TokenPool(name="hive", capacity=1))
    pools.granted(claim("a", lease_seconds=60))
    [grant] = pools.books["hive"].grants.values()
    late = NOON + timedelta(seconds=170)
    assert grant.taken_back_at(late, 1000) == NOON + timedelta(seconds=60)
    assert grant.taken_back_at(late, 10) == late + timedelta(seconds=50)
    assert grant.taken_back_at(NOON, inf) == NOON + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("place", "at_once", "seconds"),
    [(1, 1, 0.1), (3, 1, 0.3), (40, 1, 2.0), (2, 20, 0.2), (20, 20, 0.5), (21, 20, 1.0), (200, 5, 2.0), (5, 5, 0.125)],
)
def test_those_whom_the_pool_serves_next_ask_soonest(place: int, at_once: int, seconds: float) -> None:
    assert retry_seconds(60, place, at_once) == pytest.approx(seconds)
    assert retry_seconds(0, place, at_once) == 0.1


def test_the_line_of_a_large_pool_asks_soon_as_a_whole() -> None:
    pools = Pools(TokenPool(name="hive", capacity=20))
    pools.granted(claim("a", {"hive": 20}, lease_seconds=60))
    asked = [pools.refused(claim(f"w{number}", wait_seconds=30)).retry_seconds for number in range(20)]
    assert (asked[0], asked[-1]) == (0.1, 0.5)
