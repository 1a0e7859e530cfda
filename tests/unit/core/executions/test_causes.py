"""Causes of executions that did not succeed, by phase and reason."""

from __future__ import annotations

import pytest

from admin.core.executions.causes import Cause, cause_of, phases_of
from admin.core.executions.lifecycle import Phase


@pytest.mark.parametrize(
    ("phase", "reason", "cause"),
    [
        ("FAILED", "FAILED", Cause.EXIT_CODE),
        ("FAILED", "SIGNAL", Cause.EXIT_CODE),
        ("FAILED", "COMMAND_NOT_FOUND", Cause.EXIT_CODE),
        ("FAILED", "COMMAND_NOT_EXECUTABLE", Cause.EXIT_CODE),
        ("FAILED", "NO_WORKING_DIRECTORY", Cause.EXIT_CODE),
        ("FAILED", "OUT_OF_MEMORY", Cause.LIMIT),
        ("FAILED", "DEADLINE", Cause.LIMIT),
        ("TIMED_OUT", "TIME_LIMIT", Cause.LIMIT),
        ("TIMED_OUT", "TIMED_OUT", Cause.LIMIT),
        ("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED", Cause.LIMIT),
        ("FAILED", "CLUSTER_LOST", Cause.CLUSTER_LOST),
        ("ABORTING", "TERMINATED", Cause.CANCELLED),
        ("ABORTED", "TERMINATED", Cause.CANCELLED),
        ("ABORTED", "ABORTED", Cause.CANCELLED),
        ("ABORTED", "DRAINED", Cause.PLATFORM),
        ("FAILED", "NODE_FAIL", Cause.PLATFORM),
        ("FAILED", "BOOT_FAIL", Cause.PLATFORM),
        ("FAILED", "LAUNCH_FAILED", Cause.PLATFORM),
        ("FAILED", "PREEMPTED", Cause.PLATFORM),
        ("FAILED", "NOT_STARTED", Cause.PLATFORM),
        ("FAILED", "MACHINE_RESTARTED", Cause.PLATFORM),
        ("FAILED", "SUPERVISOR_LOST", Cause.PLATFORM),
        ("FAILED", "SUPERVISOR_STOPPED", Cause.PLATFORM),
        ("FAILED", "A_REASON_OF_AN_ENGINE_OF_ITS_OWN", Cause.PLATFORM),
    ],
)
def test_a_cause_follows_from_phase_and_reason(phase: str, reason: str, cause: Cause) -> None:
    assert cause_of(phase, reason) is cause
    assert phase in phases_of([cause.value])


@pytest.mark.parametrize("phase", ["QUEUED", "RUNNING", "SUCCEEDED"])
def test_what_waits_runs_or_succeeded_has_no_cause(phase: str) -> None:
    assert cause_of(phase, "CLUSTER_LOST") is None


def test_everything_that_ended_without_success_has_a_cause() -> None:
    ended = {phase.value for phase in Phase if phase.is_finished and phase is not Phase.SUCCEEDED}
    assert ended <= set(phases_of(cause.value for cause in Cause))
    assert all(cause_of(phase, "NEVER_HEARD_OF") for phase in ended)


def test_no_cause_has_no_phases() -> None:
    assert phases_of([]) == phases_of(["nothing"]) == ()
