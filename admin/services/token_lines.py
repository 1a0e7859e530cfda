"""Lines for tokens: those that ask for some, and the executions that wait behind others of their kind and do not ask.

Whoever tells who waits, and at which place, counts both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.executions.tokens import line_priority, read_amounts
from admin.core.settings.scopes import Scope
from admin.core.token_pools.claims import EXECUTION_PREFIX, RUNS_ALREADY, Claim
from admin.core.token_pools.lines import Room, Waiter, in_order
from admin.store import token_pools, token_waits
from admin.store.token_backends.base import PoolTotals, PoolUsage
from admin.store.token_waits import WaitingForTokens


def claim_of_waiting(execution: WaitingForTokens) -> Claim:
    """What an execution waits for."""
    return Claim(
        token=execution.token,
        amounts=read_amounts(execution.token_pools),
        place=Scope(execution.domain, execution.project, execution.workflow, execution.launch_plan),
        execution=execution.name,
        holder=f"cluster {execution.cluster}",
        priority=line_priority(execution.tier, execution.priority),
        since=execution.created_at,
    )


def waiting_for(connection: Connection, usage: Mapping[str, PoolUsage]) -> dict[str, Waiter]:
    """Everything that waits for any of some pools, by token: claims, and executions whether they ask or not."""
    asking = {waiter.token: waiter for used in usage.values() for waiter in used.waiters}
    executions = token_waits.waiting(connection, usage)
    claims = {execution.token: claim_of_waiting(execution) for execution in executions}
    weights = token_pools.weights(connection, {claim.place for claim in claims.values()})
    waiting = {token: waiter for token, waiter in asking.items() if not _waits_for_its_lease(waiter)}
    for execution in executions:
        claim = claims[execution.token]
        waiting[claim.token] = asking.get(claim.token) or as_waiter(execution, weights[claim.place])
    return waiting


def as_waiter(execution: WaitingForTokens, weight: float) -> Waiter:
    """An execution behind those of its kind that stand in line, as if it stood there too."""
    claim = claim_of_waiting(execution)
    return Waiter(
        token=claim.token,
        number=2**62 + execution.id,
        amounts=claim.amounts,
        caps={},
        standings={},
        place=claim.place,
        execution=claim.execution,
        holder=claim.holder,
        priority=claim.priority,
        weight=weight,
        since=execution.created_at,
        wait_seconds=0,
        expires_at=execution.created_at,
    )


def with_executions(
    connection: Connection, usage: Mapping[str, PoolUsage], capacities: Mapping[str, int]
) -> dict[str, PoolUsage]:
    """The same usage of pools with everything that waits, the next to be served first."""
    rooms = {name: Room.of(capacities[name], used.amounts) for name, used in usage.items()}
    line = in_order(waiting_for(connection, usage).values(), rooms)
    return {
        name: replace(used, waiters=tuple(waiter for waiter in line if name in waiter.amounts))
        for name, used in usage.items()
    }


def count_waiting(connection: Connection, totals: Mapping[str, PoolTotals]) -> Counter[str]:
    """How many wait for tokens of each pool."""
    return token_waits.count(connection) + Counter({name: own.asking for name, own in totals.items()})


def _waits_for_its_lease(waiter: Waiter) -> bool:
    """Whether it is an execution that is to start with its tokens; one that runs has lost them, and waits too."""
    return waiter.token.startswith(EXECUTION_PREFIX) and waiter.priority != RUNS_ALREADY
