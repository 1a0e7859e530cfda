"""Reports of agents: which are refused, and what the others change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from admin.core.executions.attempts import Change, Outcome, end_for_drain
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import NEED_DETAILS, REPORTS, Reporter, apply_report, refusal
from admin.core.provenance import Actor, Provenance
from admin.core.times import show_time
from tests.support.leased_executions import NOW, LeasedExecution, leased


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
    assert (abort.values["abort_principal"], abort.values["abort_author"]) == ("ana", None)
    assert abort.by == Actor(claimed_by="ana")
    proven = end_for_drain(leased(Phase.RUNNING), replace(by, author="bea", claimed_by=None))
    assert proven is not None
    assert (proven.values["abort_principal"], proven.values["abort_author"]) == ("bea", "bea")
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


@pytest.mark.parametrize("report", sorted(set(REPORTS) - NEED_DETAILS))
@pytest.mark.parametrize("phase", UNFINISHED)
def test_reports_outside_need_details_read_no_details(report: str, phase: Phase) -> None:
    execution = leased(phase, reason="DRAINED")
    del execution.content, execution.avoid
    reported(execution, report)
