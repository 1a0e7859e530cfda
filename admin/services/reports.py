"""Reports of agents on executions: accepted or refused, and applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import Outcome
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import (
    LEASE_NOT_OVER,
    OTHER_EXECUTION,
    REPORTS,
    Reporter,
    apply_report,
    is_same,
    refusal,
)
from admin.core.executions.silences import confirmed, no_longer_held
from admin.core.json_text import JsonObject
from admin.metrics import count_finished, count_started
from admin.store import execution_events, logs
from admin.store.executions import ExecutionId
from admin.store.leases import LeasedExecution
from admin.store.logs import OutputFile


class Held(NamedTuple):
    """An attempt of an execution that an agent has."""

    id: ExecutionId
    attempt: int
    uid: str = ""  #: of the execution; "" from an agent that sends none

    def as_json(self) -> JsonObject:
        """It as it is stored."""
        return {"id": list(self.id), "attempt": self.attempt, "uid": self.uid}

    @classmethod
    def from_json(cls, stored: JsonObject) -> Held:
        """What `as_json` made."""
        return cls(ExecutionId(*stored["id"]), stored["attempt"], stored["uid"])


#: Reports of attempts that never started.
_NOT_STARTED = ("DECLINED", "RELEASED")


@dataclass(kw_only=True, slots=True)
class Report:
    """An agent's report on one execution."""

    event: str  #: the agent's name of the report
    id: ExecutionId
    attempt: int
    type: str
    uid: str = ""  #: of the execution; "" from an agent that sends none
    reason: str | None = None
    message: str | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    started_at: datetime | None = None  #: of the native job, by the agent's clock
    finished_at: datetime | None = None
    outputs: list[OutputFile] = field(default_factory=list)


@dataclass(kw_only=True)
class Reported:
    """What became of an agent's reports."""

    accepted: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    started: list[LeasedExecution] = field(default_factory=list)
    finished: list[LeasedExecution] = field(default_factory=list)

    def count(self, now: datetime) -> None:
        """Count what has started and finished."""
        for execution in self.started:
            count_started(execution, now)
        for execution in self.finished:
            count_finished(execution, now)

    def apply(
        self,
        execution: LeasedExecution,
        report: Report,
        now: datetime,
        *,
        takes_work: bool,
        silent_since: datetime | None = None,
    ) -> bool:
        """Make the change that an accepted report means; False where it means none."""
        outcome = Outcome(
            phase=REPORTS[report.type] or Phase.FAILED,
            reason=report.reason or report.type,
            message=report.message or (f"Signal {report.signal} ended it." if report.signal else ""),
            exit_code=report.exit_code,
            native_id=report.native_id,
            nodes=report.nodes,
            duration=report.duration,
            signal=report.signal or None,
            started_at=report.started_at,
            ended_at=report.finished_at,
            silent_since=execution.silent_since or silent_since,
        )
        change = apply_report(execution, report.type, outcome, now, takes_work=takes_work)
        if change is None:
            return False
        execution.apply(change, now)
        if change.kind == "RUNNING":
            self.started.append(execution)
        if Phase(execution.phase).is_finished:
            self.finished.append(execution)
        return True

    def take(
        self,
        connection: Connection,
        reports: Iterable[Report],
        locked: Mapping[ExecutionId, LeasedExecution],
        by: Reporter,
        now: datetime,
        *,
        takes_work: bool,
        output_limit: int,
        silent_since: datetime | None = None,
    ) -> None:
        """Accept the reports of an agent or refuse them; the same one again changes nothing.

        `silent_since` is when an agent was last heard that was silent until now.
        """
        files: dict[int, list[OutputFile]] = {}
        refused: list[tuple[LeasedExecution, Report, str]] = []
        late: list[tuple[LeasedExecution, Report]] = []
        for report in reports:
            execution = locked.get(report.id)
            reason = refusal(execution, report.type, attempt=report.attempt, uid=report.uid, by=by, now=now)
            if execution is None or reason is not None:
                self.refused.append((report.event, reason or "UNKNOWN_EXECUTION"))
                if execution is not None and reason not in (None, OTHER_EXECUTION, LEASE_NOT_OVER):
                    refused.append((execution, report, reason or ""))
                continue
            self.accepted.append(report.event)
            is_change = self.apply(execution, report, now, takes_work=takes_work, silent_since=silent_since)
            if not is_change and execution.unconfirmed:
                late.append((execution, report))
            if is_change and report.outputs and REPORTS[report.type] is not Phase.RUNNING:
                files[execution.id] = [_truncate(output, output_limit) for output in report.outputs]
        logs.replace_outputs(connection, files)
        late += [(execution, report) for execution, report, _ in refused]
        kept = _confirm_ends(connection, late, by.cluster, now)
        refused = [entry for entry in refused if entry[1].event not in kept]
        _note_refusals(connection, refused, by.cluster, now)


