"""Exchanges: what agents report and are answered, for several syncs in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.attempts import (
    NEED_DETAILS,
    Reporter,
    hear,
    is_same,
    may_disown,
    may_have_started,
    requeue,
)
from admin.core.executions.lifecycle import Phase
from admin.core.fleet.clusters import ClusterState, Health, differs_only_in_load
from admin.core.placement.scores import looks_at_load_of
from admin.core.problems import Invalid, invalid
from admin.errors import AgentPresent, AgentReplaced
from admin.services.context import Context
from admin.services.definitions import are_enabled, current_fleet
from admin.services.logs import LogPiece, store_pieces
from admin.services.reconciliations import (
    Restoration,
    adopt_all,
    find_restoration,
    note_end,
    note_synced,
    unknown_of,
)
from admin.services.reports import Held, Report, Reported
from admin.services.successions import Newcomer, check_successor, note_succession
from admin.store import fleet, leases
from admin.store.executions import ExecutionId
from admin.store.fleet import ClusterEvent
from admin.store.leases import LeasedExecution

#: A lease is renewed only after this part of its duration: agents end their work much before it expires.
_RENEW_AFTER = 1 / 60
#: How many syncs a restored database may lack: as many as three a second in ten years.
_MOST_LOST_SYNCS = 10**9


@dataclass(frozen=True, kw_only=True)
class Sync:
    """An agent's request."""

    cluster: str
    agent: str
    sequence: int
    instance: str = ""  #: the id of the agent's state directory; "" from an agent that sends none
    host: str = ""
    take_over: bool = False  #: from another agent that may still be there; counts in the first sync
    seen: int = 0  #: the greatest position that an answer has told the agent
    want: int = 0
    report: Any = None  #: of the cluster: JSON that `sync` checks
    holding: tuple[Held, ...] = ()
    events: tuple[Report, ...] = ()
    logs: tuple[LogPiece, ...] = ()
    wait_seconds: float = 0
    last_sync_at: datetime | None = None  #: the time of this very sync, when it is answered again while it waits

    @property
    def reporter(self) -> Reporter:
        return Reporter(cluster=self.cluster, instance=self.instance)


class SyncSuperseded(Exception):
    """A newer sync of the same agent arrived while this one waited."""


class Lock(Enum):
    """What few syncs need locked, and has to be locked before everything else."""

    FLEET = auto()  # it changes the fleet
    OTHER_EXECUTIONS = auto()  # it reports on executions that its agent has no lease of


