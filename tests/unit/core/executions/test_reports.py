"""Which reports of agents count, and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admin.core.executions.attempts import Change, Outcome, cancel, evict
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import NEED_DETAILS, REPORTS, apply_report, refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class Held:
    """An execution as the rules see it."""

    phase: str
    lease_expires_at: datetime | None = NOW
    cluster: str | None = "a"
    attempt: int = 2
    reason: str = "ASSIGNED"
    reason_message: str = "It goes to a."
    started_at: datetime | None = None
    confirmed: bool = True
    content: Mapping[str, Any] = field(default_factory=lambda: {"quality_of_service": {}})
    avoid: list[str] = field(default_factory=list)


def held(phase: Phase, *, leased: bool = True, cluster: str | None = "a", attempt: int = 2, **more: Any) -> Held:
    until = NOW if leased else None
    return Held(phase=phase.value, lease_expires_at=until, cluster=cluster, attempt=attempt, **more)


UNFINISHED = (Phase.QUEUED, Phase.RUNNING, Phase.ABORTING)
FINISHED = tuple(phase for phase in Phase if phase.is_finished)


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_on_what_nobody_knows_is_refused(report: str) -> None:
    assert refusal(None, "a", 1, report) == "UNKNOWN_EXECUTION"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("attempt", [1, 3])
def test_a_report_on_another_attempt_is_refused_whatever_it_says(report: str, phase: Phase, attempt: int) -> None:
    assert refusal(held(phase), "a", attempt, report) == "OLD_ATTEMPT"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("cluster", ["b", None])
def test_a_report_on_another_clusters_work_is_refused_whatever_it_says(
    report: str, phase: Phase, cluster: str | None
) -> None:
    assert refusal(held(phase, cluster=cluster), "a", 2, report) == "NOT_YOURS"


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_on_what_is_not_leased_is_refused(report: str) -> None:
    assert refusal(held(Phase.QUEUED, leased=False), "a", 2, report) == "NOT_YOURS"


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("phase", FINISHED)
def test_what_has_ended_stays_so_and_only_the_same_report_again_is_accepted(report: str, phase: Phase) -> None:
    wanted = None if REPORTS[report] is phase else "PHASE"
    assert refusal(held(phase, leased=False), "a", 2, report) == wanted


@pytest.mark.parametrize(
    ("phase", "refused"),
    [
        (Phase.QUEUED, set()),
        (Phase.RUNNING, {"DECLINED", "RELEASED"}),  # what runs cannot be given back
        (Phase.ABORTING, set()),
    ],
)
def test_reports_on_a_lease_count_unless_they_go_backwards(phase: Phase, refused: set[str]) -> None:
    found = {report: refusal(held(phase), "a", 2, report) for report in REPORTS}
    assert {report for report, why in found.items() if why} == refused
    assert set(found.values()) <= {None, "PHASE"}


def test_every_report_means_a_phase_or_none() -> None:
    assert {phase for phase in REPORTS.values() if phase} == {Phase.RUNNING, *FINISHED}
    assert not {Phase.QUEUED, Phase.ABORTING} & set(REPORTS.values())
    assert set(UNFINISHED) | set(FINISHED) == set(Phase)


# What they do


def reported(one: Held, report: str, *, takes_work: bool = True, **said: Any) -> Change | None:
    said = {"reason": report, "message": "", **said}
    return apply_report(one, report, Outcome(phase=REPORTS[report] or Phase.FAILED, **said), NOW, takes_work=takes_work)


def changed(one: Held, report: str, **more: Any) -> Change:
    found = reported(one, report, **more)
    assert found is not None
    return found


def test_work_that_begins_says_where_and_what_it_does_not_say_stays_as_it_is() -> None:
    found = changed(held(Phase.QUEUED), "RUNNING", native_id="7", nodes=["n1"])
    assert (found.kind, found.ended) == ("RUNNING", None)
    expected = {"phase": "RUNNING", "reason": "RUNNING", "reason_message": "", "started_at": NOW}
    assert found.values == {**expected, "native_id": "7", "nodes": ["n1"]}


@pytest.mark.parametrize("report", [report for report, phase in REPORTS.items() if phase])
def test_the_same_again_is_no_news(report: str) -> None:
    assert reported(held(REPORTS[report] or Phase.QUEUED), report) is None


def test_work_that_ends_took_as_long_as_its_agent_says_or_as_it_was_seen_to_run() -> None:
    began = NOW - timedelta(seconds=9)
    assert changed(held(Phase.RUNNING, started_at=began), "SUCCEEDED").values["duration"] == 9
    assert changed(held(Phase.RUNNING, started_at=began), "SUCCEEDED", duration=2.5).values["duration"] == 2.5
    assert changed(held(Phase.QUEUED), "SUCCEEDED").values["duration"] is None
    found = changed(held(Phase.RUNNING), "FAILED", reason="CRASHED", message="oh", exit_code=3)
    assert found.ended is not None
    assert (found.kind, found.ended.phase, found.ended.reason) == ("FAILED", Phase.FAILED, "CRASHED")
    assert (found.values["lease_expires_at"], found.values["exit_code"]) == (None, 3)


def test_what_is_run_again_waits_there_unless_its_cluster_takes_no_work_or_is_lost() -> None:
    content = {"retry": {"attempts": 3, "backoff": "10s", "on_lost": "retry"}, "quality_of_service": {}}
    one = held(Phase.RUNNING, content=content)
    there, elsewhere, lost = (
        changed(one, "FAILED"),
        changed(one, "FAILED", takes_work=False),
        changed(one, "UNKNOWN"),
    )
    assert [found.kind for found in (there, elsewhere, lost)] == ["RETRY"] * 3
    assert [found.values["attempt"] for found in (there, elsewhere, lost)] == [3, 3, 3]
    assert ("cluster" in there.values, there.values["reason"]) == (False, "RETRY")
    assert there.values["not_before"] == NOW + timedelta(seconds=20)
    for found in (elsewhere, lost):
        assert (found.values["cluster"], found.values["reason"]) == (None, "UNDECIDED")
    assert lost.values["not_before"] is None  # the cluster failed, not the work


@pytest.mark.parametrize("report", ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "DECLINED", "RELEASED", "UNKNOWN"])
def test_what_is_to_end_ends_whatever_is_reported(report: str) -> None:
    content = {"retry": {"attempts": 9, "on_lost": "retry"}, "quality_of_service": {}}
    found = changed(held(Phase.ABORTING, reason="TERMINATED", reason_message="enough", content=content), report)
    assert found.ended is not None
    assert (found.ended.phase, found.ended.reason) == (Phase.ABORTED, "TERMINATED")
    assert reported(held(Phase.ABORTING), "RUNNING") is None


def test_what_a_drain_ends_is_run_elsewhere_where_its_policy_says_so() -> None:
    content = {"retry": {"on_lost": "retry"}, "quality_of_service": {}}
    told = cancel("DRAINED", "It was drained.")
    assert (told.kind, told.values["phase"], told.values["abort_cause"]) == ("ABORTING", "ABORTING", "It was drained.")
    found = changed(held(Phase.ABORTING, reason="DRAINED", content=content), "ABORTED")
    assert (found.kind, found.values["cluster"]) == ("RETRY", None)


def test_what_has_not_started_is_given_back_and_who_declines_it_is_avoided() -> None:
    one = held(Phase.QUEUED, avoid=["z"])
    declined, released = changed(one, "DECLINED", message="no licence"), changed(one, "RELEASED")
    assert (declined.kind, declined.values["avoid"], declined.values["cluster"]) == ("DECLINED", ["z", "a"], None)
    assert declined.values["reason_message"] == "no licence"
    assert (released.kind, released.values["reason"], "avoid" in released.values) == ("RELEASED", "ASSIGNED", False)
    assert released.values["reason_message"] == "Its agent released it."
    unknown = changed(held(Phase.QUEUED, confirmed=False), "UNKNOWN")
    assert (unknown.kind, unknown.values["confirmed"], unknown.values["attempt"]) == ("RELEASED", False, 3)


def test_an_eviction_ends_only_what_may_have_started() -> None:
    taken, ended = evict(held(Phase.QUEUED, confirmed=False), NOW), evict(held(Phase.RUNNING), NOW)
    assert (taken.kind, taken.values["cluster"], taken.ended) == ("EVICTED", None, None)
    assert ended.ended is not None
    assert (ended.kind, ended.ended.reason) == ("FAILED", "CLUSTER_LOST")


@pytest.mark.parametrize("report", sorted(set(REPORTS) - NEED_DETAILS))
@pytest.mark.parametrize("phase", UNFINISHED)
def test_reports_that_need_no_details_do_without(report: str, phase: Phase) -> None:
    one = held(phase, reason="DRAINED")
    del one.content, one.avoid
    reported(one, report)
