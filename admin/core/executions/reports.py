"""Reports of agents: which are refused, and how the others change an execution."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from admin.core.executions.attempts import AttemptState, Change, Outcome, finish, requeue, start
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST

#: The reports of agents, and the phase that each means; None where it means no phase by itself.
REPORTS: dict[str, Phase | None] = {
    "RUNNING": Phase.RUNNING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "TIMED_OUT": Phase.TIMED_OUT,
    "ABORTED": Phase.ABORTED,
    "DECLINED": None,  # the agent refuses to run it
    "RELEASED": None,  # the agent returns it, not started
    "UNKNOWN": None,  # neither the agent nor its engine knows it
}


#: Reports after which another attempt may follow, or another cluster be chosen.
NEED_DETAILS = frozenset(REPORTS) - {"RUNNING", "SUCCEEDED"}


def refusal(execution: AttemptState | None, cluster: str, attempt: int, report: str) -> str | None:
    """Why a report is refused; None where it is accepted, also a second time."""
    if execution is None:
        return "UNKNOWN_EXECUTION"
    if attempt != execution.attempt:
        return "OLD_ATTEMPT"
    if execution.cluster != cluster:
        return "NOT_YOURS"
    phase, before = REPORTS[report], Phase(execution.phase)
    if phase is before:
        return None
    if execution.lease_expires_at is None:
        return "NOT_YOURS" if not before.is_finished else "PHASE"
    if phase is None:
        return None if before in (Phase.QUEUED, Phase.ABORTING) or report == "UNKNOWN" else "PHASE"
    if before is Phase.ABORTING:
        return None  # however it ended, it has ended, as was asked
    return None if before.may_become(phase) else "PHASE"


def apply_report(
    execution: AttemptState, report: str, outcome: Outcome, now: datetime, *, takes_work: bool
) -> Change | None:
    """The change that an accepted report makes; None where it brings nothing new."""
    phase = REPORTS[report]
    is_aborting = execution.phase == Phase.ABORTING.value
    if phase is not None and phase.value == execution.phase:
        return None
    if phase is Phase.RUNNING:
        return None if is_aborting else start(outcome, now)
    if phase is not None:
        return finish(execution, outcome, now, stays=takes_work)
    if is_aborting or report == "UNKNOWN":
        if not is_aborting and execution.phase == Phase.QUEUED.value and not execution.confirmed:
            return requeue(execution, "Its agent does not know it.", stays=takes_work)
        message = outcome.message or "Its cluster does not know it."
        return finish(execution, replace(outcome, reason=CLUSTER_LOST, message=message), now, stays=takes_work)
    message = outcome.message or f"Its agent {report.lower()} it."
    return requeue(execution, message, stays=takes_work, declined=report == "DECLINED")
