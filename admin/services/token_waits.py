"""Waits for tokens: what an execution that waits for some would be told now."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.token_waits import TokenWait, wait_of
from admin.core.executions.tokens import WAITING_FOR_TOKENS, describe_amounts, read_amounts
from admin.core.settings.scopes import PLATFORM
from admin.core.token_pools.answers import Allocation, Exhausted, Full
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Ledger
from admin.core.token_pools.limits import Limit, execution_bucket, weight_of
from admin.core.token_pools.lines import Room, place_in_line
from admin.services.access import Access
from admin.services.context import Context
from admin.services.token_lines import as_waiter, claim_of_waiting, waiting_for
from admin.services.visibility import told_provenance
from admin.store import revisions, token_pools
from admin.store.executions import Execution
from admin.store.token_backends.base import TokensUnavailable
from admin.store.token_waits import WaitingForTokens


def view_token_wait(
    context: Context, connection: Connection, execution: Execution, *, has_room: bool
) -> TokenWait | None:
    """What an execution waits for in token pools; None for one that waits for none.

    If its cluster has room, also what it will wait for that its agent was not asked to take yet.
    """
    if execution.token_pools is None:
        return None
    if execution.reason == WAITING_FOR_TOKENS:
        return _wait_now(context, connection, execution)
    wait = _wait_now(context, connection, execution) if has_room else None
    return wait if wait is not None and not wait.may_be_granted else None


def _wait_now(context: Context, connection: Connection, execution: Execution) -> TokenWait:
    """What an execution would be told that asked now."""
    row = WaitingForTokens.of(execution)
    claim = claim_of_waiting(row)
    amounts = claim.amounts
    try:
        usage = context.tokens.usage(amounts, [execution_bucket(claim.place, claim.execution)])
    except TokensUnavailable:
        return wait_of(None, amounts, 0, 0)
    [terms] = token_pools.terms(connection, [claim])
    if terms.keys() != amounts.keys():
        return wait_of(Ledger({}, context.clock()).allocate(claim, terms), amounts, 0, 0)
    if standstill := next((used.reason for used in usage.values() if used.reason), ""):
        return wait_of(Exhausted(full=(), retry_seconds=0, reason=standstill), amounts, 0, 0)
    books = {pool: used.book() for pool, used in usage.items()}
    ledger = Ledger(books, context.clock(), steady_seconds=0)  # usage has left out what is over
    rooms = {pool: Room.of(own.capacity, books[pool].used) for pool, own in terms.items()}
    line = waiting_for(connection, usage)
    own = line.pop(claim.token, None) or as_waiter(row, weight_of(terms))
    others = list(line.values())
    place = place_in_line(own, others, rooms)
    answer = ledger.allocate(claim, terms)
    answer = _with_provenance(context, connection, _told(context.access, answer))
    return wait_of(answer, amounts, place, len(others) + 1)


def tokens_lacked(execution: Execution) -> str:
    """The tokens that a run has lost and not got again; "" where it holds what it needs."""
    if execution.phase != Phase.RUNNING.value or execution.token_pools is None or execution.token_number is not None:
        return ""
    return describe_amounts(read_amounts(execution.token_pools))


def _with_provenance(context: Context, connection: Connection, answer: Allocation) -> Allocation:
    """An answer that says of each quota that is full by whom it was set, when and why."""
    if not isinstance(answer, Exhausted):
        return answer
    versions = {full.limit.version for full in answer.full if full.limit.version is not None}
    made_by = told_provenance(context.access, connection, dict(revisions.provenance_of(connection, versions)))
    now = context.clock()

    def with_author(limit: Limit) -> Limit:
        provenance = None if limit.version is None else made_by.get(limit.version)
        if provenance is None:
            return limit
        origin = limit.origin.removesuffix(f", version {limit.version}")
        return limit._replace(origin=f"{origin} ({provenance.describe(now)})")

    return replace(answer, full=tuple(replace(full, limit=with_author(full.limit)) for full in answer.full))


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
