"""What bounds tokens, and what of it is full."""

from __future__ import annotations

from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.definitions import Caps, TokenPool, check_quota
from admin.core.token_pools.explanations import limit_uses, summary_of
from admin.core.token_pools.limits import buckets_of, counted_at, execution_bucket, terms_of

HERE = Scope("prod", "ads")
POOL = TokenPool(name="hive", capacity=10, caps=Caps(project=4, execution=1))


def test_a_bucket_tells_what_counts_in_it() -> None:
    place = Scope("prod", "ads", "etl", "nightly")
    counted = [counted_at(bucket) for bucket in buckets_of(place, "run")]
    assert counted[0] == (PLATFORM, "")
    assert counted[-2:] == [(place, ""), (HERE, "run")]


def test_limits_are_listed_full_ones_first_each_with_what_set_it() -> None:
    rows = {Scope("prod"): Row(kind="TOKEN_POOL_QUOTA", scope=Scope("prod"), payload={"pools": {"hive": 2}}, version=7)}
    terms = terms_of(POOL, HERE, "run", rows)
    used = {"///": 2, "/prod//": 2, "ads///": 1, execution_bucket(HERE, "run"): 1}
    uses = limit_uses("hive", [terms, terms], used)
    assert [(use.limit.level, use.is_full, use.free, use.limit.version) for use in uses] == [
        ("domain", True, 0, 7),
        ("execution", True, 0, None),
        ("pool", False, 8, None),
        ("project", False, 3, None),
    ]
    assert summary_of("hive", uses) == (
        "Full for domain prod: 2 of 2 tokens are held, by TOKEN_POOL_QUOTA at domain prod, version 7, and one more "
        "limit is full."
    )
    assert summary_of("hive", uses[2:]) == "Nothing of token pool 'hive' is full."
    assert summary_of("hive", uses[2:], waiting=2) == (
        "Nothing of token pool 'hive' is full. 2 wait in line, and what is free is kept for those ahead."
    )


def test_a_capacity_that_is_too_large_may_stay_but_not_grow() -> None:
    check_quota({"capacity": 20}, {"capacity": 20}, 10)
    check_quota({"capacity": 20}, {"capacity": 15}, 10)
