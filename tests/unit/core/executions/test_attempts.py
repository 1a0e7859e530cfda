"""Attempts: what becomes of one at a silent cluster, and what is kept of one that ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from admin.core.executions.attempts import (
    Change,
    Outcome,
    evict,
    finish,
    hear,
    judge_silence,
    phase_when_ended,
    requeue,
)
from admin.core.executions.lifecycle import Phase
from tests.support.leased_executions import NOW, LeasedExecution, leased


def test_an_eviction_fails_only_executions_that_may_have_started() -> None:
    taken, ended = (evict(lease, NOW, NOW) for lease in (leased(Phase.QUEUED, confirmed=False), leased(Phase.RUNNING)))
    assert (taken.kind, taken.values["cluster"], taken.values["phase"]) == ("EVICTED", None, "QUEUED")
    assert (ended.kind, ended.values["phase"], ended.values["reason"]) == ("FAILED", "FAILED", "CLUSTER_LOST")


def policy(**retry: Any) -> dict[str, Any]:
    return {"content": {"retry": retry, "quality_of_service": {}}}


def failed(execution: LeasedExecution) -> Change:
    return finish(execution, Outcome(phase=Phase.FAILED, reason="FAILED", message=""), NOW)


def declined(execution: LeasedExecution) -> Change:
    return requeue(execution, "no licence", stays=True, declined=True)


def judged(execution: LeasedExecution, *, is_given_up: bool = False) -> Change:
    return judge_silence(execution, NOW - timedelta(minutes=5), NOW, is_given_up=is_given_up)


@pytest.mark.parametrize("retry", [{}, {"on_lost": "wait"}, {"attempts": 3}])
@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.RUNNING])
def test_what_may_run_at_a_silent_cluster_goes_on_unless_its_policy_says_otherwise(
    phase: Phase, retry: dict[str, Any]
) -> None:
    change = judged(leased(phase, **policy(**retry)))
    assert (change.kind, "phase" in change.values) == ("SILENT", False)
    assert (change.values["silent_since"], change.values["reason"]) == (NOW - timedelta(minutes=5), "CLUSTER_SILENT")
    assert "silent since 2025-12-31T23:55:00Z" in change.values["reason_message"]
    assert "--giveUp" in change.values["reason_message"]
    given_up = judged(leased(phase), is_given_up=True)
    assert (given_up.values["phase"], given_up.values["reason"]) == ("FAILED", "CLUSTER_LOST")
    assert given_up.values["silent_since"] is None


def test_what_is_aborted_at_a_silent_cluster_stays_so_until_it_is_given_up() -> None:
    execution = leased(Phase.ABORTING, reason="TERMINATED", reason_message="enough")
    silent, given_up = judged(execution), judged(execution, is_given_up=True)
    assert (silent.kind, set(silent.values)) == ("SILENT", {"silent_since"})
    assert given_up.values["phase"] == "ABORTED"
    silence = "Cluster 'a' had been silent since 2025-12-31T23:55:00Z."
    unconfirmed = f"enough. {silence} Nobody has confirmed that its job has ended."
    assert given_up.values["reason_message"] == unconfirmed


def test_what_does_not_wait_is_failed_or_run_again_when_its_cluster_is_lost() -> None:
    ended = judged(leased(Phase.RUNNING, **policy(on_lost="fail")))
    again = judged(leased(Phase.RUNNING, **policy(on_lost="retry", attempts=3, backoff="10s")))
    used_up = judged(leased(Phase.RUNNING, **policy(on_lost="retry", attempts=2)))
    assert [change.kind for change in (ended, again, used_up)] == ["FAILED", "RETRY", "FAILED"]
    assert (again.values["attempt"], again.values["not_before"]) == (3, NOW + timedelta(seconds=20))


def test_what_had_not_started_is_decided_again_and_does_not_count_as_an_attempt() -> None:
    change = judged(leased(Phase.QUEUED, confirmed=False, unstarted=1))
    assert (change.kind, change.values["attempt"], change.values["unstarted"]) == ("EVICTED", 3, 2)
    assert declined(leased(Phase.QUEUED)).values["unstarted"] == 1
    second_start = leased(Phase.RUNNING, attempt=3, unstarted=2, **policy(attempts=2, on_lost="retry"))
    assert judged(second_start).kind == "RETRY"
    again = failed(second_start)
    assert again.kind == "RETRY"
    assert again.values["reason_message"].startswith("Attempt 1 ended FAILED ")


def test_the_record_of_an_attempt_has_its_number_its_nodes_and_whether_its_end_is_confirmed() -> None:
    execution = leased(Phase.RUNNING, attempt=3, unstarted=2, **policy(attempts=2, on_lost="retry"))
    changes = [judged(execution), failed(execution), declined(leased(Phase.QUEUED))]
    records = [change.attempt for change in changes if change.attempt is not None]
    assert [(record.number, record.shown_number) for record in records] == [(3, 1), (3, 1), (2, None)]
    assert [record.unconfirmed for record in records] == [True, None, None]
    assert [record.nodes for record in records] == [["n1"], ["n1"], None]


def test_what_is_heard_again_has_the_reason_of_its_phase() -> None:
    since: dict[str, Any] = {"silent_since": NOW, "reason": "CLUSTER_SILENT"}
    queued, running = hear(leased(Phase.QUEUED, **since)), hear(leased(Phase.RUNNING, **since))
    aborting = hear(leased(Phase.ABORTING, silent_since=NOW))
    assert [change.values.get("reason") for change in (queued, running, aborting)] == ["ASSIGNED", "RUNNING", None]
    assert [change.values["silent_since"] for change in (queued, running, aborting)] == [None] * 3
    assert {change.kind for change in (queued, running, aborting)} == {"HEARD"}


@pytest.mark.parametrize(
    ("execution", "reason", "expected"),
    [
        (leased(Phase.QUEUED, has_lease=False), "TERMINATED", Phase.ABORTED),
        (leased(Phase.QUEUED), "TERMINATED", Phase.ABORTING),
        (leased(Phase.RUNNING), "TERMINATED", Phase.ABORTING),
        (leased(Phase.ABORTING, reason="TERMINATED"), "TERMINATED", None),
        (leased(Phase.ABORTING, reason="DRAINED"), "TERMINATED", Phase.ABORTING),
        (leased(Phase.ABORTING, reason="DRAINED"), "DRAINED", None),
        (leased(Phase.FAILED, has_lease=False), "TERMINATED", None),
    ],
)
def test_what_an_agent_has_is_ended_by_it_and_only_once(
    execution: LeasedExecution, reason: str, expected: Phase | None
) -> None:
    assert phase_when_ended(execution, Phase.ABORTED, reason) is expected


def test_a_phase_that_no_agent_must_confirm_comes_at_once() -> None:
    assert phase_when_ended(leased(Phase.QUEUED), Phase.TIMED_OUT, "BUDGET") is Phase.TIMED_OUT
    assert phase_when_ended(leased(Phase.ABORTING), Phase.TIMED_OUT, "BUDGET") is None
