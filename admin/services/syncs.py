"""Syncs: the one call of an agent. Heartbeat, reports and logs go in; leases, cancels and questions come out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.attempts import NEED_DETAILS, REPORTS, Ended, Outcome, apply_report, refusal, requeue
from admin.core.executions.lifecycle import Phase
from admin.core.fields import read
from admin.core.fleet.clusters import REPORT, ClusterState, Health, differs_only_in_load
from admin.core.placement.scores import looks_at_load_of
from admin.core.quantities import parse_duration
from admin.errors import AgentReplaced
from admin.metrics import count_finished, count_started
from admin.services.context import Context
from admin.services.definitions import are_enabled, current_fleet
from admin.store import fleet, leases, logs
from admin.store.cache.cluster_wakeups import Waiter
from admin.store.executions import ExecutionId
from admin.store.fleet import ClusterEvent
from admin.store.leases import CurrentAttempt, LeasedExecution
from admin.store.logs import OutputFile

#: A lease is renewed only after this part of its duration: agents end their work much before it expires.
_RENEW_AFTER = 1 / 60
#: The shortest wait for an attempt that backs off.
_MIN_WAIT_SECONDS = 0.02


@dataclass(kw_only=True, slots=True)
class Report:
    """An agent's report on one execution."""

    event: str  #: the agent's name of the report
    id: ExecutionId
    attempt: int
    type: str
    reason: str | None = None
    message: str | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    outputs: list[OutputFile] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of an execution's log."""

    id: ExecutionId
    attempt: int
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Sync:
    """An agent's request."""

    cluster: str
    agent: str
    sequence: int
    want: int = 0
    report: Any = None  #: of the cluster: JSON that is checked here
    holding: tuple[tuple[ExecutionId, int], ...] = ()
    events: tuple[Report, ...] = ()
    logs: tuple[LogPiece, ...] = ()
    wait_seconds: float = 0
    last_sync_at: datetime | None = None  #: the time of this very sync, when it is answered again while it waits


class _Overtaken(Exception):
    """A newer sync of the same agent came while this one waited."""


class _Lock(Enum):
    """What few syncs need locked, and has to be locked before everything else."""

    FLEET = auto()  # it changes the fleet
    OTHER_EXECUTIONS = auto()  # it reports on executions that its agent has no lease of


class _NeedsLock(Exception):
    """A sync was begun without a lock that it needs."""

    def __init__(self, lock: _Lock) -> None:
        self.lock = lock


@dataclass(kw_only=True)
class Answer:
    """The answer to a sync."""

    leases: list[LeasedExecution] = field(default_factory=list)
    confirmed: list[LeasedExecution] = field(default_factory=list)
    lost: list[tuple[ExecutionId, int, str]] = field(default_factory=list)
    cancels: list[LeasedExecution] = field(default_factory=list)
    questions: list[LeasedExecution] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    log_offsets: list[tuple[LogPiece, int, bool]] = field(default_factory=list)
    state: ClusterState
    enabled: bool = True
    finished: list[tuple[LeasedExecution, Ended]] = field(default_factory=list)
    started: list[LeasedExecution] = field(default_factory=list)
    is_permission: bool = False  #: whether the agent may start something that it might not before
    next_at: datetime | None = None  #: when the next attempt that backs off may start
    is_crowded: bool = False  #: whether there was no thread to wait in, so that the agent should pause

    @property
    def has_news(self) -> bool:
        """Whether there is something that the agent must act on."""
        return bool(self.is_permission or self.leases or self.lost or self.cancels or self.questions)

    @property
    def takes_work(self) -> bool:
        """Whether the cluster may have new work."""
        state = self.state
        return self.enabled and state.admitted and not state.cordoned and not state.draining


def sync(context: Context, request: Sync) -> Answer:
    """Store what an agent reports, and answer; waits while there is nothing to answer."""
    if request.report is not None:
        report = {key: value for key, value in read(REPORT, request.report).items() if value is not None}
        request = replace(request, report=report)
    wait = min(request.wait_seconds, _longest_wait(context, request))
    if wait <= 0 or request.events or request.logs:
        return _exchange(context, replace(request, wait_seconds=0))
    # Before the first exchange, so that no wakeup is missed.
    with context.cluster_wakeups.subscribe(request.cluster) as waiter:
        return _wait(context, request, waiter, context.monotonic() + wait)


