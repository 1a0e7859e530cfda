"""Attempts of an execution: those that are over, from its events, and the current one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import attempt_number
from admin.core.executions.causes import Cause
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import DRAINED
from admin.core.provenance import Provenance
from admin.core.times import show_time
from admin.store import cluster_events, execution_events
from admin.store.execution_events import Event
from admin.store.executions import Execution

#: Up to so many attempts are shown, the last ones.
MOST_ATTEMPTS = 100


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt of an execution: its record, and what its event and the execution tell beside that."""

    record: AttemptRecord  #: of one that is not over as far as it has come, in the phase that it has
    cluster: str | None
    message: str
    ended_by: str | None  #: in words; None for one that is not over
    reported_at: datetime | None  #: when the admin heard of its end, or ended it
    confirmed_at: datetime | None = None  #: when the agent of one that was ended without it reported its end
    confirmed_as: str | None = None  #: how it had ended by that report
    drained_by: Provenance | None = None  #: the event by which the cluster was drained that ended it

    @property
    def cause(self) -> Cause | None:
        return self.record.cause if self.ended_by else None

    @property
    def started_at(self) -> datetime | None:
        return self.record.started_at

    @property
    def ended_at(self) -> datetime | None:
        return self.record.ended_at

    @property
    def silent_since(self) -> datetime | None:
        return self.record.silent_since


@dataclass(frozen=True, kw_only=True)
class AttemptList:
    """The attempts of an execution, the first one first."""

    attempts: list[AttemptView]
    unrecorded: int  #: how many are not among them: their events are not kept, or are older than such records

    @property
    def declines(self) -> dict[str, str]:
        """When each cluster declined it last, and why: `at …: the local engine has no gpu`."""
        return {
            attempt.cluster: f"at {show_time(attempt.reported_at)}: {attempt.message.removesuffix('.')}"
            for attempt in self.attempts
            if attempt.record.outcome == "DECLINED" and attempt.cluster and attempt.reported_at and attempt.message
        }


def list_attempts(connection: Connection, execution: Execution) -> AttemptList:
    """The attempts of an execution that an agent has or had."""
    views: dict[int, AttemptView] = {}
    for event in reversed(execution_events.attempt_events(connection, execution.id, MOST_ATTEMPTS)):
        record = AttemptRecord.from_json(event.attempt or {})
        if event.type != execution_events.CONFIRMED:
            view = _ended(event, record, execution)
            views[record.number] = replace(view, drained_by=_drained_by(connection, execution, event, record))
        elif record.number in views:
            views[record.number] = _confirmed(views[record.number], record, event.at)
    has_begun = execution.started_at is not None or execution.native_id is not None
    if execution.attempt not in views and (has_begun or execution.lease_expires_at is not None):
        views[execution.attempt] = _current(execution)
    last = execution.attempt if execution.attempt in views else execution.attempt - 1
    return AttemptList(attempts=list(views.values()), unrecorded=max(0, last - len(views)))


def _drained_by(connection: Connection, execution: Execution, event: Event, record: AttemptRecord) -> Provenance | None:
    """The drain that ended an attempt, as long as the event of that is kept; it may be undone since."""
    if record.reason != DRAINED or event.cluster is None:
        return None
    aborted_at = execution_events.last_time(connection, execution.id, Phase.ABORTING.value, event.number)
    drained = cluster_events.switched_by(connection, {"draining": [event.cluster]}, aborted_at or event.at)
    return drained.get((event.cluster, "draining"))


def _confirmed(view: AttemptView, record: AttemptRecord, at: datetime) -> AttemptView:
    """An attempt that was ended without its agent, with what the agent has reported since."""
    confirmed = replace(
        view.record,
        native_id=view.record.native_id or record.native_id,
        exit_code=record.exit_code,
        signal=record.signal,
        started_at=record.started_at or view.record.started_at,
        ended_at=record.ended_at,
        unconfirmed=None,
    )
    return replace(view, record=confirmed, confirmed_at=at, confirmed_as=record.outcome)


def _ended(event: Event, record: AttemptRecord, execution: Execution) -> AttemptView:
    by = event.actor if event.type == "GIVEN_UP" else None
    if record.number == execution.attempt and record.outcome == Phase.ABORTED.value and by is None:
        by = execution.aborted_by
    if record.number == execution.attempt and record.nodes is None:
        record = replace(record, nodes=execution.nodes)
    verb = "given up" if event.type == "GIVEN_UP" else "drained" if record.reason == DRAINED else "cancelled"
    return AttemptView(
        record=record,
        cluster=event.cluster,
        message=event.message or "",
        ended_by=f"{verb} by {by}" if by else record.ended_by,
        reported_at=event.at,
    )


def _current(execution: Execution) -> AttemptView:
    """The current attempt by the execution's own row, which is all there is of one that has not ended."""
    record = AttemptRecord(
        number=execution.attempt,
        attempt_number=attempt_number(execution),
        outcome=execution.phase,
        reason=execution.reason,
        native_id=execution.native_id,
        nodes=execution.nodes,
        exit_code=execution.exit_code,
        started_at=execution.started_at,
    )
    return AttemptView(
        record=record,
        cluster=execution.cluster,
        message=execution.reason_message,
        ended_by=record.ended_by if Phase(execution.phase).is_finished else None,
        reported_at=execution.finished_at,
    )
