"""Leases: which an agent is offered, keeps, has lost, or is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from admin.core.executions.attempts import (
    hear,
    is_over_for,
    may_have_started,
    requeue,
    wait_for_other,
    waits_for_other,
    withhold,
)
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import is_same, may_disown
from admin.services.admissions import Opening, admit, needs_admission
from admin.services.creator_rights import creator_of, current_rights, usable_by
from admin.services.exchanges import Exchange
from admin.store import leases, offers
from admin.store.leases import LeasedExecution

#: Finds what a cluster may have next, at most so many.
Find = Callable[..., list[LeasedExecution]]
#: Executions that are looked at together where some creators may not use the cluster.
_BATCH = 500
#: Executions that are looked at together where some wait for tokens or quotas. Where that many are refused, the next
#: ones are looked at that are of other kinds.
_MOST_CANDIDATES = 500
#: Of how many attempts that an agent is to end it is remembered that it was told so.
_MOST_ENDING = 1000
#: A lease is renewed only after this part of its duration: agents end their work much before it expires.
_RENEW_AFTER = 1 / 60


def offer(exchanges: Sequence[Exchange], connection: Connection, now: datetime) -> None:
    """Offer new work to the clusters that take some and want more, of creators who may use them now."""
    for exchange in exchanges:
        _offer_again(exchange, connection, now)
    openings = [opening for exchange in exchanges if (opening := _open(exchange, connection, now)) is not None]
    admit(exchanges, openings, connection, now)


def _offer_again(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Offer anew what its agent was offered and never heard of, unless its creator may not use the cluster any more."""
    answer = exchange.answer
    expires_at = now + timedelta(seconds=exchange.context.settings.agents.lease_seconds)
    if answer.leases:  # whose offers never arrived
        leases.add_creators(connection, answer.leases)
        for lease, reason in _forbidden(exchange, connection, answer.leases).items():
            lease.apply(requeue(lease, reason, stays=False), now)
            answer.leases.remove(lease)
    for lease in answer.leases:
        lease.set(lease_expires_at=expires_at)


def _open(exchange: Exchange, connection: Connection, now: datetime) -> Opening | None:
    """The room that a cluster has, and what it may have next; None where it gets nothing new."""
    answer, cluster = exchange.answer, exchange.request.cluster
    room = exchange.request.want - len(answer.leases)
    if not answer.takes_work or room <= 0 or exchange.restoration.is_waiting:
        if cluster not in exchange.context.clusters_in_line:
            return None
        # What stood in line there keeps no place, since it is not asked for.
        exchange.context.clusters_in_line.discard(cluster)
        waiting = offers.waiting_for_tokens(connection, cluster, _MOST_CANDIDATES)
        return Opening(exchange=exchange, room=0, candidates=waiting, is_open=False)
    offered = _permitted(exchange, connection, now, room, partial(offers.offered, connection))
    if not needs_admission(exchange, offered, connection):
        return Opening(exchange=exchange, room=room, candidates=offered[:room])
    look = partial(_permitted, exchange, connection, now, _MOST_CANDIDATES)
    candidates = look(partial(offers.candidates, connection, room=room))
    is_cut = len(candidates) == _MOST_CANDIDATES

    def find_more(room: int, admitted: list[int], refused: list[int]) -> list[LeasedExecution]:
        return look(partial(offers.further_candidates, connection, room=room, admitted=admitted, refused=refused))

    return Opening(
        exchange=exchange,
        room=room,
        candidates=candidates,
        is_open=False,
        find_more=find_more if is_cut else None,
        needs=offers.needs(connection, cluster, now) if is_cut else (),
    )


def _permitted(
    exchange: Exchange, connection: Connection, now: datetime, most: int, find: Find
) -> list[LeasedExecution]:
    """What a cluster may have next; what its creator may not use any more is kept from it and decided again."""
    limit = most
    while True:
        candidates = find(cluster=exchange.request.cluster, now=now, limit=limit)
        forbidden = _forbidden(exchange, connection, candidates)
        for lease, reason in forbidden.items():
            lease.apply(withhold(reason), now)
        leases.save(connection, forbidden)
        permitted = [lease for lease in candidates if lease not in forbidden]
        if not forbidden or len(permitted) >= most:
            return permitted[:most]
        limit = max(most, _BATCH)  # there may be many such, one after the other


def _forbidden(
    exchange: Exchange, connection: Connection, offered: Sequence[LeasedExecution]
) -> dict[LeasedExecution, str]:
    """Those of some executions whose creators may not use the cluster any more, and why."""
    context, cluster = exchange.context, exchange.request.cluster
    asked = [lease for lease in offered if creator_of(lease).has_rights_of_its_own]
    if not asked:
        return {}
    rights = current_rights(context, connection)
    usable = {lease: usable_by(lease, rights) for lease in asked}
    return {
        lease: f"Cluster '{cluster}' {clusters.reason}."
        for lease, clusters in usable.items()
        if clusters is not None and cluster not in clusters.clusters
    }


def find_unanswered(exchange: Exchange, now: datetime) -> list[LeasedExecution]:
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