def _longest_wait(context: Context, request: Sync) -> float:
    """A waiting sync neither shows its agent alive nor renews its leases, so the next one must come in time."""
    agents = context.settings.agents
    longest = min(agents.wait_seconds, agents.unreachable_seconds / 2)
    return min(longest, agents.lease_seconds / 2) if request.holding else longest


def _wait(context: Context, request: Sync, waiter: Waiter, deadline: float) -> Answer:
    """Exchange, and again after each wakeup of the cluster; no query is made meanwhile."""
    answer = first = _exchange(context, request)
    # A process takes over by its first sync, not by waiting for the answer to it.
    request = replace(request, sequence=max(request.sequence, 2), report=None)
    while not answer.has_news and not _is_switched(first, answer) and not context.cluster_wakeups.is_closing:
        if waiter.is_crowded:
            return replace(answer, is_crowded=True)
        last_sync_at = answer.state.last_sync_at
        is_woken = waiter.wait(_remaining(context, answer, deadline), last_sync_at)
        if not is_woken and context.monotonic() >= deadline:
            break
        try:
            answer = _exchange(context, replace(request, last_sync_at=last_sync_at))
        except _Overtaken:  # the agent may hold more by now, and want less
            return Answer(state=answer.state, enabled=answer.enabled)
    return answer


def _is_switched(first: Answer, answer: Answer) -> bool:
    """Whether the cluster was enabled, cordoned or drained, or the reverse, while its agent waited."""
    if first.enabled != answer.enabled:
        return True
    return (first.state.cordoned, first.state.draining) != (answer.state.cordoned, answer.state.draining)


def _remaining(context: Context, answer: Answer, deadline: float) -> float:
    """How long to wait at most: until the deadline, or the next attempt that backs off."""
    remaining = max(0.0, deadline - context.monotonic())
    if answer.next_at is None:
        return remaining
    return min(remaining, max(_MIN_WAIT_SECONDS, (answer.next_at - context.clock()).total_seconds()))


def _exchange(context: Context, request: Sync) -> Answer:
    """Handle a sync in one transaction, together with those of other agents.

    It begins without the locks that few syncs need; where one is missing, it is begun again with it.
    """
    locks: frozenset[_Lock] = frozenset()
    while True:
        result = context.database.write(exchange_all, Exchange(context=context, request=request, locks=locks))
        if isinstance(result, Answer):
            _count(result, context.clock())
            return result
        if not isinstance(result, _NeedsLock):
            raise result
        locks |= {result.lock}


def _count(answer: Answer, now: datetime) -> None:
    for execution in answer.started:
        count_started(execution, now)
    for execution, ended in answer.finished:
        count_finished(ended.phase.value, ended.reason, execution, now)


@dataclass(kw_only=True, eq=False)
class Exchange:
    """One of the syncs that are handled together."""

    context: Context
    request: Sync
    locks: frozenset[_Lock] = frozenset()
    failure: Exception | None = None  #: why it was not handled; nothing is written for it then
    before: ClusterState = field(init=False)
    changes_fleet: bool = False
    leased: dict[ExecutionId, LeasedExecution] = field(default_factory=dict)  #: and what else it reports on
    unanswered: list[LeasedExecution] = field(default_factory=list)
    answer: Answer = field(init=False)


def exchange_all(connection: Connection, submitted: list[Exchange]) -> list[Answer | Exception]:
    """Handle the syncs of several agents, in about as many statements as one of them takes."""
    if any(_Lock.FLEET in exchange.locks for exchange in submitted):
        fleet.lock(connection)  # before the row of any cluster, the order of every change of the fleet
    rest = exchanges = [replace(exchange) for exchange in submitted]  # copies: a failed batch is tried again
    while rest:  # one sync of each cluster at a time
        first = {exchange.request.cluster: exchange for exchange in reversed(rest)}
        _exchange_batch(connection, [first[cluster] for cluster in sorted(first)])
        rest = [exchange for exchange in rest if first[exchange.request.cluster] is not exchange]
    return [exchange.answer if exchange.failure is None else exchange.failure for exchange in exchanges]


