"""Batches of exchanges: the syncs of several agents in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from admin.core.executions.attempts import waits_for_other
from admin.core.executions.causes import Cause, cause_of
from admin.core.executions.reports import NEED_DETAILS
from admin.core.fleet.clusters import REPORTED, ClusterState, Health, differs_only_in_load, updated_report
from admin.core.fleet.silence import describe_return
from admin.core.placement.scores import looks_at_load_of
from admin.core.problems import Invalid, invalid
from admin.errors import AgentPresent, AgentReplaced, Unauthenticated
from admin.services.bids import ask_for_bids, take_bids
from admin.services.context import Context
from admin.services.definitions import are_enabled, current_fleet
from admin.services.exchanges import Exchange, Lock, NeedsLock, SyncResult, SyncSuperseded
from admin.services.leases import find_taken_over, find_unanswered, note_ending, offer, renew
from admin.services.logs import store_pieces
from admin.services.reconciliations import find_restoration, note_end, reconcile
from admin.services.reports import Report, note_dropped
from admin.services.successions import Newcomer, check_successor, note_succession
from admin.store import fleet, leases, limit_scopes, offers
from admin.store.cluster_events import CHANGED, ClusterEvent
from admin.store.executions import ExecutionId
from admin.store.leases import LeasedExecution

#: How many syncs a restored database may lack: as many as three a second in ten years.
_MOST_LOST_SYNCS = 10**9


def exchange_all(connection: Connection, submitted: list[Exchange]) -> list[SyncResult | Exception]:
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
        reconcile(exchange, connection, now)
        exchange.unanswered = [] if restoration.is_waiting else find_unanswered(exchange, now)
        need_details += [*exchange.unanswered, *_reported_with_details(exchange), *find_taken_over(exchange, now)]
    note_end(connection, restoration, now)
    leases.add_details(connection, need_details)
    for exchange in exchanges:
        _handle(exchange, connection, now)
    # Offers whose answer never reached the agent, and what it is asked about.
    answers = [exchange.answer for exchange in exchanges]
    leases.add_details(connection, [lease for answer in answers for lease in [*answer.leases, *answer.questions]])
    offer(exchanges, connection, now)
    changed = [lease for exchange in exchanges for lease in [*exchange.leased.values(), *exchange.answer.leases]]
    ask_for_bids(exchanges, connection, now)
    leases.save(connection, changed)
    finished = [execution for exchange in exchanges for execution in exchange.answer.finished]
    limited = [execution.id for execution in finished if cause_of(execution.phase, execution.reason) is Cause.LIMIT]
    limit_scopes.store(connection, limited)
    fleet.keep_told(connection, [exchange.answer.state for exchange in exchanges if exchange.tells_other_things])
    idle = [exchange for exchange in exchanges if exchange.request.wait_seconds > 0 and not exchange.answer.has_news]
    times = offers.next_not_before(connection, [exchange.request.cluster for exchange in idle], now)
    for exchange in idle:
        next_times = [exchange.answer.next_at, times.get(exchange.request.cluster)]
        exchange.answer.next_at = min((time for time in next_times if time is not None), default=None)


def _begin(exchange: Exchange, connection: Connection, before: ClusterState, now: datetime) -> bool:
    """Whether a sync can be handled; if not, its failure says why."""
    try:
        state = _state_after(before, exchange, connection, now)
        exchange.changes_fleet = _changes_fleet(exchange.context, connection, before, state)
        if exchange.changes_fleet and Lock.FLEET not in exchange.locks:
            raise NeedsLock(Lock.FLEET)
    except (AgentPresent, AgentReplaced, Invalid, SyncSuperseded, NeedsLock, Unauthenticated) as failure:
        exchange.failure = failure
        return False
    exchange.before, exchange.answer = before, SyncResult(state=state)
    return True


def _state_after(before: ClusterState, exchange: Exchange, connection: Connection, now: datetime) -> ClusterState:
    """The state of a cluster after a sync of its agent."""
    request, context = exchange.request, exchange.context
    if before.was_deleted and not current_fleet(context, connection).has_cluster(request.cluster):
        # Its token was revoked after this sync arrived, which may have waited since.
        raise Unauthenticated(f"Cluster '{request.cluster}' was deleted. Define and register it again.")
    if request.seen > before.syncs + _MOST_LOST_SYNCS:
        raise invalid("seen", "is not of this admin. Remove the file 'position' from the agent's state directory.")
    if before.agent not in (None, request.agent):
        # One that has seen more of the admin than is stored may have taken over after the backup that was restored.
        may_begin = request.sequence == 1 or request.seen > before.syncs
        newcomer = Newcomer(
            instance=request.instance,
            may_begin=may_begin,
            takes_over=request.take_over,
            is_awaited=partial(leases.is_awaited, connection, request.cluster, request.instance),
        )
        check_successor(before, newcomer, context.settings.agents, context.up_seconds)
    if request.last_sync_at not in (None, before.last_sync_at):
        raise SyncSuperseded
    after = replace(
        before,
        agent=request.agent,
        agent_instance=request.instance,
        agent_host=request.host,
        agent_since=before.agent_since if before.agent == request.agent else now,
        can_bid=request.can_bid,
        last_sync_at=now,
        syncs=max(before.syncs, request.seen) + 1,
        health=Health.READY.value,
    )
    if request.report is None:
        return after
    report = updated_report(before.report, request.report)
    is_news = before.reported_at is None or report != before.report
    return replace(after, report=report, reported_at=now) if is_news else after


def _is_same(before: ClusterState, after: ClusterState) -> bool:
    """Whether a sync says nothing new of a cluster; its first report does, be it what its registration said."""
    is_first = before.reported_at is None and after.reported_at is not None
    return not is_first and (before.health, before.report) == (after.health, after.report)


def _changes_fleet(context: Context, connection: Connection, before: ClusterState, after: ClusterState) -> bool:
    """Whether decisions may depend on the difference; load counts only where a pool's strategy looks at it."""
    if _is_same(before, after):
        return False
    if before.health != after.health or not differs_only_in_load(before.report, after.report):
        return True
    return looks_at_load_of(current_fleet(context, connection), after.name)


