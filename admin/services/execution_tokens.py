"""Tokens of executions: how they are asked for, and given back by those that end, or whose leases are over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.attempts import may_have_started
from admin.core.executions.tokens import (
    WAITING_FOR_TOKENS,
    attempt_token,
    describe_reclaim,
    line_priority,
    read_amounts,
)
from admin.core.token_pools.claims import RUNS_ALREADY, Claim
from admin.core.token_pools.grants import Release
from admin.core.token_pools.steadiness import JUMP_SECONDS
from admin.services.context import Context
from admin.store import fleet, leases, token_waits
from admin.store.execution_events import TOKENS_LOST
from admin.store.executions import Execution, ExecutionId
from admin.store.leases import LeasedExecution
from admin.store.token_backends.base import TokenSession

#: How long an execution keeps its place in line without being asked for: the sync of an agent that has room is answered
#: again after two seconds at the latest. One that comes back later is as old as before, and stands where it stood.
_WAIT_SECONDS = 10.0
#: Executions whose tokens are taken back in one transaction.
_BATCH = 200
#: The number of no grant: who gives that back leaves the line, and loses nothing that was granted meanwhile.
IN_LINE = 0


def give_back_of_ended(context: Context, connection: Connection, ended: Iterable[Execution]) -> list[Release]:
    """Give back what executions hold or wait for, as they were before they ended.

    Returns what `TokenBackend.finish` is to do once the transaction is committed.
    """
    return _release(
        context,
        connection,
        [
            Release(
                token=attempt_token(execution.uid, execution.attempt), pools=tuple(read_amounts(execution.token_pools))
            )
            for execution in ended
            if execution.token_pools is not None
        ],
    )


def leave_lines(context: Context, moved: Collection[ExecutionId]) -> None:
    """Have executions that were sent to other clusters keep no place in line until they are asked for there."""
    if not moved:
        return
    with context.database.writing() as connection:
        releases = [
            Release(token=waiting.token, pools=tuple(read_amounts(waiting.token_pools)), number=IN_LINE)
            for waiting in token_waits.some(connection, moved)
        ]
        pending = _release(context, connection, releases)
    context.tokens.finish(pending)


def _release(context: Context, connection: Connection, releases: Sequence[Release]) -> list[Release]:
    if not releases:
        return []
    pools = {pool for release in releases for pool in release.pools}
    session = context.tokens.session(connection, pools, [], [release.token for release in releases])
    for release in releases:
        session.release(release)
    session.save()
    return list(session.pending)


def take_back_from_silent(context: Context) -> None:
    """Give back what runs at silent clusters hold, as soon as their leases are over, each with its event.

    Silence is measured as it is for the loss of clusters, so that no clock that has jumped takes anything back.
    """
    silent = context.watch.silent(context.settings.agents.lease_seconds + JUMP_SECONDS)
    if not silent:
        return
    now = context.clock()
    with context.database.autocommit() as connection:
        names = leases.clusters_holding_tokens(connection, silent, now)
    for name in names:
        with context.database.writing() as connection:
            fleet.hold_state(connection, name)  # its agent may have returned, and renewed them
            over = leases.holding_tokens(connection, name, now, _BATCH)
            pending = give_back_of_judged(context, connection, over, now)
            leases.save(connection, over)
        context.tokens.finish(pending)


def give_back_of_judged(
    context: Context, connection: Connection, judged: Iterable[LeasedExecution], now: datetime
) -> list[Release]:
    """Give back what executions of silent clusters hold whose leases are over or have ended, before they are saved.

    Returns what `TokenBackend.finish` is to do once the transaction is committed.
    """
    over = [lease for lease in judged if lease.token_number is not None and lease.is_over(now)]
    pools = {pool for lease in over for pool in read_amounts(lease.token_pools)}
    if not over:
        return []
    session = context.tokens.session(connection, pools, [], [lease.held_token for lease in over])
    for lease in over:
        give_back(session, lease, now, is_silent=True)
    session.save()
    return list(session.pending)


def give_back(session: TokenSession, lease: LeasedExecution, now: datetime, *, is_silent: bool = False) -> None:
    """Give back what an execution holds whose lease is over or has ended, with an event where it may still run."""
    amounts = read_amounts(lease.token_pools)
    session.release(Release(token=lease.held_token, pools=tuple(amounts), number=lease.token_number))
    lease.set(token_number=None)
    if lease.lease_expires_at is not None and may_have_started(lease):
        message = describe_reclaim(amounts, lease.cluster if is_silent else None)
        lease.note(TOKENS_LOST, lease.reason, message, lease.cluster, now)


def claim_of(context: Context, lease: LeasedExecution, *, runs_already: bool = False) -> Claim:
    """What an execution asks for."""
    agents = context.settings.agents
    return Claim(
        token=lease.held_token,
        amounts=read_amounts(lease.token_pools),
        place=lease.scope,
        execution=lease.name,
        holder=holder_of(lease),
        priority=RUNS_ALREADY if runs_already else line_priority(lease.tier, lease.priority),
        lease_seconds=agents.lease_seconds,
        # What runs asks again with each sync of its agent, which may wait for long.
        wait_seconds=agents.unreachable_seconds if runs_already else _WAIT_SECONDS,
        is_repeated=runs_already or lease.reason == WAITING_FOR_TOKENS,
        since=lease.created_at,
    )


def holder_of(lease: LeasedExecution) -> str:
    """Who holds tokens for an execution, for people: the cluster where it runs or is to run."""
    return f"cluster {lease.cluster}"