class NeedsLock(Exception):
    """A sync was begun without a lock that it needs."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock


@dataclass(kw_only=True)
class Answer(Reported):
    """The answer to a sync."""

    leases: list[LeasedExecution] = field(default_factory=list)
    confirmed: list[LeasedExecution] = field(default_factory=list)
    kept: list[Held] = field(default_factory=list)  #: what a restored database does not know, and goes on
    lost: list[tuple[Held, str]] = field(default_factory=list)
    cancels: list[LeasedExecution] = field(default_factory=list)
    questions: list[LeasedExecution] = field(default_factory=list)
    log_offsets: list[tuple[LogPiece, int, bool]] = field(default_factory=list)
    state: ClusterState
    enabled: bool = True
    is_permission: bool = False  #: whether the agent may start something that it might not before
    next_at: datetime | None = None  #: when the next attempt that backs off may start
    pause_seconds: float = 0  #: how long the agent should pause, where there was no thread to wait in

    @property
    def has_news(self) -> bool:
        """Whether there is something that the agent must act on."""
        return bool(self.is_permission or self.leases or self.lost or self.cancels or self.questions)

    @property
    def takes_work(self) -> bool:
        """Whether the cluster may have new work."""
        return self.enabled and self.state.takes_work


@dataclass(kw_only=True, eq=False)
class Exchange:
    """One of the syncs that are handled together."""

    context: Context
    request: Sync
    locks: frozenset[Lock] = frozenset()
    failure: Exception | None = None  #: why it was not handled; nothing is written for it then
    before: ClusterState = field(init=False)
    changes_fleet: bool = False
    leased: dict[ExecutionId, LeasedExecution] = field(default_factory=dict)  #: and what else it reports on
    unanswered: list[LeasedExecution] = field(default_factory=list)
    restoration: Restoration = field(init=False)
    answer: Answer = field(init=False)


def exchange_all(connection: Connection, submitted: list[Exchange]) -> list[Answer | Exception]:
    """Handle the syncs of several agents, in about as many statements as one of them takes."""
    if any(Lock.FLEET in exchange.locks for exchange in submitted):
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
    ahead = [exchange.request.cluster for exchange in exchanges if exchange.request.seen > exchange.before.syncs]
    restoration = find_restoration(connection, [exchange.request.cluster for exchange in exchanges], ahead, now)
    for exchange in exchanges:
        exchange.restoration = restoration
    exchanges = _lock_executions(connection, exchanges)
    _store_states(connection, exchanges, now)
    need_details = []
    for exchange in exchanges:
        _reconcile(exchange, connection, now)
        exchange.unanswered = [] if restoration.waits else _unanswered(exchange, now)
        need_details += [*exchange.unanswered, *_reported_with_details(exchange)]
    note_end(connection, restoration, now)
    leases.add_details(connection, need_details)
    for exchange in exchanges:
        _handle(exchange, connection, now)
    # Offers whose answer never reached the agent, and what it is asked about.
    answers = [exchange.answer for exchange in exchanges]
    leases.add_details(connection, [lease for answer in answers for lease in [*answer.leases, *answer.questions]])
    changed: list[LeasedExecution] = []
    for exchange in exchanges:
        _offer(exchange, connection, now)
        changed += [*exchange.leased.values(), *exchange.answer.leases]
    leases.save(connection, changed)
    idle = [exchange for exchange in exchanges if exchange.request.wait_seconds > 0 and not exchange.answer.has_news]
    times = leases.next_not_before(connection, [exchange.request.cluster for exchange in idle], now)
    for exchange in idle:
        exchange.answer.next_at = times.get(exchange.request.cluster)


def _offer(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Offer new work to a cluster that takes some and wants more."""
    answer = exchange.answer
    expires_at = now + timedelta(seconds=exchange.context.settings.agents.lease_seconds)
    room = exchange.request.want - len(answer.leases)
    if answer.takes_work and room > 0 and not exchange.restoration.waits:
        answer.leases += leases.offered(connection, exchange.request.cluster, now, room)
    for lease in answer.leases:
        lease.set(lease_expires_at=expires_at)


def _begin(exchange: Exchange, connection: Connection, before: ClusterState, now: datetime) -> bool:
    """Whether a sync can be handled; if not, its failure says why."""
    try:
        state = _state_after(before, exchange.request, exchange.context.settings.agents.lease_seconds, now)
        exchange.changes_fleet = _changes_fleet(exchange.context, connection, before, state)
        if exchange.changes_fleet and Lock.FLEET not in exchange.locks:
            raise NeedsLock(Lock.FLEET)
    except (AgentPresent, AgentReplaced, Invalid, SyncSuperseded, NeedsLock) as failure:
        exchange.failure = failure
        return False
    exchange.before, exchange.answer = before, Answer(state=state)
    return True


def _store_states(connection: Connection, exchanges: list[Exchange], now: datetime) -> None:
    """Store when the agents synced, and what they report of their clusters."""
    unchanged = []
    for exchange in exchanges:
        before, after = exchange.before, exchange.answer.state
        note_succession(connection, before, after)
        if (before.health, before.report) == (after.health, after.report):
            unchanged.append(after)
            continue
        kind = "READY" if before.health != after.health else "REPORTED"
        event = ClusterEvent(cluster=after.name, at=now, type=kind)
        fleet.save(connection, after, event, may_change_decisions=exchange.changes_fleet)
    fleet.touch(connection, unchanged)
    if exchanges:
        states = [exchange.answer.state for exchange in exchanges]
        enabled = are_enabled(exchanges[0].context, connection, states)
        for exchange in exchanges:
            exchange.answer.enabled = enabled[exchange.request.cluster]


