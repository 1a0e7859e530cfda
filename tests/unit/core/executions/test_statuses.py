"""Statuses: one sentence about now, and what happens next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.lifecycle import Phase
from admin.core.executions.limits import Limits
from admin.core.executions.silences import Drain
from admin.core.executions.statuses import Circumstances
from admin.core.placement.filters import Verdict
from admin.core.provenance import Actor
from admin.core.times import show_duration

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=4, seconds=10)
WAITS = Circumstances(
    phase=Phase.QUEUED,
    since=NOW - timedelta(minutes=12),
    reason="ASSIGNED",
    reason_message="Waits for cluster 'birch' to take it.",
    cluster="birch",
    attempt=1,
    attempts=1,
    route="pool 'std' at domain d decides",
    position=3,
)
FULL = Verdict("room", False, "is full (8 of 8 cpu taken)")
NO_CLUSTER = replace(WAITS, cluster=None, position=None, reason="CLUSTERS_FULL", reason_message="None is able.")
UNABLE = "No cluster of pool 'std' is able: 'birch' is draining, event 7, ana, 3 min ago."
DRAIN = Drain(cluster="a", deadline=NOW + timedelta(minutes=2), by="event 7, ana, 3 min ago", is_retried=True)
EXIT_1 = AttemptRecord(number=1, outcome="FAILED", reason="FAILED", exit_code=1)
RUNS = replace(
    WAITS,
    phase=Phase.RUNNING,
    since=NOW - timedelta(minutes=4),
    position=None,
    attempt=2,
    attempts=3,
    has_started=True,
)
FAILED = replace(RUNS, phase=Phase.FAILED, reason="EXIT_CODE", reason_message="It exited with 1.")


@pytest.mark.parametrize(
    ("circumstances", "message"),
    [
        (WAITS, "QUEUED for 12 min, third in line at birch: pool 'std' at domain d decides."),
        (replace(WAITS, position=1), "QUEUED for 12 min, next at birch: pool 'std' at domain d decides."),
        (
            replace(WAITS, position=112, obstacle=FULL),
            "QUEUED for 12 min, number 112 in line at birch: birch is full (8 of 8 cpu taken); pool 'std' at "
            "domain d decides.",
        ),
        (
            replace(WAITS, position=None),
            "QUEUED for 12 min: the agent of birch has it, and has not said that it runs.",
        ),
        (
            replace(WAITS, position=None, waits_for="an exclusive job waits"),
            "QUEUED for 12 min: the agent of birch has it, and an exclusive job waits.",
        ),
        (
            replace(WAITS, position=None, engine_says="Kubernetes says: 0/1 nodes are available."),
            "QUEUED for 12 min: the agent of birch has it, and Kubernetes says: 0/1 nodes are available.",
        ),
        (
            replace(WAITS, waits_for="an exclusive job waits"),
            "QUEUED for 12 min, third in line at birch: its agent takes nothing now: an exclusive job waits.",
        ),
        (NO_CLUSTER, "QUEUED for 12 min: None is able."),
        (replace(WAITS, silence="It is silent."), "QUEUED for 12 min: It is silent."),
        (
            replace(WAITS, silence="It is silent.", not_before=LATER, position=None),
            "QUEUED for 12 min: It is silent.",
        ),
        (
            replace(WAITS, silence="It is silent.", attempt=2, attempts=3, not_before=LATER, failure=EXIT_1),
            "QUEUED: in back-off after exit 1 (attempt 1 of 3), next attempt in 4 min 10 s. "
            "The agent of birch is silent.",
        ),
        (
            replace(WAITS, attempt=2, attempts=3, not_before=LATER, reason_message="Attempt 1 ended FAILED."),
            "QUEUED: in back-off (attempt 1 of 3), next attempt in 4 min 10 s. Attempt 1 ended FAILED.",
        ),
        (
            replace(WAITS, attempt=2, attempts=3, not_before=LATER, failure=EXIT_1),
            "QUEUED: in back-off after exit 1 (attempt 1 of 3), next attempt in 4 min 10 s.",
        ),
        (
            replace(WAITS, attempt=2, attempts=3, not_before=LATER, failure=EXIT_1, obstacles=UNABLE),
            "QUEUED: in back-off after exit 1 (attempt 1 of 3), next attempt in 4 min 10 s. "
            "No cluster of pool 'std' would "
            "take the next attempt: 'birch' is draining, event 7, ana, 3 min ago.",
        ),
        (
            replace(WAITS, attempt=2, attempts=3, not_before=LATER, failure=EXIT_1, obstacles="The pool is gone."),
            "QUEUED: in back-off after exit 1 (attempt 1 of 3), next attempt in 4 min 10 s. "
            "No cluster would take the next "
            "attempt: the pool is gone.",
        ),
        (replace(NO_CLUSTER, obstacles=UNABLE), f"QUEUED for 12 min: {UNABLE}"),
        (
            replace(RUNS, failure=EXIT_1),
            "RUNNING on birch for 4 min (attempt 2 of 3, after exit 1): pool 'std' at domain d decides.",
        ),
        (RUNS, "RUNNING on birch for 4 min (attempt 2 of 3): pool 'std' at domain d decides."),
        (replace(RUNS, silence="It is silent."), "RUNNING on birch for 4 min (attempt 2 of 3): It is silent."),
        (
            replace(
                RUNS, silence="It is silent.", ends_at=NOW - timedelta(minutes=1), time_limit="90s, set by the request"
            ),
            "RUNNING on birch for 4 min (attempt 2 of 3): Its time limit was over at 2026-03-01T11:59:00Z (90s, set by "
            "the request): its cluster was to end it, and nobody has confirmed that it has. It is silent.",
        ),
        (
            replace(RUNS, silence="It is silent.", ends_at=LATER),
            "RUNNING on birch for 4 min (attempt 2 of 3): It is silent.",
        ),
        (
            replace(RUNS, phase=Phase.ABORTING, reason_message="Too late.", aborted_by=Actor(claimed_by="ana")),
            "ABORTING on birch for 4 min, by anonymous (says ana): Too late.",
        ),
        (
            replace(RUNS, phase=Phase.ABORTING, reason_message="Too late", silence="It is silent."),
            "ABORTING on birch for 4 min: Too late. It is silent.",
        ),
        (
            replace(
                RUNS,
                phase=Phase.ABORTING,
                reason="DRAINED",
                reason_message="It was drained.",
                aborted_by=Actor(claimed_by="ana"),
            ),
            "ABORTING on birch for 4 min: It was drained.",
        ),
        (
            replace(FAILED, no_other="its 3 attempts are used up, as the request says"),
            "FAILED on birch 4 min ago (attempt 2 of 3): It exited with 1. No other attempt "
            "follows: its 3 attempts are "
            "used up, as the request says.",
        ),
        (replace(RUNS, phase=Phase.ABORTED, reason_message="Too late."), "ABORTED on birch 4 min ago: Too late."),
        (
            replace(RUNS, phase=Phase.SUCCEEDED, duration=3700.0),
            "SUCCEEDED on birch 4 min ago after 1 h 1 min (attempt 2 of 3): pool 'std' at domain d decides.",
        ),
        (FAILED, "FAILED on birch 4 min ago (attempt 2 of 3): It exited with 1."),
        (
            replace(WAITS, phase=Phase.TIMED_OUT, reason_message="It waited too long."),
            "TIMED_OUT 12 min ago: It waited too long.",
        ),
        (
            replace(FAILED, attempts=1, attempt=1, limit="The limit 1Gi is set at domain d (revision 4)."),
            "FAILED on birch 4 min ago: It exited with 1. The limit 1Gi is set at domain d (revision 4).",
        ),
    ],
)
def test_the_sentence_is_about_now(circumstances: Circumstances, message: str) -> None:
    status = circumstances.status(NOW)
    assert status.message == message
    assert (status.phase, status.since) == (circumstances.phase.value, circumstances.since)


@pytest.mark.parametrize(
    ("circumstances", "step", "at"),
    [
        (WAITS, "The agent of birch takes it when it has room.", None),
        (
            replace(WAITS, queue_deadline=LATER),
            "The agent of birch takes it when it has room. If it still waits, it is TIMED_OUT at 2026-03-01T12:04:10Z.",
            LATER,
        ),
        (
            replace(WAITS, position=None, queue_deadline=LATER),
            "The agent of birch reports that it runs, or gives it back.",
            None,
        ),
        (
            replace(WAITS, has_never_synced=True),
            "The agent of birch, which has never synced, takes it when it has room.",
            None,
        ),
        (replace(WAITS, obstacle=FULL), "The agent of birch takes it when it has room.", None),
        (replace(WAITS, waits_for="an exclusive job waits"), "The agent of birch takes it when that is over.", None),
        (
            replace(WAITS, obstacle=Verdict("cordoned", False, "is cordoned")),
            "It is decided again any moment now.",
            None,
        ),
        (
            replace(NO_CLUSTER, triggers="when 'birch' is uncordoned, or the fleet changes otherwise"),
            "It is decided again when 'birch' is uncordoned, or the fleet changes otherwise.",
            None,
        ),
        (NO_CLUSTER, "It is decided again when something ends at one of these clusters, or the fleet changes.", None),
        (replace(NO_CLUSTER, reason="CLUSTERS_CORDONED"), "It is decided again when the fleet changes.", None),
        (replace(NO_CLUSTER, reason="UNDECIDED"), "It is decided again any moment now.", None),
        (replace(WAITS, not_before=LATER), "Its next attempt may start at 2026-03-01T12:04:10Z.", LATER),
        (replace(WAITS, not_before=NOW), "The agent of birch takes it when it has room.", None),
        (RUNS, "It ends by itself; it has no time limit.", None),
        (replace(RUNS, ends_at=LATER), "It ends by itself, or for its time limit at 2026-03-01T12:04:10Z.", LATER),
        (
            replace(RUNS, ends_at=LATER, time_limit="90s, set by the job itself"),
            "It ends by itself, or for its time limit at 2026-03-01T12:04:10Z (90s, set by the job itself).",
            LATER,
        ),
        (
            replace(RUNS, drain=DRAIN),
            "It ends by itself, or is ended at 2026-03-01T12:02:00Z by the drain of birch "
            "(event 7, ana, 3 min ago), and "
            "another attempt follows then; it has no time limit.",
            DRAIN.deadline,
        ),
        (
            replace(RUNS, ends_at=LATER, drain=replace(DRAIN, is_retried=False)),
            "It ends by itself, or for its time limit at 2026-03-01T12:04:10Z, or is ended at 2026-03-01T12:02:00Z by "
            "the drain of birch (event 7, ana, 3 min ago), and no other attempt follows then.",
            DRAIN.deadline,
        ),
        (replace(RUNS, drain=replace(DRAIN, deadline=None)), "It ends by itself; it has no time limit.", None),
        (
            replace(RUNS, ends_at=NOW - timedelta(seconds=9)),
            "It ends by itself, or for its time limit any moment now, overdue since 2026-03-01T11:59:51Z.",
            NOW - timedelta(seconds=9),
        ),
        (
            replace(RUNS, ends_at=NOW + timedelta(seconds=1)),
            "It ends by itself, or for its time limit any moment now.",
            NOW + timedelta(seconds=1),
        ),
        (
            replace(WAITS, queue_deadline=LATER, queueing_budget="5m, set at domain d"),
            "The agent of birch takes it when it has room. If it still waits, it is TIMED_OUT at 2026-03-01T12:04:10Z "
            "(its queueing budget is 5m, set at domain d).",
            LATER,
        ),
        (
            replace(WAITS, not_before=LATER, obstacles=UNABLE),
            "Its next attempt may start at 2026-03-01T12:04:10Z, if some cluster takes it by then.",
            LATER,
        ),
        (
            replace(RUNS, silence="Silent.", judgement="It is judged.", judged_at=LATER),
            "It is judged.",
            LATER,
        ),
        (
            replace(WAITS, silence="Silent.", not_before=LATER),
            "Its next attempt may start at 2026-03-01T12:04:10Z.",
            LATER,
        ),
        (replace(RUNS, phase=Phase.ABORTING), "Its agent ends it and says so.", None),
        (FAILED, None, None),
    ],
)
def test_what_happens_next(circumstances: Circumstances, step: str | None, at: datetime | None) -> None:
    status = circumstances.status(NOW)
    assert (status.next, status.next_at) == (step, at)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3659, "1 h"),
        (7500, "2 h 5 min"),
        (86400, "1 d"),
        (90000, "1 d 1 h"),
        (4000000, "46 d 7 h"),
    ],
)
def test_a_duration_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


def limits(quality: dict[str, str] | None = None, origins: dict[str, Any] | None = None, **job: Any) -> Limits:
    """The limits of a job that a workflow gave."""
    service = {"resource_type": "QUALITY_OF_SERVICE_SPECIFICATION", "value": {}, "origins": origins or {}}
    return Limits(
        job={"resources": job},
        given_job=None,
        workflow={"name": "fit", "version": "v1"},
        quality=quality or {},
        settings=[service],
        provenance={},
    )


def test_the_limit_of_a_job_that_is_no_longer_known_is_named_without_who_set_it() -> None:
    memory = limits(limits={"memory": "1Gi"})
    requested = replace(memory, given_job={"resources": {"limits": {"memory": "1Gi"}}})
    assert requested.describe("OUT_OF_MEMORY", NOW) == "Its limit 1Gi is set by workflow 'fit', version v1."
    assert memory.describe("OUT_OF_MEMORY", NOW) == "Its limit is 1Gi."
    assert memory.describe("EXIT_CODE", NOW) == ""
    assert limits().describe("OUT_OF_MEMORY", NOW) == limits().describe("TIME_LIMIT", NOW) == ""


def test_a_time_limit_says_who_set_it() -> None:
    timed = limits(duration="90s")
    assert timed.describe("TIME_LIMIT", NOW) == "Its time limit is 90s, set by workflow 'fit', version v1."
    message = "It ran longer than its limit of 90 s."
    assert timed.describe("TIME_LIMIT", NOW, message) == "That limit is set by workflow 'fit', version v1."
    known = replace(timed, registered="eve, 3 d ago, 'first release'")
    assert known.time_limit == "90s, set by workflow 'fit', version v1 (registered by eve, 3 d ago, 'first release')"
    assert replace(timed, workflow=None).time_limit == "90s, set by the job itself"


def test_a_queueing_budget_says_where_it_was_set() -> None:
    assert limits().queueing_budget(NOW) == ""
    place = {"level": "domain", "domain": "d", "version": 4}
    spec = limits({"queueing_budget": "600s"}, {"spec.queueing_budget": place})
    assert spec.queueing_budget(NOW) == "600s, set at domain d (revision 4, which is no longer kept)"
    budget = "Its queueing budget is 600s, set at domain d (revision 4, which is no longer kept)."
    assert spec.describe("QUEUEING_BUDGET_EXCEEDED", NOW) == budget
    tier = limits({"queueing_budget": "60s", "tier": "HIGH"}, {"tier": place})
    key = "qualityOfService.tierExecutionValues.HIGH.queueingBudget"
    place_of_tier = "the tier is set at domain d (revision 4, which is no longer kept)"
    assert tier.queueing_budget(NOW) == f"60s, set in configuration ({key}); {place_of_tier}"
    assert replace(tier, settings=limits().settings).queueing_budget(NOW) == f"60s, set in configuration ({key})"
