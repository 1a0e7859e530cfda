"""Syncs: the one call of an agent. Heartbeat, reports and logs go in; leases, cancels and questions come out."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from admin.core.fields import read
from admin.core.fleet import REPORT, ClusterState, Health
from admin.core.lifecycle import Phase
from admin.core.quantities import parse_duration
from admin.core.reports import REPORTS, Held, refusal
from admin.core.retries import CLUSTER_LOST
from admin.errors import AgentReplaced
from admin.services.attempts import Ended, Outcome, begin, finish, give_back, note
from admin.services.context import Context
from admin.services.definitions import is_enabled
from admin.store import executions, fleet, logs
from admin.store.executions import Execution, ExecutionId
from admin.store.fleet import ClusterEvent

#: Waiting agents look again after this long, whatever the news say.
_LONGEST_NAP_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an agent says of one execution."""

    event: str  #: what the agent calls its report
    id: ExecutionId
    attempt: int
    type: str
    reason: str | None = None
    message: str | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    duration: float | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of what an execution printed."""

    id: ExecutionId
    attempt: int
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Sync:
    """What an agent says."""

    cluster: str
    agent: str
    sequence: int
    want: int = 0
    report: Any = None
    holding: tuple[tuple[ExecutionId, int], ...] = ()
    events: tuple[Report, ...] = ()
    logs: tuple[LogPiece, ...] = ()
    wait_seconds: float = 0
    last_heard_at: datetime | None = None  #: when this very sync was heard before, if it waits


class _Overtaken(Exception):
    """While a sync waited, its agent said something newer."""


@dataclass(kw_only=True)
class Answer:
    """What the admin says."""

    leases: list[Execution] = field(default_factory=list)
    confirmed: list[Execution] = field(default_factory=list)
    lost: list[tuple[ExecutionId, int, str]] = field(default_factory=list)
    cancels: list[Execution] = field(default_factory=list)
    questions: list[Execution] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    log_offsets: list[tuple[LogPiece, int, bool]] = field(default_factory=list)
    state: ClusterState
    enabled: bool = True
    finished: list[tuple[Execution, Ended]] = field(default_factory=list)  #: what ended, for metrics
    started: list[Execution] = field(default_factory=list)

    @property
    def has_news(self) -> bool:
        """Whether there is something that the agent must act on."""
        is_new = any(not row.confirmed for row in self.confirmed)
        return bool(is_new or self.leases or self.lost or self.cancels or self.questions)

    @property
    def takes_work(self) -> bool:
        """Whether the cluster may have new work."""
        state = self.state
        return self.enabled and state.admitted and not state.cordoned and not state.draining


def sync(context: Context, said: Sync) -> Answer:
    """Take in what an agent says, and answer; wait while there is nothing to say."""
    wait = min(said.wait_seconds, context.settings.agents.wait_seconds)
    if wait <= 0 or said.events or said.logs:
        return _exchange(context, said)
    news = context.news.expect(said.cluster)  # before the first look, so that nothing comes between
    try:
        return _wait(context, said, news, time.monotonic() + wait)
    finally:
        context.news.forget(said.cluster, news)


def _wait(context: Context, said: Sync, news: threading.Event, deadline: float) -> Answer:
    answer = first = _exchange(context, said)
    # A process takes over once: by its first words, not by waiting for the answer to them.
    said = replace(said, sequence=max(said.sequence, 2), report=None)
    while not answer.has_news and not _changed(first, answer) and not context.news.is_closing:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        news.wait(min(remaining, _nap(context, said)))
        news.clear()
        try:
            answer = _exchange(context, replace(said, last_heard_at=answer.state.last_sync_at))
        except _Overtaken:  # it may hold more by now, and want less
            return Answer(state=answer.state, enabled=answer.enabled)
    return answer


def _changed(first: Answer, now: Answer) -> bool:
    """Whether the cluster was switched while its agent waited."""
    names = ("cordoned", "draining", "enabled")
    return any(getattr(first.state, name) != getattr(now.state, name) for name in names)


def _nap(context: Context, said: Sync) -> float:
    """How long to wait at most before looking again: until the next attempt that backs off, or a few seconds."""
    now = context.clock()
    with context.database.reading() as connection:
        until = executions.next_not_before(connection, said.cluster, now)
    seconds = _LONGEST_NAP_SECONDS if until is None else (until - now).total_seconds()
    return max(0.02, min(seconds, _LONGEST_NAP_SECONDS))


def _exchange(context: Context, said: Sync) -> Answer:
    """One look: everything that is said counts or is refused in one transaction."""
    with context.database.writing() as connection:
        now = context.clock()
        state = _heard(context, connection, said, now)
        answer = Answer(state=state, enabled=is_enabled(context, connection, state))
        for piece in said.logs:  # before the events: one of them may end the attempt that printed it
            _keep(context, connection, said.cluster, piece, answer)
        if said.events:
            executions.hold_reported(connection, said.cluster, {report.id for report in said.events})
        for report in said.events:
            _take(context, connection, said.cluster, report, answer, now)
        until = now + timedelta(seconds=context.settings.agents.lease_seconds)
        _hold(connection, said, answer, now, until)
        room = said.want - len(answer.leases)
        if answer.takes_work and room > 0:
            new = executions.offered(connection, said.cluster, now, room)
            executions.lease(connection, [row.id for row in new], until)
            answer.leases += new
    return answer


def _heard(context: Context, connection: Connection, said: Sync, now: datetime) -> ClusterState:
    """Note that the agent was heard; the fleet changes only if it was not thought to be there."""
    report = None
    if said.report is not None:
        report = {key: value for key, value in read(REPORT, said.report).items() if value is not None}
    seen = fleet.state(connection, said.cluster, lock=False)
    is_change = seen.health != Health.READY.value or report not in (None, seen.report)
    if is_change:
        fleet.lock(connection)  # before the cluster's own row, as everyone does who changes the fleet
    before = fleet.state(connection, said.cluster)
    if before.agent not in (None, said.agent) and said.sequence > 1:
        raise AgentReplaced(
            f"Another agent of cluster '{said.cluster}' has taken over. End this one; one agent a cluster is enough."
        )
    if said.last_heard_at not in (None, before.last_sync_at):
        raise _Overtaken
    after = replace(before, agent=said.agent, last_sync_at=now, health=Health.READY.value)
    kind = "READY" if before.health != Health.READY.value else None
    if report not in (None, before.report):
        after = replace(after, report=report or {}, reported_at=now)
        kind = kind or "REPORTED"
    if kind is None or not is_change:  # what has changed since the first look is put right by the next sync
        fleet.touch(connection, after)
    else:
        fleet.save(connection, after, ClusterEvent(cluster=said.cluster, at=now, type=kind))
    return after


def _take(
    context: Context, connection: Connection, cluster: str, report: Report, answer: Answer, now: datetime
) -> None:
    """Let a report count, or refuse it; the same one again changes nothing."""
    row = executions.get(connection, report.id, lock=True)
    held = None if row is None else _held(row)
    why = refusal(held, cluster, report.attempt, report.type)
    if why is not None or row is None:
        answer.refused.append((report.event, why or "UNKNOWN_EXECUTION"))
        if row is not None:
            message = f"Cluster '{cluster}' reported {report.type} for attempt {report.attempt}; it does not count."
            note(connection, row, "REFUSED", why or "", message, now)
        return
    answer.accepted.append(report.event)
    phase = REPORTS[report.type]
    if phase is not None and phase.value == row.phase:
        return
    _apply(context, connection, row, report, answer, now)


def _held(row: Execution) -> Held:
    return Held(
        cluster=row.cluster,
        attempt=row.attempt,
        phase=Phase(row.phase),
        is_leased=row.lease_expires_at is not None,
    )


def _apply(
    context: Context, connection: Connection, row: Execution, report: Report, answer: Answer, now: datetime
) -> None:
    phase = REPORTS[report.type]
    outcome = Outcome(
        phase=phase or Phase.FAILED,
        reason=report.reason or report.type,
        message=report.message or "",
        exit_code=report.exit_code,
        native_id=report.native_id,
        nodes=report.nodes,
        duration=report.duration,
    )
    is_unwanted = row.phase == Phase.ABORTING.value
    if phase is Phase.RUNNING:
        if not is_unwanted:
            begin(connection, row, outcome, now)
            answer.started.append(row)
    elif phase is not None:
        if report.outputs:
            limit = context.settings.agents.output_limit_bytes
            files = [_output(one, limit) for one in report.outputs]
            logs.replace_outputs(connection, row.id, row.attempt, files)
        _finish(connection, row, outcome, answer, now)
    elif is_unwanted or report.type == "UNKNOWN":
        lost = replace(outcome, reason=CLUSTER_LOST, message=report.message or "Its cluster knows nothing of it.")
        if not is_unwanted and row.phase == Phase.QUEUED.value and not row.confirmed:
            give_back(connection, row, now, "Its agent knows nothing of it.", stays=answer.takes_work)
        else:
            _finish(connection, row, lost, answer, now)
    else:
        is_declined = report.type == "DECLINED"
        message = report.message or f"Its agent {report.type.lower()} it."
        give_back(connection, row, now, message, declined=is_declined, stays=answer.takes_work)


def _finish(connection: Connection, row: Execution, outcome: Outcome, answer: Answer, now: datetime) -> None:
    ended = finish(connection, row, outcome, now, stays=answer.takes_work)
    if ended is not None:
        answer.finished.append((row, ended))


def _output(one: Mapping[str, Any], limit: int) -> dict[str, Any]:
    content = one["content"][:limit]
    truncated = one["truncated"] or len(one["content"]) > limit
    return {"path": one["path"], "size": one["size"], "truncated": truncated, "content": content}


def _keep(context: Context, connection: Connection, cluster: str, piece: LogPiece, answer: Answer) -> None:
    """Keep a piece of a log, if it goes on where the last one ended and there is room."""
    row = executions.get(connection, piece.id)
    limit = context.settings.agents.log_limit_bytes
    if row is None or row.cluster != cluster or row.attempt != piece.attempt:
        answer.log_offsets.append((piece, piece.offset + len(piece.data), True))  # nobody wants it any more
        return
    end = logs.length(connection, row.id, piece.attempt, piece.stream)
    skip = end - piece.offset
    if 0 <= skip < len(piece.data) and end < limit:
        data = piece.data[skip : skip + limit - end]
        logs.append(connection, row.id, piece.attempt, piece.stream, end, data)
        end += len(data)
    answer.log_offsets.append((piece, end, end >= limit))


def _hold(connection: Connection, said: Sync, answer: Answer, now: datetime, until: datetime) -> None:
    """Renew what the agent has and may have; tell it what it has and may not, and what it should have and does not."""
    held = dict(said.holding)
    theirs = {executions.identity(row): row for row in executions.leased(connection, said.cluster)}
    renewed = []
    for key, attempt in held.items():
        row = theirs.pop(key, None)
        if row is None or row.attempt != attempt:
            answer.lost.append((key, attempt, "NOT_YOURS" if row is None else "OLD_ATTEMPT"))
            if row is not None:
                theirs[key] = row
        elif row.phase == Phase.ABORTING.value:
            answer.cancels.append(row)
            renewed.append(row.id)
        else:
            answer.confirmed.append(row)
            renewed.append(row.id)
    executions.confirm(connection, renewed, until)
    for row in theirs.values():
        if row.phase != Phase.QUEUED.value or row.confirmed:
            answer.questions.append(row)
        elif not answer.takes_work:
            give_back(connection, row, now, "Its cluster takes no new work.", stays=False)
        elif len(answer.leases) < said.want:
            answer.leases.append(row)  # the answer that offered it never arrived
        else:
            executions.lease(connection, [row.id], None)
    executions.lease(connection, [row.id for row in answer.leases], until)


def time_limit_of(row: Execution) -> float | None:
    """The longest that an execution may run, in seconds."""
    duration = row.content["job"].get("resources", {}).get("duration")
    return float(parse_duration(duration)) if duration else None
