"""Reports of agents: what each does to an execution, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from admin.core.executions.attempts import Attempted, Change, Outcome, begin, finish, give_back
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST

#: What an agent may report, and the phase that it means; None for what changes no phase by itself.
REPORTS: dict[str, Phase | None] = {
    "RUNNING": Phase.RUNNING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "TIMED_OUT": Phase.TIMED_OUT,
    "ABORTED": Phase.ABORTED,
    "DECLINED": None,  # the agent will not have it
    "RELEASED": None,  # the agent gives it back, not started
    "UNKNOWN": None,  # the agent knows nothing of it, and neither does its engine
}


#: Reports after which another attempt may follow, or which another cluster must know of.
NEED_DETAILS = frozenset(REPORTS) - {"RUNNING", "SUCCEEDED"}


def refusal(held: Attempted | None, cluster: str, attempt: int, report: str) -> str | None:
    """Why a report does not count; None where it does, or where it was counted before."""
    if held is None:
        return "UNKNOWN_EXECUTION"
    if attempt != held.attempt:
        return "OLD_ATTEMPT"
    if held.cluster != cluster:
        return "NOT_YOURS"
    phase, before = REPORTS[report], Phase(held.phase)
    if phase is before:
        return None
    if held.lease_expires_at is None:
        return "NOT_YOURS" if not before.is_finished else "PHASE"
    if phase is None:
        return None if before in (Phase.QUEUED, Phase.ABORTING) or report == "UNKNOWN" else "PHASE"
    if before is Phase.ABORTING:
        return None  # whatever it came to, it has ended; the wish to end it is fulfilled
    return None if before.may_become(phase) else "PHASE"


def change_by(held: Attempted, report: str, outcome: Outcome, now: datetime, *, takes_work: bool) -> Change | None:
    """What a report that counts does to an execution; None where it is no news."""
    phase = REPORTS[report]
    is_unwanted = held.phase == Phase.ABORTING.value
    if phase is not None and phase.value == held.phase:
        return None
    if phase is Phase.RUNNING:
        return None if is_unwanted else begin(outcome, now)
    if phase is not None:
        return finish(held, outcome, now, stays=takes_work)
    if is_unwanted or report == "UNKNOWN":
        if not is_unwanted and held.phase == Phase.QUEUED.value and not held.confirmed:
            return give_back(held, "Its agent knows nothing of it.", stays=takes_work)
        message = outcome.message or "Its cluster knows nothing of it."
        return finish(held, replace(outcome, reason=CLUSTER_LOST, message=message), now, stays=takes_work)
    message = outcome.message or f"Its agent {report.lower()} it."
    return give_back(held, message, stays=takes_work, declined=report == "DECLINED")