def _handle(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Apply what an agent reports of executions, and renew its leases."""
    request, answer, leased = exchange.request, exchange.answer, exchange.leased
    agents, takes_work = exchange.context.settings.agents, answer.takes_work
    if request.logs:  # before the events: one of them may end the attempt that printed it
        limit = agents.log_limit_bytes
        answer.log_offsets = store_pieces(connection, request.logs, leased, request.cluster, limit)
    if request.events:
        limit = agents.output_limit_bytes
        events = _believed(exchange)
        if len(events) < len(request.events):  # what is not believed is asked about again later
            answer.accepted += [report.event for report in request.events if report.type == "UNKNOWN"]
        answer.take(connection, events, leased, request.reporter, now, takes_work=takes_work, output_limit=limit)
    for execution in exchange.unanswered:
        report = Report(event="", id=execution.key, attempt=execution.attempt, type="UNKNOWN")
        answer.apply(execution, report, now, takes_work=takes_work)
    _renew(exchange, now)


def _state_after(before: ClusterState, request: Sync, lease_seconds: int, now: datetime) -> ClusterState:
    """The state of a cluster after a sync of its agent."""
    if request.seen > before.syncs + _MOST_LOST_SYNCS:
        raise invalid("seen", "is not of this admin. Remove the file 'position' from the agent's state directory.")
    if before.agent not in (None, request.agent):
        # One that has seen more of the admin than is stored may have taken over after the backup that was restored.
        may_begin = request.sequence == 1 or request.seen > before.syncs
        newcomer = Newcomer(instance=request.instance, may_begin=may_begin, takes_over=request.take_over)
        check_successor(before, newcomer, lease_seconds, now)
    if request.last_sync_at not in (None, before.last_sync_at):
        raise SyncSuperseded
    after = replace(
        before,
        agent=request.agent,
        agent_instance=request.instance,
        agent_host=request.host,
        agent_since=before.agent_since if before.agent == request.agent else now,
        last_sync_at=now,
        syncs=max(before.syncs, request.seen) + 1,
        health=Health.READY.value,
    )
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


def _reconcile(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Bring a restored database up to what an agent has, and let go on what it does not know."""
    request, own = exchange.request, exchange.restoration.open.get(exchange.request.cluster)
    if exchange.restoration.waits:
        until = now + timedelta(seconds=exchange.context.settings.agents.lease_seconds)
        reported = [Held(report.id, report.attempt, report.uid) for report in _believed(exchange)]
        adopt_all([*request.holding, *reported], exchange.leased, request.reporter, until, now)
    if own is not None:
        exchange.answer.kept = unknown_of(request.holding, exchange.leased)
        note_synced(connection, own, exchange.answer.kept, now)


def _believed(exchange: Exchange) -> list[Report]:
    """The reports that count; while a restored database is reconciled, nothing ends because its agent has no record."""
    events = exchange.request.events
    return [report for report in events if report.type != "UNKNOWN" or not exchange.restoration.waits]


def _other_ids(exchange: Exchange) -> set[ExecutionId]:
    """What an agent reports on, and what it holds in case that a restored database knows nothing of it."""
    ids = {report.id for report in exchange.request.events}
    return ids | {held.id for held in exchange.request.holding} if exchange.restoration.open else ids


def _lock_executions(connection: Connection, exchanges: list[Exchange]) -> list[Exchange]:
    """Lock what the agents have leases of, and what else they report on; returns the syncs that can go on."""
    clusters = [exchange.request.cluster for exchange in exchanges]
    reported = {id for exchange in exchanges if Lock.OTHER_EXECUTIONS in exchange.locks for id in _other_ids(exchange)}
    locked = leases.reported(connection, clusters, reported) if reported else leases.leased(connection, clusters)
    by_cluster: dict[str | None, dict[ExecutionId, LeasedExecution]] = {}
    for execution in locked:
        by_cluster.setdefault(execution.cluster, {})[execution.key] = execution
    by_key = {execution.key: execution for execution in locked} if reported else {}
    for exchange in exchanges:
        others = _other_ids(exchange)
        exchange.leased = by_cluster.get(exchange.request.cluster, {})
        if Lock.OTHER_EXECUTIONS in exchange.locks:
            exchange.leased |= {id: by_key[id] for id in others if id in by_key}
        elif not others <= exchange.leased.keys():
            exchange.failure = NeedsLock(Lock.OTHER_EXECUTIONS)
    return [exchange for exchange in exchanges if exchange.failure is None]


def _reported_with_details(exchange: Exchange) -> list[LeasedExecution]:
    """The executions whose reports another attempt may follow."""
    return [
        exchange.leased[report.id]
        for report in exchange.request.events
        if report.type in NEED_DETAILS and report.id in exchange.leased
    ]


def _unanswered(exchange: Exchange, now: datetime) -> list[LeasedExecution]:
    """What the agent was asked about for so long that it must have lost it; a process that is new is asked first."""
    request, since = exchange.request, exchange.answer.state.agent_since
    # By the sync before: if the clock has jumped since, the agent is asked first.
    limit = min(now, exchange.before.last_sync_at or now) - timedelta(
        seconds=exchange.context.settings.agents.lost_seconds
    )
    named = {*(held.id for held in request.holding), *(report.id for report in request.events)}
    return [
        execution
        for key, execution in exchange.leased.items()
        if execution.lease_expires_at is not None
        and execution.lease_expires_at <= limit
        and (since is None or since <= limit)
        and execution.cluster == request.cluster
        and key not in named
        and may_have_started(execution)
    ]


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
    waits, kept = exchange.restoration.waits, set(answer.kept)
    for held in {held.id: held for held in request.holding}.values():
        lease = expected.get(held.id)
        if held in kept or (waits and (lease is None or lease.attempt != held.attempt)):
            continue
        if lease is None or not is_same(held.uid, lease.uid):
            answer.lost.append((held, "NOT_YOURS"))
            continue
        if lease.attempt != held.attempt:
            answer.lost.append((held, "OLD_ATTEMPT"))
            continue
        del expected[held.id]
        if lease.phase == Phase.ABORTING.value and not waits:
            answer.cancels.append(lease)
        else:
            answer.confirmed.append(lease)
            answer.is_permission |= not lease.confirmed
        if not lease.confirmed or lease.lease_instance != request.instance:
            lease.set(confirmed=True, lease_instance=request.instance)
        if lease.silent_since is not None:
            lease.apply(hear(lease), now)
        # One that ends later than any new lease was given before the clock went back.
        if lease.lease_expires_at is not None and not just_renewed <= lease.lease_expires_at <= expires_at:
            lease.set(lease_expires_at=expires_at)
    for lease in expected.values():
        if waits:
            lease.set(lease_expires_at=expires_at)  # it is asked about when everything is known
        elif may_have_started(lease):
            # An agent that could not be believed is asked only once, for it would answer and be asked again at once.
            if request.sequence == 1 or may_disown(lease, request.instance, now):
                answer.questions.append(lease)
        elif not answer.takes_work:
            lease.apply(requeue(lease, "Its cluster takes no new work.", stays=False), now)
        elif len(answer.leases) < request.want:
            answer.leases.append(lease)  # the answer that offered it never arrived
        else:
            lease.set(lease_expires_at=None)
