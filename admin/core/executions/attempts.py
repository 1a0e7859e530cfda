"""Attempts: how one begins, ends, is followed by another, or goes back to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from admin.core.executions.lifecycle import Phase
from admin.core.executions.quality_of_service import queue_deadline
from admin.core.executions.retries import CLUSTER_LOST, Retries

#: The reason of an execution that waits for the background loop to place it again.
UNDECIDED = "UNDECIDED"
#: The reason of an execution that is aborted because its cluster's drain is over.
DRAINED = "DRAINED"


class AttemptState(Protocol):
    """The fields of an execution that these rules read; `content` and `avoid` only where an attempt may fail."""

    phase: str
    reason: str
    reason_message: str
    cluster: str | None
    attempt: int
    started_at: datetime | None
    lease_expires_at: datetime | None
    confirmed: bool
    content: Mapping[str, Any]
    avoid: list[str]


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What an agent reports of an attempt."""

    phase: Phase
    reason: str
    message: str
    exit_code: int | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    duration: float | None = None


@dataclass(kw_only=True, slots=True)
class Ended:
    """How an execution ended."""

    phase: Phase
    reason: str


@dataclass(kw_only=True, slots=True)
class Change:
    """A change of an execution: the kind of its event, the new values, and how it ended, if it did."""

    kind: str
    values: dict[str, Any]
    ended: Ended | None = None


def start(outcome: Outcome, now: datetime) -> Change:
    """Mark an attempt as running."""
    values = {"phase": Phase.RUNNING.value, "reason": outcome.reason, "reason_message": outcome.message}
    return Change(kind="RUNNING", values={**values, "started_at": now, **_native(outcome)})


def finish(execution: AttemptState, outcome: Outcome, now: datetime, *, stays: bool = True) -> Change:
    """End an attempt, and the execution with it unless another attempt follows; on the same cluster if it `stays`."""
    is_aborting = execution.phase == Phase.ABORTING.value
    is_drained = is_aborting and execution.reason == DRAINED
    if outcome.phase is not Phase.SUCCEEDED and (is_drained or not is_aborting):
        kind = CLUSTER_LOST if outcome.reason == CLUSTER_LOST or is_drained else outcome.phase.value
        wait = Retries.of(execution.content.get("retry")).seconds_until_next(execution.attempt, kind)
        if wait is not None:
            return _retry(execution, outcome, now, wait, stays=stays)
    phase = Phase.ABORTED if is_aborting else outcome.phase
    reason = execution.reason if is_aborting else outcome.reason
    message = execution.reason_message if is_aborting else outcome.message
    if is_aborting and outcome.phase is Phase.SUCCEEDED:
        message = f"{message} It had succeeded by then."
    duration = outcome.duration
    if duration is None and execution.started_at is not None:
        duration = (now - execution.started_at).total_seconds()
    values = {
        "phase": phase.value,
        "reason": reason,
        "reason_message": message,
        "finished_at": now,
        "duration": duration,
        "lease_expires_at": None,
        **_native(outcome),
    }
    return Change(kind=phase.value, values=values, ended=Ended(phase=phase, reason=reason))


def _retry(execution: AttemptState, outcome: Outcome, now: datetime, wait: float, *, stays: bool) -> Change:
    """Queue the next attempt; for another cluster, if this one is lost or takes no new work."""
    is_lost = outcome.reason == CLUSTER_LOST or execution.reason == DRAINED
    message = f"Attempt {execution.attempt} ended {outcome.phase.value} ({outcome.reason}): {outcome.message}"
    values = {
        **_next_attempt(execution),
        "not_before": now + timedelta(seconds=wait) if wait else None,
        "queue_deadline": queue_deadline(execution.content["quality_of_service"], now + timedelta(seconds=wait)),
        "started_at": None,
        "abort_cause": None,
        "abort_principal": None,
        **({"reason": "RETRY"} if stays and not is_lost else {"cluster": None, "reason": UNDECIDED}),
        "reason_message": message,
    }
    return Change(kind="RETRY", values=values)


def requeue(execution: AttemptState, message: str, *, stays: bool, declined: bool = False) -> Change:
    """Queue what had not started; for another cluster, if this one declined it or takes no work."""
    values: dict[str, Any] = {**_next_attempt(execution), "reason": "ASSIGNED", "reason_message": message}
    if declined:
        values["avoid"] = [*execution.avoid, execution.cluster]
    if declined or not stays:
        values |= {"cluster": None, "reason": UNDECIDED}
    return Change(kind="DECLINED" if declined else "RELEASED", values=values)


def evict(execution: AttemptState, now: datetime) -> Change:
    """Take an execution from a lost cluster after its lease has expired."""
    message = f"Cluster '{execution.cluster}' has been silent for too long."
    if execution.phase == Phase.QUEUED.value and not execution.confirmed:
        values = {**_next_attempt(execution), "cluster": None, "reason": UNDECIDED, "reason_message": message}
        return Change(kind="EVICTED", values=values)
    return finish(execution, Outcome(phase=Phase.FAILED, reason=CLUSTER_LOST, message=message), now)


def cancel(reason: str, message: str) -> Change:
    """Ask the agent to end an execution that may have started."""
    values = {"phase": Phase.ABORTING.value, "reason": reason, "reason_message": message}
    return Change(kind=Phase.ABORTING.value, values={**values, "abort_cause": message, "abort_principal": None})


def _next_attempt(execution: AttemptState) -> dict[str, Any]:
    """The values of a next attempt that nobody has leased; reports of the one before are refused from now on."""
    return {
        "phase": Phase.QUEUED.value,
        "attempt": execution.attempt + 1,
        "lease_expires_at": None,
        "confirmed": False,
        "native_id": None,
        "nodes": None,
        "exit_code": None,
    }


def _native(outcome: Outcome) -> dict[str, Any]:
    values = {"native_id": outcome.native_id, "nodes": outcome.nodes, "exit_code": outcome.exit_code}
    return {name: value for name, value in values.items() if value is not None}