def _note_refusals(
    connection: Connection, refused: Iterable[tuple[LeasedExecution, Report, str]], cluster: str, now: datetime
) -> None:
    """Add events of refused reports; on the executions of others a cluster adds one each at most."""
    others = {execution.id for execution, _, _ in refused if execution.cluster != cluster}
    noted = execution_events.with_event(connection, others, execution_events.REFUSED, cluster)
    for execution, report, reason in refused:
        if execution.id not in noted:
            message = f"Cluster '{cluster}' reported {report.type} for attempt {report.attempt}; it was refused."
            execution.note(execution_events.REFUSED, reason, message, cluster, now)
        if execution.id in others:
            noted.add(execution.id)


def _confirm_ends(
    connection: Connection, late: Iterable[tuple[LeasedExecution, Report]], cluster: str, now: datetime
) -> set[str]:
    """Keep the ends of attempts that were ended without their agent, which tells them now; returns those reports."""
    ends = [(execution, report) for execution, report in late if _is_end(report)]
    unconfirmed = execution_events.unconfirmed_attempts(connection, {execution.id for execution, _ in ends}, cluster)
    kept: set[str] = set()
    for execution, report in ends:
        attempt = (execution.id, report.attempt)
        if attempt in unconfirmed:
            unconfirmed.discard(attempt)
            _confirm(execution, report, cluster, now)
            kept.add(report.event)
    return kept


def note_dropped(
    connection: Connection,
    dropped: Iterable[Held],
    locked: Mapping[ExecutionId, LeasedExecution],
    cluster: str,
    now: datetime,
) -> None:
    """Note the attempts that an agent was told to end and has no longer, and whose ends stay unconfirmed.

    An agent of an earlier version reports nothing more of them, be it that the job has ended or that its engine does
    not know the job.
    """
    attempts = [
        (locked[held.id], held.attempt)
        for held in dropped
        if held.id in locked and is_same(held.uid, locked[held.id].uid)
    ]
    ids = {execution.id for execution, _ in attempts}
    unconfirmed = execution_events.unconfirmed_attempts(connection, ids, cluster)
    for execution, attempt in attempts:
        if (execution.id, attempt) not in unconfirmed:
            continue
        if attempt == execution.attempt:  # else the reason is that of a later attempt
            execution.set(reason_message=no_longer_held(execution.reason_message, cluster, now))
        message = (
            f"The agent of cluster '{cluster}' was told to end attempt {attempt} and does not have it any more, but "
            "has not reported that its job has ended: check there whether it still runs."
        )
        execution.note(execution_events.DROPPED, execution_events.DROPPED, message, cluster, now)


def _is_end(report: Report) -> bool:
    """Whether nothing of an attempt runs any more by a report; what the agent has no record of may still run."""
    phase = REPORTS[report.type]
    return report.type in _NOT_STARTED or (phase is not None and phase.is_finished)


def _confirm(execution: LeasedExecution, report: Report, cluster: str, now: datetime) -> None:
    """Note what an agent tells of an attempt that was ended without it; what was decided meanwhile stays."""
    record = AttemptRecord(
        number=report.attempt,
        outcome=report.type,
        reason=report.reason or report.type,
        native_id=report.native_id,
        exit_code=report.exit_code,
        signal=report.signal or None,
        started_at=report.started_at,
        ended_at=report.finished_at,
    )
    if report.attempt == execution.attempt:  # else the reason is that of a later attempt
        message = confirmed(execution.reason_message, cluster, now, _end_of(report))
        execution.set(reason_message=message, unconfirmed=False)
        duration = _duration(execution, report)
        if duration is not None:
            execution.set(duration=duration)
    fact = "it had not started there" if report.type in _NOT_STARTED else "the job has ended"
    message = f"Cluster '{cluster}' reported {report.type}, which confirms that {fact}."
    execution.note(execution_events.CONFIRMED, record.reason, message, cluster, now, record)


def _end_of(report: Report) -> str:
    """What a report confirms of an attempt that was ended without its agent."""
    if report.type in _NOT_STARTED:
        return "it had not started"
    return "its job has ended" + (", and had succeeded" if REPORTS[report.type] is Phase.SUCCEEDED else "")


def _duration(execution: LeasedExecution, report: Report) -> float | None:
    """How long an attempt ran by the report of its end; None where that does not tell."""
    start = report.started_at or execution.started_at
    if report.duration is not None or report.finished_at is None or start is None:
        return report.duration
    return max(0.0, (report.finished_at - start).total_seconds())


def _truncate(output: OutputFile, limit: int) -> OutputFile:
    if len(output.content) <= limit:
        return output
    return output._replace(content=output.content[:limit], truncated=True)
