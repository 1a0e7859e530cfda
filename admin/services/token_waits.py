"""Waits for tokens: what an execution that waits for some would be told now."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.token_waits import TokenWait, wait_of
from admin.core.executions.tokens import WAITING_FOR_TOKENS, describe_amounts, line_priority, read_amounts
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.answers import Allocation, Exhausted, Full
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Book, Ledger
from admin.core.token_pools.lines import Room, Waiter, place_in_line
from admin.services.access import Access
from admin.services.context import Context
from admin.store import token_pools, token_waits
from admin.store.executions import Execution
from admin.store.token_backends.base import TokensUnavailable
from admin.store.token_waits import WaitingForTokens


def view_token_wait(context: Context, connection: Connection, execution: Execution) -> TokenWait | None:
    """What an execution waits for in token pools; None for one that waits for none."""
    if execution.reason != WAITING_FOR_TOKENS or execution.token_pools is None:
        return None
    amounts = read_amounts(execution.token_pools)
    try:
        usage = context.tokens.usage(amounts)
    except TokensUnavailable:
        return wait_of(None, amounts, 0, 0)
    row = WaitingForTokens.of(execution)
    claim = _claim(row)
    [terms] = token_pools.terms(connection, [claim])
    if terms.keys() != amounts.keys():
        return wait_of(Ledger({}, context.clock()).allocate(claim, terms), amounts, 0, 0)
    books = {pool: Book(0, used.grants, used.waiters) for pool, used in usage.items()}
    ledger = Ledger(books, context.clock(), steady_seconds=0)  # usage has left out what is over
    in_line = {waiter.token: waiter for used in usage.values() for waiter in used.waiters}
    rooms = {pool: Room.of(own.capacity, books[pool].used) for pool, own in terms.items()}
    line = {**{other.token: _waiter(other) for other in token_waits.waiting(connection, amounts)}, **in_line}
    own = line.pop(claim.token, None) or _waiter(row)
    others = list(line.values())
    place = place_in_line(own, others, rooms)
    answer = ledger.allocate(claim, terms)
    told = execution.reason_message or ""
    return wait_of(_told(context.access, answer), amounts, place, len(others) + 1, told)


def tokens_lacked(execution: Execution) -> str:
    """The tokens that a run has lost and not got again; "" where it holds what it needs."""
    if execution.phase != Phase.RUNNING.value or execution.token_pools is None or execution.token_number is not None:
        return ""
    return describe_amounts(read_amounts(execution.token_pools))


def _claim(row: WaitingForTokens) -> Claim:
    return Claim(
        token=row.token,
        amounts=read_amounts(row.token_pools),
        place=Scope(row.domain, row.project, row.workflow, row.launch_plan),
        execution=row.name,
        priority=line_priority(row.tier, row.priority),
        since=row.created_at,
    )


def _waiter(row: WaitingForTokens) -> Waiter:
    """An execution behind those of its kind that stand in line, as if it stood there too."""
    claim = _claim(row)
    return Waiter(
        token=claim.token,
        number=2**62 + row.id,
        amounts=claim.amounts,
        caps={},
        standings={},
        place=claim.place,
        execution=claim.execution,
        holder="",
        priority=claim.priority,
        weight=claim.weight,
        since=row.created_at,
        wait_seconds=0,
        expires_at=row.created_at,
    )


def _told(access: Access, answer: Allocation) -> Allocation:
    """An answer without the names of holders that the asker may not see."""
    if not isinstance(answer, Exhausted):
        return answer
    return replace(answer, full=tuple(_told_limit(access, full) for full in answer.full))


def _told_limit(access: Access, full: Full) -> Full:
    return replace(full, holders=tuple(_told_grant(access, grant) for grant in full.holders))


def _told_grant(access: Access, grant: Grant) -> Grant:
    if access.allows("executions.read", grant.place):
        return grant
    return replace(grant, token="", place=PLATFORM, execution="", holder="")
