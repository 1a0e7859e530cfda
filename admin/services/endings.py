"""Endings: executions that somebody ends, or that end by themselves while they wait; one or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.attempts import aborted, phase_when_ended
from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import Condition
from admin.core.provenance import Actor
from admin.core.settings.scopes import Scope
from admin.metrics import count_finished
from admin.services.context import Context
from admin.services.execution_tokens import give_back_of_ended
from admin.services.executions import find_execution, matching_unfinished
from admin.store import executions
from admin.store.executions import Execution, ExecutionId, ListedExecution

#: The reason of an execution that somebody ended.
TERMINATED = "TERMINATED"


def terminate(context: Context, key: ExecutionId, cause: str | None, by: Actor) -> tuple[Execution, bool]:
    """End an execution; returns whether that changed anything: one that has ended stays as it is."""
    cause = cause or "Terminated without a cause."
    with context.database.writing() as connection:
        before = find_execution(context, connection, key, lock=True)
        is_changed = end(connection, before, Phase.ABORTED, TERMINATED, cause, by, context.clock())
        after = find_execution(context, connection, key)
        ended = [before] if is_changed and Phase(after.phase).is_finished else []
        pending = give_back_of_ended(context, connection, ended)
    context.tokens.finish(pending)
    if is_changed and Phase(after.phase).is_finished:
        count_finished(after, context.clock())
    return after, is_changed


class EndedMany(NamedTuple):
    """What became of executions that were to end, and whether more of them match than one request was to end."""

    executions: list[tuple[Execution | ListedExecution, bool]]
    more: bool


def terminate_many(
    context: Context,
    conditions: Iterable[Condition],
    cause: str | None,
    by: Actor,
    *,
    scope: Scope,
    dry_run: bool,
    limit: int | None = None,
) -> EndedMany:
    """End the unfinished executions that match, each in a transaction of its own; at most so many, the oldest first."""
    unfinished = matching_unfinished(context, conditions, scope)
    return end_first(unfinished, lambda key: terminate(context, key, cause, by), dry_run=dry_run, limit=limit)


def end_first(
    listed: Iterable[ListedExecution],
    end: Callable[[ExecutionId], tuple[Execution, bool]],
    *,
    dry_run: bool,
    limit: int | None,
) -> EndedMany:
    """End the first executions of a list; a dry run says which these are."""
    first, is_more = _first_of(listed, limit)
    return EndedMany([(each, True) if dry_run else end(each.key) for each in first], is_more)


def _first_of(listed: Iterable[ListedExecution], limit: int | None) -> tuple[list[ListedExecution], bool]:
    """The first executions, and whether there are more; all without a limit."""
    if limit is None:
        return list(listed), False
    first = list(islice(listed, limit + 1))
    return first[:limit], len(first) > limit


def end(
    connection: Connection,
    execution: Execution,
    phase: Phase,
    reason: str,
    message: str,
    by: Actor | None,
    now: datetime,
) -> bool:
    """End a locked execution, or have its agent end it; False where its phase does not allow that."""
    after = phase_when_ended(execution, phase, reason)
    if after is None:
        return False
    values: dict[str, object] = {"phase": after.value, "reason": reason, "reason_message": message}
    if after.is_finished:
        values |= {"finished_at": now, "lease_expires_at": None, "token_number": None}
    if after in (Phase.ABORTING, Phase.ABORTED):
        values |= aborted(message, by)
    executions.change(connection, execution, values, after.value, now, reason=reason, message=message, by=by)
    return True
