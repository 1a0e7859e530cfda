"""Reports of agents: which are refused, and what the others change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admin.core.executions.attempts import (
    NEED_DETAILS,
    REPORTS,
    Change,
    Outcome,
    Reporter,
    apply_report,
    end_for_drain,
    evict,
    hear,
    judge_silence,
    refusal,
)
from admin.core.executions.lifecycle import Phase
from admin.core.provenance import Provenance
from admin.core.times import show_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class LeasedExecution:
    """The fields of an execution that the rules read."""

    phase: str
    uid: str = "1234"
    lease_expires_at: datetime | None = NOW
    lease_instance: str = "i"
    cluster: str | None = "a"
    attempt: int = 2
    reason: str = "ASSIGNED"
    reason_message: str = "It goes to a."
    started_at: datetime | None = None
    confirmed: bool = True
    silent_since: datetime | None = None
    unstarted: int = 0
    native_id: str | None = "77"
    content: Mapping[str, Any] = field(default_factory=lambda: {"quality_of_service": {}})
    avoid: list[str] = field(default_factory=list)
    nodes: list[str] | None = field(default_factory=lambda: ["n1"])


def leased(
    phase: Phase, *, has_lease: bool = True, cluster: str | None = "a", attempt: int = 2, **more: Any
) -> LeasedExecution:
    until = NOW if has_lease else None
    return LeasedExecution(phase=phase.value, lease_expires_at=until, cluster=cluster, attempt=attempt, **more)


def refused(
    execution: LeasedExecution | None, report: str, attempt: int = 2, uid: str = "1234", instance: str = "i"
) -> str | None:
    """Why a report of cluster 'a' is refused."""
    reporter = Reporter(cluster="a", instance=instance)
    return refusal(execution, report, attempt=attempt, uid=uid, by=reporter, now=NOW)


UNFINISHED = (Phase.QUEUED, Phase.RUNNING, Phase.ABORTING)
FINISHED = tuple(phase for phase in Phase if phase.is_finished)


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_on_an_unknown_execution_is_refused(report: str) -> None:
    assert refused(None, report) == "UNKNOWN_EXECUTION"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("attempt", [1, 3])
def test_a_report_on_another_attempt_is_refused_whatever_it_says(report: str, phase: Phase, attempt: int) -> None:
    assert refused(leased(phase), report, attempt) == "OLD_ATTEMPT"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("cluster", ["b", None])
def test_a_report_on_another_clusters_work_is_refused_whatever_it_says(
    report: str, phase: Phase, cluster: str | None
) -> None:
    assert refused(leased(phase, cluster=cluster), report) == "NOT_YOURS"


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_on_an_execution_without_a_lease_is_refused(report: str) -> None:
    assert refused(leased(Phase.QUEUED, has_lease=False), report) == "NOT_YOURS"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", FINISHED)
def test_a_finished_execution_accepts_only_the_same_report_again(report: str, phase: Phase) -> None:
    expected = None if REPORTS[report] is phase else "PHASE"
    assert refused(leased(phase, has_lease=False), report) == expected


@pytest.mark.parametrize(
    ("phase", "backwards"),
    [
        (Phase.QUEUED, set()),
        (Phase.RUNNING, {"DECLINED", "RELEASED"}),  # a running execution cannot be returned
        (Phase.ABORTING, set()),
    ],
)
def test_reports_on_a_lease_count_unless_they_go_backwards(phase: Phase, backwards: set[str]) -> None:
    reasons = {report: refused(leased(phase), report) for report in REPORTS}
    assert {report for report, reason in reasons.items() if reason} == backwards
    assert set(reasons.values()) <= {None, "PHASE"}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", Phase)
def test_a_report_on_an_execution_that_had_the_same_name_is_refused_whatever_it_says(report: str, phase: Phase) -> None:
    assert refused(leased(phase), report, uid="5678") == "OTHER_EXECUTION"
    assert refused(leased(phase), report, attempt=1, uid="5678") == "OTHER_EXECUTION"


@pytest.mark.parametrize("phase", Phase)
def test_agents_and_executions_without_ids_are_not_compared(phase: Phase) -> None:
    for report in REPORTS:
        expected = refused(leased(phase), report)
        assert refused(leased(phase), report, uid="") == refused(leased(phase, uid=""), report) == expected


@pytest.mark.parametrize("phase", UNFINISHED)
@pytest.mark.parametrize("instance", ["other", ""])
def test_only_the_holder_of_a_lease_knows_before_its_end_that_nothing_runs(phase: Phase, instance: str) -> None:
    disowning = {report for report, means in REPORTS.items() if means is None}
    execution = leased(phase)
    execution.lease_expires_at = NOW + timedelta(seconds=1)
    for report in REPORTS:
        by_holder, by_other = refused(execution, report), refused(execution, report, instance=instance)
        assert by_other == ("LEASE_NOT_OVER" if report in disowning and by_holder is None else by_holder)
        for on_lost in ("wait", "fail", "retry"):  # the lease is over
            over = leased(phase, content={"retry": {"on_lost": on_lost}})
            expected = by_other if on_lost == "wait" else by_holder
            assert refused(over, report, instance=instance) == expected
    unconfirmed = LeasedExecution(phase="QUEUED", confirmed=False, lease_instance="")
    unconfirmed.lease_expires_at = execution.lease_expires_at
    assert refused(unconfirmed, "RELEASED", instance=instance) is None  # nobody may have started it


def test_every_report_means_a_phase_or_none() -> None:
    assert {phase for phase in REPORTS.values() if phase} == {Phase.RUNNING, *FINISHED}
    assert not {Phase.QUEUED, Phase.ABORTING} & set(REPORTS.values())
    assert set(UNFINISHED) | set(FINISHED) == set(Phase)


# What reports change


def reported(execution: LeasedExecution, report: str, *, takes_work: bool = True, **fields: Any) -> Change | None:
    outcome = Outcome(**{"phase": REPORTS[report] or Phase.FAILED, "reason": report, "message": "", **fields})
    return apply_report(execution, report, outcome, NOW, takes_work=takes_work)


def changed(execution: LeasedExecution, report: str, **fields: Any) -> Change:
    change = reported(execution, report, **fields)
    assert change is not None
    return change


def test_a_running_report_sets_the_fields_it_has_and_leaves_the_others() -> None:
    change = changed(leased(Phase.QUEUED), "RUNNING", native_id="7", nodes=["n1"])
    assert change.kind == "RUNNING"
    expected = {"phase": "RUNNING", "reason": "RUNNING", "reason_message": "", "started_at": NOW}
    assert change.values == {**expected, "native_id": "7", "nodes": ["n1"]}


@pytest.mark.parametrize("report", [report for report, phase in REPORTS.items() if phase])
def test_a_repeated_report_changes_nothing(report: str) -> None:
    assert reported(leased(REPORTS[report] or Phase.QUEUED), report) is None


def test_the_duration_is_reported_or_else_measured_from_the_start() -> None:
    began = NOW - timedelta(seconds=9)
    assert changed(leased(Phase.RUNNING, started_at=began), "SUCCEEDED").values["duration"] == 9
    assert changed(leased(Phase.RUNNING, started_at=began), "SUCCEEDED", duration=2.5).values["duration"] == 2.5
    assert changed(leased(Phase.QUEUED), "SUCCEEDED").values["duration"] is None
    change = changed(leased(Phase.RUNNING), "FAILED", reason="CRASHED", message="oh", exit_code=3)
    assert (change.kind, change.values["phase"], change.values["reason"]) == ("FAILED", "FAILED", "CRASHED")
    assert (change.values["lease_expires_at"], change.values["exit_code"]) == (None, 3)


def test_a_retry_stays_on_its_cluster_unless_that_is_lost_or_takes_no_work() -> None:
    content = {"retry": {"attempts": 3, "backoff": "10s", "on_lost": "retry"}, "quality_of_service": {}}
    execution = leased(Phase.RUNNING, content=content)
    same, elsewhere, lost = (
        changed(execution, "FAILED"),
        changed(execution, "FAILED", takes_work=False),
        changed(execution, "UNKNOWN"),
    )
    assert [change.kind for change in (same, elsewhere, lost)] == ["RETRY"] * 3
    assert [change.values["attempt"] for change in (same, elsewhere, lost)] == [3, 3, 3]
    assert ("cluster" in same.values, same.values["reason"]) == (False, "RETRY")
    assert same.values["not_before"] == NOW + timedelta(seconds=20)
    for change in (elsewhere, lost):
        assert (change.values["cluster"], change.values["reason"]) == (None, "UNDECIDED")
    assert lost.values["not_before"] == NOW + timedelta(seconds=20)


@pytest.mark.parametrize("report", ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "DECLINED", "RELEASED", "UNKNOWN"])
def test_an_aborting_execution_ends_aborted_whatever_is_reported(report: str) -> None:
    content = {"retry": {"attempts": 9, "on_lost": "retry"}, "quality_of_service": {}}
    change = changed(leased(Phase.ABORTING, reason="TERMINATED", reason_message="enough", content=content), report)
    assert (change.values["phase"], change.values["reason"]) == ("ABORTED", "TERMINATED")
    assert reported(leased(Phase.ABORTING), "RUNNING") is None


def test_a_drained_execution_is_retried_elsewhere_if_its_policy_allows() -> None:
    content = {"retry": {"on_lost": "retry", "attempts": 3}, "quality_of_service": {}}
    by = Provenance(event=7, author="anonymous", claimed_by="ana", at=NOW, message="disks")
    abort = end_for_drain(leased(Phase.RUNNING), by)
    assert abort is not None
    assert (abort.kind, abort.values["phase"]) == ("ABORTING", "ABORTING")
    drained = f"Its cluster was drained (event 7, anonymous (says ana), at {show_time(NOW)}, 'disks')."
    assert (abort.values["abort_cause"], abort.values["reason_message"]) == (drained, drained)
    assert (abort.values["abort_principal"], abort.by) == ("ana", "ana")
    assert end_for_drain(leased(Phase.ABORTING), by) is None
    change = changed(leased(Phase.ABORTING, reason="DRAINED", content=content), "ABORTED")
    assert (change.kind, change.values["cluster"]) == ("RETRY", None)


def test_a_drained_execution_that_had_not_started_goes_elsewhere_whatever_its_policy() -> None:
    change = changed(leased(Phase.ABORTING, reason="DRAINED"), "RELEASED")
    assert (change.kind, change.values["phase"], change.values["reason"]) == ("RELEASED", "QUEUED", "UNDECIDED")
    assert {change.values[name] for name in ("cluster", "abort_cause", "abort_principal")} == {None}
    ended = changed(leased(Phase.ABORTING, reason="TERMINATED"), "RELEASED")
    assert ended.values["phase"] == "ABORTED"


def test_declined_and_released_executions_are_requeued_and_the_decliner_is_avoided() -> None:
    execution = leased(Phase.QUEUED, avoid=["z"])
    declined, released = changed(execution, "DECLINED", message="no licence"), changed(execution, "RELEASED")
    assert (declined.kind, declined.values["avoid"], declined.values["cluster"]) == ("DECLINED", ["z", "a"], None)
    assert declined.values["reason_message"] == "Cluster 'a' declined it: no licence."
    assert (released.kind, released.values["reason"], "avoid" in released.values) == ("RELEASED", "ASSIGNED", False)
    assert released.values["reason_message"] == "Its agent released it."
    unknown = changed(leased(Phase.QUEUED, confirmed=False), "UNKNOWN")
    assert (unknown.kind, unknown.values["confirmed"], unknown.values["attempt"]) == ("RELEASED", False, 3)


def test_an_eviction_fails_only_executions_that_may_have_started() -> None:
    taken, ended = (evict(lease, NOW, NOW) for lease in (leased(Phase.QUEUED, confirmed=False), leased(Phase.RUNNING)))
    assert (taken.kind, taken.values["cluster"], taken.values["phase"]) == ("EVICTED", None, "QUEUED")
    assert (ended.kind, ended.values["phase"], ended.values["reason"]) == ("FAILED", "FAILED", "CLUSTER_LOST")


def policy(**retry: Any) -> dict[str, Any]:
    return {"content": {"retry": retry, "quality_of_service": {}}}


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
    failed = judged(leased(Phase.RUNNING, **policy(on_lost="fail")))
    again = judged(leased(Phase.RUNNING, **policy(on_lost="retry", attempts=3, backoff="10s")))
    used_up = judged(leased(Phase.RUNNING, **policy(on_lost="retry", attempts=2)))
    assert [change.kind for change in (failed, again, used_up)] == ["FAILED", "RETRY", "FAILED"]
    assert (again.values["attempt"], again.values["not_before"]) == (3, NOW + timedelta(seconds=20))


def test_what_had_not_started_is_decided_again_and_does_not_count_as_an_attempt() -> None:
    change = judged(leased(Phase.QUEUED, confirmed=False, unstarted=1))
    assert (change.kind, change.values["attempt"], change.values["unstarted"]) == ("EVICTED", 3, 2)
    assert changed(leased(Phase.QUEUED), "DECLINED").values["unstarted"] == 1
    second_start = leased(Phase.RUNNING, attempt=3, unstarted=2, **policy(attempts=2, on_lost="retry"))
    assert judged(second_start).kind == "RETRY"
    again = changed(second_start, "FAILED")
    assert again.kind == "RETRY"
    assert again.values["reason_message"].startswith("Attempt 1 ended FAILED ")


def test_the_record_of_an_attempt_has_its_number_its_nodes_and_whether_its_end_is_confirmed() -> None:
    execution = leased(Phase.RUNNING, attempt=3, unstarted=2, **policy(attempts=2, on_lost="retry"))
    lost, failed, returned = judged(execution), changed(execution, "FAILED"), changed(leased(Phase.QUEUED), "DECLINED")
    records = [change.attempt for change in (lost, failed, returned) if change.attempt is not None]
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


@pytest.mark.parametrize("report", sorted(set(REPORTS) - NEED_DETAILS))
@pytest.mark.parametrize("phase", UNFINISHED)
def test_reports_outside_need_details_read_no_details(report: str, phase: Phase) -> None:
    execution = leased(phase, reason="DRAINED")
    del execution.content, execution.avoid
    reported(execution, report)