def _exchange_batch(connection: Connection, exchanges: list[Exchange]) -> None:
    context = exchanges[0].context
    now = context.clock()
    states = fleet.hold_states(connection, [exchange.request.cluster for exchange in exchanges])
    exchanges = [
        exchange for exchange in exchanges if _begin(exchange, connection, states[exchange.request.cluster], now)
    ]
    exchanges = _lock_executions(connection, exchanges)
    _store_states(connection, exchanges, now)
    for exchange in exchanges:
        exchange.unanswered = _unanswered(exchange, now)
    leases.add_details(
        connection,
        [
            execution
            for exchange in exchanges
            for execution in (*exchange.unanswered, *_reported_with_details(exchange))
        ],
    )
    for exchange in exchanges:
        _handle(exchange, connection, now)
    # Offers whose answer never reached the agent.
    leases.add_details(connection, [execution for exchange in exchanges for execution in exchange.answer.leases])
    _offer(connection, exchanges, now)
    leases.save(
        connection,
        [execution for exchange in exchanges for execution in (*exchange.leased.values(), *exchange.answer.leases)],
    )
    idle = [exchange for exchange in exchanges if exchange.request.wait_seconds > 0 and not exchange.answer.has_news]
    times = leases.next_not_before(connection, [exchange.request.cluster for exchange in idle], now)
    for exchange in idle:
        exchange.answer.next_at = times.get(exchange.request.cluster)


def _offer(connection: Connection, exchanges: list[Exchange], now: datetime) -> None:
    """Offer new work to the clusters that take some and want more."""
    for exchange in exchanges:
        answer = exchange.answer
        expires_at = now + timedelta(seconds=exchange.context.settings.agents.lease_seconds)
        room = exchange.request.want - len(answer.leases)
        if answer.takes_work and room > 0:
            answer.leases += leases.offered(connection, exchange.request.cluster, now, room)
        for lease in answer.leases:
            lease.set(lease_expires_at=expires_at)


def _begin(exchange: Exchange, connection: Connection, before: ClusterState, now: datetime) -> bool:
    """Whether a sync can be handled; if not, its failure says why."""
    try:
        state = _state_after(before, exchange.request, now)
        exchange.changes_fleet = _changes_fleet(exchange.context, connection, before, state)
        if exchange.changes_fleet and _Lock.FLEET not in exchange.locks:
            raise _NeedsLock(_Lock.FLEET)
    except (AgentReplaced, _Overtaken, _NeedsLock) as failure:
        exchange.failure = failure
        return False
    exchange.before, exchange.answer = before, Answer(state=state)
    return True


def _store_states(connection: Connection, exchanges: list[Exchange], now: datetime) -> None:
    """Store when the agents synced, and what they report of their clusters."""
    unchanged = []
    for exchange in exchanges:
        before, after = exchange.before, exchange.answer.state
        if (before.health, before.report) == (after.health, after.report):
            unchanged.append(after)
            continue
        kind = "READY" if before.health != after.health else "REPORTED"
        event = ClusterEvent(cluster=after.name, at=now, type=kind)
        fleet.save(connection, after, event, counts=exchange.changes_fleet)
    fleet.touch(connection, unchanged)
    if exchanges:
        states = [exchange.answer.state for exchange in exchanges]
        enabled = are_enabled(exchanges[0].context, connection, states)
        for exchange in exchanges:
            exchange.answer.enabled = enabled[exchange.request.cluster]


