"""Attempts: how one begins, ends, is followed by another, or goes back to the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from admin.core.executions.lifecycle import Phase
from admin.core.executions.quality_of_service import queue_deadline
from admin.core.executions.retries import CLUSTER_LOST, Retries

#: Why something waits that is to be decided again by the background loop.
UNDECIDED = "UNDECIDED"
#: Why something is to end whose cluster's drain is over.
DRAINED = "DRAINED"


class Attempted(Protocol):
    """What these rules know of an execution; what an attempt takes along only where one may end badly."""

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
    """How an attempt ended, or what else is said of it."""

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
    """What happens to an execution: the event that says so, the new values, and how it ended, if it did."""

    kind: str
    values: dict[str, Any]
    ended: Ended | None = None


def begin(outcome: Outcome, now: datetime) -> Change:
    """An attempt runs."""
    values = {"phase": Phase.RUNNING.value, "reason": outcome.reason, "reason_message": outcome.message}
    return Change(kind="RUNNING", values={**values, "started_at": now, **_native(outcome)})


def finish(held: Attempted, outcome: Outcome, now: datetime, *, stays: bool = True) -> Change:
    """An attempt ended, and the execution with it, unless another attempt follows, there if it `stays`."""
    is_drained = held.phase == Phase.ABORTING.value and held.reason == DRAINED
    is_unwanted = held.phase == Phase.ABORTING.value and not is_drained
    if outcome.phase is not Phase.SUCCEEDED and not is_unwanted:
        kind = CLUSTER_LOST if outcome.reason == CLUSTER_LOST or is_drained else outcome.phase.value
        wait = Retries.of(held.content.get("retry")).seconds_until_next(held.attempt, kind)
        if wait is not None:
            return _again(held, outcome, now, wait, stays=stays)
    is_unwanted = is_unwanted or is_drained
    phase = Phase.ABORTED if is_unwanted else outcome.phase
    reason = held.reason if is_unwanted else outcome.reason
    message = held.reason_message if is_unwanted else outcome.message
    if is_unwanted and outcome.phase is Phase.SUCCEEDED:
        message = f"{message} It had succeeded by then."
    measured = outcome.duration
    if measured is None and held.started_at is not None:
        measured = (now - held.started_at).total_seconds()
    values = {
        "phase": phase.value,
        "reason": reason,
        "reason_message": message,
        "finished_at": now,
        "duration": measured,
        "lease_expires_at": None,
        **_native(outcome),
    }
    return Change(kind=phase.value, values=values, ended=Ended(phase=phase, reason=reason))


def _again(held: Attempted, outcome: Outcome, now: datetime, wait: float, *, stays: bool) -> Change:
    """Back to the queue with the next attempt; elsewhere, if the cluster is lost or takes no new work."""
    is_lost = outcome.reason == CLUSTER_LOST or held.reason == DRAINED
    message = f"Attempt {held.attempt} ended {outcome.phase.value} ({outcome.reason}): {outcome.message}"
    values = {
        **_fresh(held),
        "not_before": now + timedelta(seconds=wait) if wait else None,
        "queue_deadline": queue_deadline(held.content["quality_of_service"], now + timedelta(seconds=wait)),
        "started_at": None,
        "abort_cause": None,
        "abort_principal": None,
        **({"reason": "RETRY"} if stays and not is_lost else {"cluster": None, "reason": UNDECIDED}),
        "reason_message": message,
    }
    return Change(kind="RETRY", values=values)


def give_back(held: Attempted, message: str, *, stays: bool, declined: bool = False) -> Change:
    """What had not started goes back to the queue; to another cluster's, if this one declined it or takes no work."""
    values: dict[str, Any] = {**_fresh(held), "reason": "ASSIGNED", "reason_message": message}
    if declined:
        values["avoid"] = [*held.avoid, held.cluster]
    if declined or not stays:
        values |= {"cluster": None, "reason": UNDECIDED}
    return Change(kind="DECLINED" if declined else "RELEASED", values=values)


def evict(held: Attempted, now: datetime) -> Change:
    """Take an execution from a cluster that is lost and whose lease is over."""
    message = f"Cluster '{held.cluster}' has not been heard of for too long."
    if held.phase == Phase.QUEUED.value and not held.confirmed:
        values = {**_fresh(held), "cluster": None, "reason": UNDECIDED, "reason_message": message}
        return Change(kind="EVICTED", values=values)
    return finish(held, Outcome(phase=Phase.FAILED, reason=CLUSTER_LOST, message=message), now)


def cancel(reason: str, message: str) -> Change:
    """What may have started is to be ended by its agent."""
    values = {"phase": Phase.ABORTING.value, "reason": reason, "reason_message": message}
    return Change(kind=Phase.ABORTING.value, values={**values, "abort_cause": message, "abort_principal": None})


def _fresh(held: Attempted) -> dict[str, Any]:
    """Another attempt, of which nobody has a lease; reports of the one before do not count from now on."""
    return {
        "phase": Phase.QUEUED.value,
        "attempt": held.attempt + 1,
        "lease_expires_at": None,
        "confirmed": False,
        "native_id": None,
        "nodes": None,
        "exit_code": None,
    }


def _native(outcome: Outcome) -> dict[str, Any]:
    said = {"native_id": outcome.native_id, "nodes": outcome.nodes, "exit_code": outcome.exit_code}
    return {name: value for name, value in said.items() if value is not None}
