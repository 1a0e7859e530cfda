"""Which reports of agents count."""

from __future__ import annotations

import pytest

from admin.core.lifecycle import Phase
from admin.core.reports import REPORTS, Held, refusal


def held(phase: Phase, *, leased: bool = True, cluster: str | None = "a", attempt: int = 2) -> Held:
    return Held(cluster=cluster, attempt=attempt, phase=phase, is_leased=leased)


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
