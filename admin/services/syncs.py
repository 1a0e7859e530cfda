"""Syncs: the one call of an agent. Heartbeat, reports and logs go in; leases, cancels and questions come out."""

from __future__ import annotations

import logging
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from admin.core.fleet.clusters import read_report
from admin.services.bid_decisions import decide_rounds
from admin.services.context import Context
from admin.services.exchange_batches import exchange_all
from admin.services.exchanges import Exchange, Lock, NeedsLock, Sync, SyncResult, SyncSuperseded
from admin.services.waiting import Wait, WaitSlot
from admin.store.cache.cluster_wakeups import Waiter

_log = logging.getLogger("rainbow.syncs")

#: The shortest wait for an attempt that backs off.
_MIN_WAIT_SECONDS = 0.02


def sync(context: Context, request: Sync) -> SyncResult:
    """Store what an agent reports, and answer; waits while there is nothing to answer."""
    if request.report is not None:
        request = replace(request, report=read_report(request.report))
    wait = min(request.wait_seconds, _longest_wait(context, request))
    if wait <= 0 or request.events or request.logs or request.bids:
        return _exchange(context, replace(request, wait_seconds=0))
    # Before the first exchange, so that no wakeup is missed.
    with context.cluster_wakeups.subscribe(request.cluster) as waiter, context.wait_limiter.slot(Wait.SYNC) as slot:
        return _wait(context, request, waiter, slot, context.monotonic() + wait)


def _longest_wait(context: Context, request: Sync) -> float:
    """A waiting sync is no heartbeat and renews no lease, so the next one must arrive in time."""
    agents = context.settings.agents
    longest = min(agents.wait_seconds, agents.unreachable_seconds / 2)
    return min(longest, agents.lease_seconds / 2) if request.holding else longest


def _wait(context: Context, request: Sync, waiter: Waiter, slot: WaitSlot, deadline: float) -> SyncResult:
    """Exchange, and again after each wakeup of the cluster; no query is made meanwhile."""
    answer = first = _exchange(context, request)
    # A process takes over by its first sync, not by waiting for the answer to it.
    request = replace(request, sequence=max(request.sequence, 2), report=None)
    while not answer.has_news and not _is_switched(first, answer) and not context.cluster_wakeups.is_closing:
        if not slot.take():
            return replace(answer, pause_seconds=context.settings.agents.retry_seconds)
        last_sync_at = answer.state.last_sync_at
        waiter.watched = answer.watched
        is_woken = waiter.wait(_remaining(context, answer, deadline), last_sync_at)
        if not is_woken and context.monotonic() >= deadline:
            break
        try:
            answer = _exchange(context, replace(request, last_sync_at=last_sync_at))
        except SyncSuperseded:  # the agent may hold more by now, and want less
            return SyncResult(state=answer.state, enabled=answer.enabled)
    return answer


def _is_switched(first: SyncResult, answer: SyncResult) -> bool:
    """Whether the cluster was enabled, admitted, cordoned or drained, or the reverse, while its agent waited."""
    return (first.enabled, first.state.switches) != (answer.enabled, answer.state.switches)


def _remaining(context: Context, answer: SyncResult, deadline: float) -> float:
    """How long to wait at most: until the deadline, or the next attempt that backs off."""
    remaining = max(0.0, deadline - context.monotonic())
    if answer.next_at is None:
        return remaining
    return min(remaining, max(_MIN_WAIT_SECONDS, (answer.next_at - context.clock()).total_seconds()))


def _exchange(context: Context, request: Sync) -> SyncResult:
    """Handle a sync in one transaction, together with those of other agents.

    It begins without the locks that few syncs need; where one is missing, it is begun again with it.
    """
    locks: frozenset[Lock] = frozenset()
    context.tokens.probe()
    while True:
        exchange = Exchange(context=context, request=request, locks=locks)
        try:
            result = context.database.write(exchange_all, exchange)
        except SQLAlchemyError:
            context.tokens.finish(exchange.claimed)
            raise
        if isinstance(result, SyncResult):
            result.count(context.clock())
            context.tokens.finish(result.pending)
            if result.complete_rounds:
                _decide_rounds(context, result.complete_rounds)
            return result
        if not isinstance(result, NeedsLock):
            raise result
        locks |= {result.lock}


def _decide_rounds(context: Context, rounds: list[int]) -> None:
    """Decide the rounds of bids in which a sync has brought the last answer."""
    try:
        decide_rounds(context, rounds)
    except SQLAlchemyError:  # what the agent reported is stored, and the background work decides them a moment later
        _log.warning("rounds of bids are decided later", exc_info=True)
