"""Attempts of an execution: those that are over, from its events, and the current one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.causes import Cause
from admin.core.executions.lifecycle import Phase
from admin.core.provenance import show_name, split_name
from admin.store import executions
from admin.store.executions import Event, Execution

#: Up to so many attempts are shown, the last ones.
MOST_ATTEMPTS = 100


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt of an execution."""

    number: int
    cluster: str | None
    phase: str  #: the current one, or how it ended; the event's type for one that came to nothing before it began
    reason: str
    message: str
    cause: Cause | None
    ended_by: str | None  #: in words; None for one that is not over
    native_id: str | None
    exit_code: int | None
    signal: int | None
    started_at: datetime | None
    ended_at: datetime | None  #: when its native job ended, by its agent's clock; None where nobody has said so
    reported_at: datetime | None  #: when the admin heard of its end, or ended it


@dataclass(frozen=True, kw_only=True)
class AttemptList:
    """The attempts of an execution, the first one first."""

    attempts: list[AttemptView]
    unrecorded: int  #: how many are not among them: their events are not kept, or are older than such records


def list_attempts(connection: Connection, execution: Execution) -> AttemptList:
    """The attempts of an execution that an agent has or had."""
    events = executions.attempt_events(connection, execution.id, MOST_ATTEMPTS)
    views = {view.number: view for view in (_ended(event, execution) for event in reversed(events))}
    has_begun = execution.started_at is not None or execution.native_id is not None
    if execution.attempt not in views and (has_begun or execution.lease_expires_at is not None):
        views[execution.attempt] = _current(execution)
    last = execution.attempt if execution.attempt in views else execution.attempt - 1
    return AttemptList(attempts=list(views.values()), unrecorded=max(0, last - len(views)))


def _ended(event: Event, execution: Execution) -> AttemptView:
    record = AttemptRecord.from_json(event.attempt or {})
    by = event.by if event.type == "GIVEN_UP" else None
    if record.number == execution.attempt and record.outcome == Phase.ABORTED.value and by is None:
        by = execution.abort_principal
    verb = "given up" if event.type == "GIVEN_UP" else "cancelled"
    return _view(
        record,
        cluster=event.cluster,
        message=event.message or "",
        ended_by=f"{verb} by {show_name(*split_name(by))}" if by else record.ended_by,
        reported_at=event.at,
    )


def _current(execution: Execution) -> AttemptView:
    """The current attempt by the execution's own row, which is all there is of one that has not ended."""
    record = AttemptRecord(
        number=execution.attempt,
        outcome=execution.phase,
        reason=execution.reason,
        native_id=execution.native_id,
        exit_code=execution.exit_code,
        started_at=execution.started_at,
    )
    return _view(
        record,
        cluster=execution.cluster,
        message=execution.reason_message,
        ended_by=record.ended_by if Phase(execution.phase).is_finished else None,
        reported_at=execution.finished_at,
    )


def _view(
    record: AttemptRecord, *, cluster: str | None, message: str, ended_by: str | None, reported_at: datetime | None
) -> AttemptView:
    return AttemptView(
        number=record.number,
        cluster=cluster,
        phase=record.outcome,
        reason=record.reason,
        message=message,
        cause=record.cause if ended_by else None,
        ended_by=ended_by,
        native_id=record.native_id,
        exit_code=record.exit_code,
        signal=record.signal,
        started_at=record.started_at,
        ended_at=record.ended_at,
        reported_at=reported_at,
    )
