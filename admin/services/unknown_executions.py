"""Executions that are not there: whether they may have been pruned, and which are called nearly so."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from admin.core.problems import closest, did_you_mean, shorten
from admin.core.times import show_time
from admin.errors import ExecutionNotFound
from admin.services.context import Context
from admin.store import executions, pruned_executions, retention
from admin.store.executions import ExecutionId


def execution_not_found(context: Context, connection: Connection, key: ExecutionId) -> ExecutionNotFound:
    """The error for an execution that is not there: whether it may have been pruned, and the closest names."""
    near = closest(key.name, executions.names_like(connection, key))
    detail = {"field": "name", "reason": "is unknown.", "closest": list(near)}
    cutoff = retention.cutoffs(connection).executions
    gone = _describe_pruning(context, connection, key, cutoff)
    return ExecutionNotFound(
        f"No execution is called '{shorten(key.name)}' in {key.project}/{key.domain}. {gone}"
        f"{did_you_mean(near)} `rainbowctl get execution -p {key.project} -d {key.domain}` lists them.",
        details=[{**detail, "may_be_pruned": True} if cutoff is not None else detail],
    )


def _describe_pruning(context: Context, connection: Connection, key: ExecutionId, cutoff: datetime | None) -> str:
    """Which executions are gone, in sentences."""
    age = context.settings.retention.executions
    if cutoff is None:
        kept = f" Executions are kept for {age} after their end." if age else ""
        return f"None was pruned so far: there never was one of that name.{kept}"
    due = context.settings.retention.cutoffs(context.clock()).executions
    # Nothing but a run of `rainbow-admin prune` with an age of its own deletes what is not due yet.
    is_by_hand = due is None or cutoff > due
    how = "by `rainbow-admin prune`" if is_by_hand else f"(retention.executions: {age})"
    kept = f" Others are kept for {age} after their end." if age and is_by_hand else ""
    place = _describe_place(connection, key)
    return f"Executions that ended before {show_time(cutoff)} were pruned {how}. {place}{kept}"


def _describe_place(connection: Connection, key: ExecutionId) -> str:
    """How many of its project and domain are known to be among them; an admin of before counts none that it prunes."""
    place = f"{key.project}/{key.domain}"
    counted = pruned_executions.of(connection, key.project, key.domain)
    are_all_counted = pruned_executions.are_all_counted(connection)
    if counted is None:
        though = f", though none that was counted is of {place}" if are_all_counted else ""
        return f"It may be one of them{though}."
    total = f"{counted.total:,}" if are_all_counted else f"at least {counted.total:,}"
    ended = f"between {show_time(counted.first_ended_at)} and {show_time(counted.last_ended_at)}"
    return f"It may be one of them: {total} of {place}, which ended {ended}."