def _store_states(connection: Connection, exchanges: list[Exchange], now: datetime) -> None:
    """Store when the agents synced, and what they report of their clusters."""
    unchanged = []
    for exchange in exchanges:
        before, after = exchange.before, exchange.answer.state
        note_succession(connection, before, after)
        if _is_same(before, after):
            unchanged.append(after)
            continue
        kind = "READY" if before.health != after.health else REPORTED
        reason = None
        if kind == "READY":
            reason = describe_return(before.health, before.last_sync_at, now, was_deleted=before.was_deleted)
        elif before.reported_at is not None and not differs_only_in_load(before.report, after.report):
            reason = CHANGED
        event = ClusterEvent(cluster=after.name, at=now, type=kind, reason=reason)
        fleet.save(connection, after, event, may_change_decisions=exchange.changes_fleet)
    fleet.touch(connection, unchanged)
    if exchanges:
        states = [exchange.answer.state for exchange in exchanges]
        enabled = are_enabled(exchanges[0].context, connection, states)
        for exchange in exchanges:
            exchange.answer.enabled = enabled[exchange.request.cluster]


def _lock_executions(connection: Connection, exchanges: list[Exchange]) -> list[Exchange]:
    """Lock what the agents have leases of, and what else they report on; returns the syncs that can go on."""
    clusters = [exchange.request.cluster for exchange in exchanges]
    reported = {id for exchange in exchanges if Lock.OTHER_EXECUTIONS in exchange.locks for id in exchange.other_ids}
    locked = leases.reported(connection, clusters, reported) if reported else leases.leased(connection, clusters)
    by_cluster: dict[str | None, dict[ExecutionId, LeasedExecution]] = {}
    for execution in locked:
        by_cluster.setdefault(execution.cluster, {})[execution.key] = execution
    by_key = {execution.key: execution for execution in locked} if reported else {}
    for exchange in exchanges:
        others = exchange.other_ids
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


def _handle(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Apply what an agent reports of executions, and renew its leases."""
    request, answer, leased = exchange.request, exchange.answer, exchange.leased
    agents, takes_work = exchange.context.settings.agents, answer.takes_work
    if request.logs:  # before the events: one of them may end the attempt that printed it
        answer.log_offsets = store_pieces(connection, request.logs, leased, request.cluster, agents, now)
    if request.events:
        limit = agents.output_limit_bytes
        events = exchange.believed_reports
        if len(events) < len(request.events):  # what is not believed is asked about again later
            answer.accepted += [report.event for report in request.events if report.type == "UNKNOWN"]
        answer.take(
            connection,
            events,
            leased,
            request.reporter,
            now,
            takes_work=takes_work,
            output_limit=limit,
            silent_since=exchange.silent_since,
        )
    if request.bids:
        take_bids(exchange, connection, now)
    for execution in exchange.unanswered:
        if waits_for_other(execution, request.instance, now):
            continue
        report = Report(event="", id=execution.key, attempt=execution.attempt, type="UNKNOWN")
        answer.apply(execution, report, now, takes_work=takes_work, silent_since=exchange.silent_since)
    if exchange.dropped:
        note_dropped(connection, exchange.dropped, leased, request.cluster, now)
    renew(exchange, now)
    note_ending(exchange)
