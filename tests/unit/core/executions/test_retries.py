"""Whether another attempt follows, and when."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.retries import CLUSTER_LOST, RETRY, Retries, retry_problems
from admin.core.problems import Problem

OUTCOMES = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", CLUSTER_LOST)


def following(attempt: int, **policy: Any) -> set[str]:
    """The outcomes of an attempt that are followed by another one."""
    retries = Retries.of(policy)
    return {outcome for outcome in OUTCOMES if retries.seconds_until_next(attempt, outcome) is not None}


def test_by_default_nothing_is_retried() -> None:
    assert following(1) == set()
    assert Retries.of(None) == Retries.of({}) == Retries()


def test_attempts_include_the_first() -> None:
    assert following(1, attempts=3) == following(2, attempts=3) == {"FAILED", "TIMED_OUT"}
    assert following(3, attempts=3) == following(4, attempts=3) == set()


def test_only_listed_outcomes_are_retried() -> None:
    assert following(1, attempts=2, retry_on=["TIMED_OUT"]) == {"TIMED_OUT"}
    assert following(1, attempts=2, retry_on=["FAILED", CLUSTER_LOST]) == {"FAILED", CLUSTER_LOST}
    assert following(2, attempts=2, retry_on=["FAILED", CLUSTER_LOST]) == set()
    assert following(1, attempts=2, retry_on=[]) == set()


def test_executions_of_a_lost_cluster_are_retried_within_the_attempts_and_after_the_backoff() -> None:
    policy = {"attempts": 3, "on_lost": "retry", "backoff": "10s"}
    assert following(2, **policy) == {"FAILED", "TIMED_OUT", CLUSTER_LOST}
    assert following(3, **policy) == set()
    assert Retries.of(policy).seconds_until_next(2, CLUSTER_LOST) == 20
    for on_lost in ("fail", "wait"):
        assert following(1, on_lost=on_lost, attempts=5) == {"FAILED", "TIMED_OUT"}


def test_one_more_attempt_follows_a_lost_cluster_alone_where_no_number_is_given() -> None:
    assert following(1, on_lost="retry") == {CLUSTER_LOST}
    assert following(2, on_lost="retry") == set()
    assert following(1, on_lost="retry", retry_on=["FAILED"]) == {"FAILED", CLUSTER_LOST}


def test_a_policy_that_retries_once_and_never_is_refused() -> None:
    [problem] = retry_problems({"retry": {"on_lost": "retry", "attempts": 1}}, ("spec",))
    assert problem.field == "spec.retry.attempts"
    assert "2 or more" in problem.reason
    for fine in ({"on_lost": "retry"}, {"attempts": 1}, {"on_lost": "fail", "attempts": 1}, None):
        assert retry_problems({"retry": fine}, ("spec",)) == []


def test_the_backoff_doubles_up_to_an_hour() -> None:
    retries = Retries.of({"attempts": 100, "backoff": "10s"})
    waits = [retries.seconds_until_next(attempt, "FAILED") for attempt in range(1, 100)]
    assert waits[:9] == [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
    assert set(waits[9:]) == {3600}
    assert Retries.of({"attempts": 2, "backoff": "500ms"}).seconds_until_next(1, "FAILED") == 0.5
    assert Retries.of({"attempts": 2, "backoff": "9h"}).seconds_until_next(1, "FAILED") == 3600


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": 101}, "attempts"),
        ({"attempts": "3"}, "attempts"),
        ({"backoff": "soon"}, "backoff"),
        ({"backoff": 10}, "backoff"),
        ({"retry_on": ["SUCCEEDED"]}, "retry_on"),
        ({"retry_on": "FAILED"}, "retry_on"),
        ({"on_lost": "again"}, "on_lost"),
        ({"tries": 3}, "tries"),
    ],
)
def test_an_invalid_policy_is_refused_by_field(payload: dict[str, Any], field: str) -> None:
    problems: list[Problem] = []
    RETRY.read(payload, (), problems)
    assert problems[0].field.startswith(field)


@pytest.mark.parametrize(
    ("payload", "attempt", "outcome", "why"),
    [
        (None, 1, "FAILED", "no retries were asked for"),
        ({"attempts": 3}, 1, "FAILED", ""),
        ({"attempts": 3}, 3, "FAILED", "its 3 attempts are used up"),
        ({"attempts": 3}, 1, CLUSTER_LOST, "the loss of its cluster is not retried (on_lost: wait, the default)"),
        ({"attempts": 3, "on_lost": "fail"}, 1, CLUSTER_LOST, "the loss of its cluster is not retried (on_lost: fail)"),
        ({"on_lost": "retry"}, 1, "FAILED", "FAILED is not retried (retry_on: nothing)"),
        ({"on_lost": "retry"}, 1, CLUSTER_LOST, ""),
        ({"on_lost": "retry"}, 2, CLUSTER_LOST, "its 2 attempts are used up, the default with on_lost: retry"),
        ({"on_lost": "retry", "attempts": 2}, 2, CLUSTER_LOST, "its 2 attempts are used up"),
    ],
)
def test_why_no_other_attempt_follows(payload: dict[str, Any] | None, attempt: int, outcome: str, why: str) -> None:
    assert Retries.of(payload).why_no_other(attempt, outcome) == why


def test_a_drain_is_said_to_count_as_a_loss() -> None:
    why = Retries.of({"attempts": 3}).why_no_other(1, CLUSTER_LOST, is_drained=True)
    assert why == "a drain counts as a loss, which is not retried (on_lost: wait, the default)"
