"""Reports of agents: which of them are accepted, and what an accepted one changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from admin.core.executions.attempts import (
    NOT_ABORTED,
    AttemptState,
    Change,
    Outcome,
    finish,
    may_have_started,
    requeue,
    start,
    waits_for_other,
)
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST, DRAINED
from admin.core.executions.silences import as_sentence

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

#: Why a report is refused that is of another execution, which had the same name.
OTHER_EXECUTION = "OTHER_EXECUTION"
#: Why an agent is not believed that nothing runs: another one holds the lease, and may run it.
LEASE_NOT_OVER = "LEASE_NOT_OVER"


@dataclass(kw_only=True, slots=True)
class Reporter:
    """Who reports."""

    cluster: str
    instance: str  #: of the agent; "" for one that sends none


def is_same(uid: str, stored: str) -> bool:
    """Whether an id that an agent sends is that of an execution; agents and executions of before have none."""
    return not uid or not stored or uid == stored


def may_disown(execution: AttemptState, instance: str, now: datetime) -> bool:
    """Whether an agent can know that a leased execution does not run: it holds the lease, or the lease is over."""
    if execution.lease_instance == instance or not may_have_started(execution):
        return True
    is_over = execution.lease_expires_at is None or execution.lease_expires_at <= now
    return is_over and not waits_for_other(execution, instance, now)


def refusal(
    execution: AttemptState | None, report: str, *, attempt: int, uid: str, by: Reporter, now: datetime
) -> str | None:
    """Why a report is refused; None where it is accepted, also a second time."""
    if execution is None:
        return "UNKNOWN_EXECUTION"
    if not is_same(uid, execution.uid):
        return OTHER_EXECUTION
    if attempt != execution.attempt:
        return "OLD_ATTEMPT"
    if execution.cluster != by.cluster:
        return "NOT_YOURS"
    phase, before = REPORTS[report], Phase(execution.phase)
    if phase is before:
        return None
    if execution.lease_expires_at is None:
        return "NOT_YOURS" if not before.is_finished else "PHASE"
    if phase is None:
        if before is Phase.RUNNING and report != "UNKNOWN":
            return "PHASE"
        return None if may_disown(execution, by.instance, now) else LEASE_NOT_OVER
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
    if report == "RELEASED" and is_aborting and execution.reason == DRAINED:
        change = requeue(execution, outcome.message or "Its cluster was drained before it had started.", stays=False)
        return replace(change, values={**change.values, **NOT_ABORTED})
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
    if report != "DECLINED":
        return requeue(execution, message, stays=takes_work)
    # The event has the cluster beside it; the event of the round that decides it again has only this sentence.
    declined = f"Cluster '{execution.cluster}' declined it{f': {outcome.message}' if outcome.message else ''}"
    return replace(requeue(execution, as_sentence(declined), stays=takes_work, declined=True), message=message)
