"""What a run needs of token pools: as it is stored, refused, told and passed on."""

from __future__ import annotations

import pytest

from admin.core.executions.tokens import (
    NUMBER_VARIABLE,
    check_amounts,
    describe_amounts,
    describe_refusal,
    lease_job,
    line_priority,
    read_amounts,
    write_amounts,
)
from admin.core.problems import Invalid
from admin.core.token_pools.answers import Exhausted, Full, NeverFits, UnknownPools
from admin.core.token_pools.limits import Limit, Terms

CAPACITY = Limit("", 2, "pool", "the capacity of token pool 'hive'")
PROJECT = Limit("ads", 1, "project", "TOKEN_POOL_QUOTA at ads, version 3")


def test_the_same_amounts_are_stored_as_the_same_text() -> None:
    assert write_amounts({"b": 1, "a": 2}) == write_amounts({"a": 2, "b": 1})
    assert read_amounts(write_amounts({"b": 1, "a": 2})) == {"a": 2, "b": 1}
    assert (write_amounts({}), read_amounts(None)) == (None, {})


def test_a_tier_counts_more_than_any_priority_and_the_usual_ones_are_those_of_programs() -> None:
    assert line_priority(3, 50) == 0
    assert line_priority(2, -(2**31)) > line_priority(3, 2**31 - 1)
    assert line_priority(3, 51) > line_priority(3, 50)
    assert abs(line_priority(0, 2**31 - 1)) < 2**31


def test_amounts_are_refused_with_the_field_the_limit_and_its_level() -> None:
    terms = {"hive": Terms(2, (PROJECT,))}
    check_amounts({"hive": 1}, terms, ["hive"], str)
    with pytest.raises(
        Invalid, match=r"2 can never fit: the most is 1, by TOKEN_POOL_QUOTA at ads, version 3 \(project\)"
    ):
        check_amounts({"hive": 2}, terms, ["hive"], str)
    with pytest.raises(Invalid, match=r"There is no token pool 'hve'. Did you mean 'hive'\?"):
        check_amounts({"hve": 1}, terms, ["hive"], str)


def test_what_a_run_waits_for_is_told_without_what_changes_all_the_time() -> None:
    full = Full(pool="hive", limit=CAPACITY, amount=1, used=2)
    amounts = {"hive": 1}
    told = describe_refusal(Exhausted(full=(full,), retry_seconds=1), amounts)
    assert told == "It waits for 1 token of pool 'hive': the pool is full, by the capacity of token pool 'hive'."
    closed = Exhausted(full=(), retry_seconds=1, reason="Redis was flushed.")
    assert describe_refusal(closed, amounts) == "It waits for 1 token of hive. Redis was flushed."
    assert "can never fit: the most is 1" in describe_refusal(NeverFits(pool="hive", amount=3, limit=PROJECT), amounts)
    assert "There is no token pool 'hive' any more" in describe_refusal(UnknownPools(pools=("hive",)), amounts)


def test_amounts_are_told_in_words() -> None:
    assert describe_amounts({"hive": 1}) == "1 token of hive"
    assert describe_amounts({"licences": 1, "hive": 2}) == "2 tokens of hive, 1 of licences"


def test_a_job_is_told_the_number_of_its_grant() -> None:
    job = {"command": ["true"], "environment": {"A": "b"}}
    assert lease_job(job, None) is job
    assert lease_job(job, 7)["environment"] == {"A": "b", NUMBER_VARIABLE: "7"}
