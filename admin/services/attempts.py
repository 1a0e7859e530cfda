"""Attempts: how one begins, ends, is followed by another, or is given back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from admin.core.lifecycle import Phase
from admin.core.retries import CLUSTER_LOST, Retries
from admin.services.executions import queue_deadline
from admin.store import executions
from admin.store.executions import UNDECIDED, Event, Execution


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended, or what else is said of it."""

    phase: Phase
    reason: str
    message: str
    exit_code: int | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    duration: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an execution ended."""

    phase: Phase
    reason: str


def begin(connection: Connection, row: Execution, outcome: Outcome, now: datetime) -> None:
    """An attempt runs."""
    values = {"phase": Phase.RUNNING.value, "reason": outcome.reason, "reason_message": outcome.message}
    _change(connection, row, {**values, "started_at": now, **_native(outcome)}, "RUNNING", now)


def finish(
    connection: Connection, row: Execution, outcome: Outcome, now: datetime, *, stays: bool = True
) -> Ended | None:
    """An attempt ended, and the execution with it; None where another attempt follows, there if it `stays`."""
    is_drained = row.phase == Phase.ABORTING.value and row.reason == "DRAINED"
    kind = CLUSTER_LOST if outcome.reason == CLUSTER_LOST or is_drained else outcome.phase.value
    is_unwanted = row.phase == Phase.ABORTING.value and not is_drained
    wait = None if is_unwanted else Retries.of(row.content.get("retry")).seconds_until_next(row.attempt, kind)
    if wait is not None and outcome.phase is not Phase.SUCCEEDED:
        _again(connection, row, outcome, now, wait, stays=stays)
        return None
    is_unwanted = is_unwanted or is_drained
    phase = Phase.ABORTED if is_unwanted else outcome.phase
    reason = row.reason if is_unwanted else outcome.reason
    message = row.reason_message if is_unwanted else outcome.message
    if is_unwanted and outcome.phase is Phase.SUCCEEDED:
        message = f"{message} It had succeeded by then."
    measured = outcome.duration
    if measured is None and row.started_at is not None:
        measured = (now - row.started_at).total_seconds()
    values = {
        "phase": phase.value,
        "reason": reason,
        "reason_message": message,
        "finished_at": now,
        "duration": measured,
        "lease_expires_at": None,
        **_native(outcome),
    }
    _change(connection, row, values, phase.value, now)
    return Ended(phase=phase, reason=reason)


def _again(
    connection: Connection, row: Execution, outcome: Outcome, now: datetime, wait: float, *, stays: bool
) -> None:
    """Back to the queue with the next attempt; elsewhere, if the cluster is lost or takes no new work."""
    is_lost = outcome.reason == CLUSTER_LOST or row.reason == "DRAINED"
    message = f"Attempt {row.attempt} ended {outcome.phase.value} ({outcome.reason}): {outcome.message}"
    values = {
        **_fresh(row),
        "not_before": now + timedelta(seconds=wait) if wait else None,
        "queue_deadline": queue_deadline(row.content["quality_of_service"], now + timedelta(seconds=wait)),
        "started_at": None,
        "abort_cause": None,
        "abort_principal": None,
        **({"reason": "RETRY"} if stays and not is_lost else {"cluster": None, "reason": UNDECIDED}),
        "reason_message": message,
    }
    _change(connection, row, values, "RETRY", now)


def give_back(
    connection: Connection, row: Execution, now: datetime, message: str, *, stays: bool, declined: bool = False
) -> None:
    """What had not started goes back to the queue; to another cluster's, if this one declined it or takes no work."""
    values: dict[str, Any] = {**_fresh(row), "reason": "ASSIGNED", "reason_message": message}
    if declined:
        values["avoid"] = [*row.avoid, row.cluster]
    if declined or not stays:
        values |= {"cluster": None, "reason": UNDECIDED}
    _change(connection, row, values, "DECLINED" if declined else "RELEASED", now)


def evict(connection: Connection, row: Execution, now: datetime) -> Ended | None:
    """Take an execution from a cluster that is lost and whose lease is over; None where it goes on elsewhere."""
    message = f"Cluster '{row.cluster}' has not been heard of for too long."
    if row.phase == Phase.QUEUED.value and not row.confirmed:
        values = {**_fresh(row), "cluster": None, "reason": UNDECIDED, "reason_message": message}
        _change(connection, row, values, "EVICTED", now)
        return None
    return finish(connection, row, Outcome(phase=Phase.FAILED, reason=CLUSTER_LOST, message=message), now)


def _fresh(row: Execution) -> dict[str, Any]:
    """Another attempt, of which nobody has a lease; reports of the one before do not count from now on."""
    return {
        "phase": Phase.QUEUED.value,
        "attempt": row.attempt + 1,
        "lease_expires_at": None,
        "confirmed": False,
        "native_id": None,
        "nodes": None,
        "exit_code": None,
    }


def _native(outcome: Outcome) -> dict[str, Any]:
    said = {"native_id": outcome.native_id, "nodes": outcome.nodes, "exit_code": outcome.exit_code}
    return {name: value for name, value in said.items() if value is not None}


def _change(connection: Connection, row: Execution, values: Mapping[str, Any], kind: str, now: datetime) -> None:
    """Change an execution and say so in its events."""
    number = row.events + 1
    executions.change(connection, row.id, {**values, "updated_at": now, "events": number})
    event = Event(
        number=number,
        at=now,
        type=kind,
        phase=str(values.get("phase", row.phase)),
        reason=values.get("reason", row.reason),
        message=values.get("reason_message"),
        cluster=row.cluster,
    )
    executions.add_events(connection, [(row.id, event)])


def note(connection: Connection, row: Execution, kind: str, reason: str, message: str, now: datetime) -> None:
    """Say something in an execution's events that changes nothing else."""
    number = row.events + 1
    executions.change(connection, row.id, {"events": number})
    event = Event(
        number=number, at=now, type=kind, phase=row.phase, reason=reason, message=message, cluster=row.cluster
    )
    executions.add_events(connection, [(row.id, event)])