def _handle(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Apply what an agent reports of executions, and renew its leases."""
    if exchange.request.logs:
        _store_logs(exchange, connection)  # before the events: one of them may end the attempt that printed it
    if exchange.request.events:
        _take_reports(exchange, connection, now)
    for execution in exchange.unanswered:
        report = Report(event="", id=execution.key, attempt=execution.attempt, type="UNKNOWN")
        _apply(execution, report, exchange.answer, now)
    _renew(exchange, now)


def _state_after(before: ClusterState, request: Sync, now: datetime) -> ClusterState:
    """The state of a cluster after a sync of its agent."""
    if before.agent not in (None, request.agent) and request.sequence > 1:
        raise AgentReplaced(
            f"Another agent of cluster '{request.cluster}' has taken over. Stop this one; a cluster has one agent."
        )
    if request.last_sync_at not in (None, before.last_sync_at):
        raise _Overtaken
    after = replace(before, agent=request.agent, last_sync_at=now, health=Health.READY.value)
    if request.report not in (None, before.report):
        after = replace(after, report=request.report, reported_at=now)
    return after


def _changes_fleet(context: Context, connection: Connection, before: ClusterState, after: ClusterState) -> bool:
    """Whether decisions may depend on the difference; load counts only where a pool's strategy looks at it."""
    if (before.health, before.report) == (after.health, after.report):
        return False
    if before.health != after.health or not differs_only_in_load(before.report, after.report):
        return True
    return looks_at_load_of(current_fleet(context, connection), after.name)


def _lock_executions(connection: Connection, exchanges: list[Exchange]) -> list[Exchange]:
    """Lock what the agents have leases of, and what else they report on; returns the syncs that can go on."""
    clusters = [exchange.request.cluster for exchange in exchanges]
    reported = {
        report.id
        for exchange in exchanges
        if _Lock.OTHER_EXECUTIONS in exchange.locks
        for report in exchange.request.events
    }
    locked = leases.reported(connection, clusters, reported) if reported else leases.leased(connection, clusters)
    by_cluster: dict[str | None, dict[ExecutionId, LeasedExecution]] = {}
    for execution in locked:
        by_cluster.setdefault(execution.cluster, {})[execution.key] = execution
    by_key = {execution.key: execution for execution in locked} if reported else {}
    for exchange in exchanges:
        events = exchange.request.events
        exchange.leased = by_cluster.get(exchange.request.cluster, {})
        if _Lock.OTHER_EXECUTIONS in exchange.locks:
            exchange.leased |= {report.id: by_key[report.id] for report in events if report.id in by_key}
        elif any(report.id not in exchange.leased for report in events):
            exchange.failure = _NeedsLock(_Lock.OTHER_EXECUTIONS)
    return [exchange for exchange in exchanges if exchange.failure is None]


def _reported_with_details(exchange: Exchange) -> Iterable[LeasedExecution]:
    """The executions whose reports another attempt may follow."""
    return [
        exchange.leased[report.id]
        for report in exchange.request.events
        if report.type in NEED_DETAILS and report.id in exchange.leased
    ]


def _unanswered(exchange: Exchange, now: datetime) -> list[LeasedExecution]:
    """What the agent was asked about for so long that it must have lost it."""
    request = exchange.request
    limit = now - timedelta(seconds=exchange.context.settings.agents.lost_seconds)
    named = {*(key for key, _ in request.holding), *(report.id for report in request.events)}
    return [
        execution
        for key, execution in exchange.leased.items()
        if execution.lease_expires_at is not None
        and execution.lease_expires_at <= limit
        and execution.cluster == request.cluster
        and key not in named
        and execution.may_have_started
    ]


def _take_reports(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Accept reports or refuse them; the same one again changes nothing."""
    request, answer = exchange.request, exchange.answer
    files: dict[int, tuple[int, list[OutputFile]]] = {}
    limit = exchange.context.settings.agents.output_limit_bytes
    for report in request.events:
        execution = exchange.leased.get(report.id)
        reason = refusal(execution, request.cluster, report.attempt, report.type)
        if execution is None or reason is not None:
            answer.refused.append((report.event, reason or "UNKNOWN_EXECUTION"))
            if execution is not None:
                message = (
                    f"Cluster '{request.cluster}' reported {report.type} for attempt {report.attempt}; it was refused."
                )
                execution.note("REFUSED", reason or "", message, now)
            continue
        answer.accepted.append(report.event)
        is_change = _apply(execution, report, answer, now)
        if is_change and report.outputs and REPORTS[report.type] is not Phase.RUNNING:
            files[execution.id] = report.attempt, [_truncate(output, limit) for output in report.outputs]
    logs.replace_outputs(connection, files)


def _apply(execution: LeasedExecution, report: Report, answer: Answer, now: datetime) -> bool:
    """Make the change that an accepted report means; False where it means none."""
    outcome = Outcome(
        phase=REPORTS[report.type] or Phase.FAILED,
        reason=report.reason or report.type,
        message=report.message or (f"Signal {report.signal} ended it." if report.signal else ""),
        exit_code=report.exit_code,
        native_id=report.native_id,
        nodes=report.nodes,
        duration=report.duration,
    )
    change = apply_report(execution, report.type, outcome, now, takes_work=answer.takes_work)
    if change is None:
        return False
    execution.apply(change, now)
    if change.kind == "RUNNING":
        answer.started.append(execution)
    if change.ended is not None:
        answer.finished.append((execution, change.ended))
    return True


def _truncate(output: OutputFile, limit: int) -> OutputFile:
    if len(output.content) <= limit:
        return output
    return output._replace(content=output.content[:limit], truncated=True)


def _store_logs(exchange: Exchange, connection: Connection) -> None:
    """Store pieces of logs, each if it continues its stream and there is room."""
    request, answer = exchange.request, exchange.answer
    limit = exchange.context.settings.agents.log_limit_bytes
    others = leases.current_attempts(connection, {piece.id for piece in request.logs} - exchange.leased.keys())
    current: dict[ExecutionId, CurrentAttempt | LeasedExecution] = {**others, **exchange.leased}
    ends = logs.lengths(connection, {attempt.id for attempt in current.values()})
    pieces = []
    for piece in request.logs:
        attempt = current.get(piece.id)
        if attempt is None or attempt.cluster != request.cluster or attempt.attempt != piece.attempt:
            answer.log_offsets.append((piece, piece.offset + len(piece.data), True))  # the agent may drop it
            continue
        stream = (attempt.id, piece.attempt, piece.stream)
        end = ends.get(stream, 0)
        known = end - piece.offset
        if 0 <= known < len(piece.data) and end < limit:
            data = piece.data[known : known + limit - end]
            pieces.append((stream, end, data))
            end = ends[stream] = end + len(data)
        answer.log_offsets.append((piece, end, end >= limit))
    logs.append(connection, pieces)


def _renew(exchange: Exchange, now: datetime) -> None:
    """Renew the leases that an agent holds; tell it those it lost, and ask for those that it does not mention."""
    request, answer = exchange.request, exchange.answer
    expected = {
        key: execution
        for key, execution in exchange.leased.items()
        if execution.lease_expires_at is not None and execution.cluster == request.cluster
    }
    seconds = exchange.context.settings.agents.lease_seconds
    expires_at = now + timedelta(seconds=seconds)
    just_renewed = expires_at - timedelta(seconds=seconds * _RENEW_AFTER)
    for key, attempt in dict(request.holding).items():
        lease = expected.get(key)
        if lease is None or lease.attempt != attempt:
            answer.lost.append((key, attempt, "NOT_YOURS" if lease is None else "OLD_ATTEMPT"))
            continue
        del expected[key]
        if lease.phase == Phase.ABORTING.value:
            answer.cancels.append(lease)
        else:
            answer.confirmed.append(lease)
            answer.is_permission |= not lease.confirmed
        if not lease.confirmed:
            lease.set(confirmed=True)
        if lease.lease_expires_at is not None and lease.lease_expires_at < just_renewed:
            lease.set(lease_expires_at=expires_at)
    for lease in expected.values():
        if lease.may_have_started:
            answer.questions.append(lease)
        elif not answer.takes_work:
            lease.apply(requeue(lease, "Its cluster takes no new work.", stays=False), now)
        elif len(answer.leases) < request.want:
            answer.leases.append(lease)  # the answer that offered it never arrived
        else:
            lease.set(lease_expires_at=None)


def time_limit_of(lease: LeasedExecution) -> float | None:
    """The longest that an execution may run, in seconds."""
    duration = lease.content["job"].get("resources", {}).get("duration")
    return float(parse_duration(duration)) if duration else None