def _was_silent(exchange: Exchange, now: datetime) -> bool:
    """Whether nothing was heard of the cluster before this sync for so long that it was unreachable."""
    heard = exchange.before.last_sync_at
    seconds = exchange.context.settings.agents.unreachable_seconds
    return heard is None or now - heard > timedelta(seconds=seconds)


def find_taken_over(exchange: Exchange, now: datetime) -> list[LeasedExecution]:
    """The executions whose leases are over, and which another agent of the cluster confirmed."""
    request = exchange.request
    return [
        execution
        for execution in exchange.leased.values()
        if execution.cluster == request.cluster and is_over_for(execution, request.instance, now)
    ]


def renew(exchange: Exchange, now: datetime) -> None:
    """Renew the leases that an agent holds; tell it those it lost, and ask for those that it does not mention."""
    request, answer, is_waiting = exchange.request, exchange.answer, exchange.restoration.is_waiting
    expected = {
        key: execution
        for key, execution in exchange.leased.items()
        if execution.lease_expires_at is not None and execution.cluster == request.cluster
    }
    kept = set(answer.kept)
    for held in {held.id: held for held in request.holding}.values():
        lease = expected.get(held.id)
        if held in kept or (is_waiting and (lease is None or lease.attempt != held.attempt)):
            continue
        if lease is None or not is_same(held.uid, lease.uid):
            answer.lost.append((held, "NOT_YOURS"))
        elif lease.attempt != held.attempt:
            answer.lost.append((held, "OLD_ATTEMPT"))
        # In a restored database it may be confirmed since the backup, and run: nothing is ended before all have synced.
        elif not is_waiting and lease.token_pools is not None and not may_have_started(lease) and lease.is_over(now):
            del expected[held.id]
            message = "Its lease was over before it had started, and its tokens may be others' by now."
            lease.apply(requeue(lease, message, stays=True), now)
            answer.lost.append((held, "OLD_ATTEMPT"))
        else:
            del expected[held.id]
            _confirm(exchange, lease, now)
    for lease in expected.values():
        _settle_unmentioned(exchange, lease, now)


def note_ending(exchange: Exchange) -> None:
    """Remember what the agent was told to end, for as long as it has it."""
    request, answer = exchange.request, exchange.answer
    if exchange.restoration.is_waiting or not (answer.lost or exchange.before.ending):
        return
    held = set(request.holding)
    attempts = dict.fromkeys([*exchange.ending, *(lost for lost, _ in answer.lost)] if request.instance else [])
    ending = [attempt.as_json() for attempt in attempts if attempt in held][:_MOST_ENDING]
    answer.state = replace(answer.state, ending=ending)


def _confirm(exchange: Exchange, lease: LeasedExecution, now: datetime) -> None:
    """Renew a lease that the agent holds, or tell it that the execution is to end."""
    request, answer = exchange.request, exchange.answer
    if lease.phase == Phase.ABORTING.value and not exchange.restoration.is_waiting:
        answer.cancels.append(lease)
    else:
        answer.confirmed.append(lease)
        answer.is_permission |= not lease.confirmed
    if not lease.confirmed or lease.lease_instance != request.instance:
        lease.set(confirmed=True, lease_instance=request.instance)
    if lease.silent_since is not None:
        lease.apply(hear(lease), now)
    seconds = exchange.context.settings.agents.lease_seconds
    expires_at = now + timedelta(seconds=seconds)
    just_renewed = expires_at - timedelta(seconds=seconds * _RENEW_AFTER)
    # One that ends later than any new lease was given before the clock went back.
    if lease.lease_expires_at is not None and not just_renewed <= lease.lease_expires_at <= expires_at:
        lease.set(lease_expires_at=expires_at)


def _settle_unmentioned(exchange: Exchange, lease: LeasedExecution, now: datetime) -> None:
    """Ask about a lease that the agent does not mention, or give it again or back if it cannot have started."""
    request, answer = exchange.request, exchange.answer
    if exchange.restoration.is_waiting:
        # It is asked about when everything is known.
        lease.set(lease_expires_at=now + timedelta(seconds=exchange.context.settings.agents.lease_seconds))
    elif may_have_started(lease):
        if request.take_over and lease.lease_instance != request.instance:
            lease.set(lease_instance="")  # with --take-over the operator states that the other agent is gone
        # An agent that could not be believed is asked only once, for it would answer and be asked again at once.
        if request.sequence == 1 or may_disown(lease, request.instance, now):
            answer.questions.append(lease)
        if lease.silent_since is None and waits_for_other(lease, request.instance, now):
            assert lease.lease_expires_at is not None
            seconds = exchange.context.settings.agents.lease_seconds
            lease.apply(wait_for_other(lease, lease.lease_expires_at - timedelta(seconds=seconds)), now)
        elif lease.lease_expires_at is not None and lease.lease_expires_at <= now and _was_silent(exchange, now):
            lease.set(lease_expires_at=now)  # it could not answer meanwhile: `find_unanswered` counts from here
    elif not answer.takes_work:
        lease.apply(requeue(lease, "Its cluster takes no new work.", stays=False), now)
    elif len(answer.leases) < request.want:
        answer.leases.append(lease)  # the answer that offered it never arrived
    else:
        lease.set(lease_expires_at=None)
