"""Executions that are not there: whether they may have been pruned, and which are called nearly so."""

from __future__ import annotations

from typing import NamedTuple

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
    gone = _describe_pruning(context, connection, key)
    return ExecutionNotFound(
        f"No execution is called '{shorten(key.name)}' in {key.project}/{key.domain}. {gone.sentences}"
        f"{did_you_mean(near)} `rainbowctl get execution -p {key.project} -d {key.domain}` lists them.",
        details=[{**detail, "may_be_pruned": True} if gone.may_be_pruned else detail],
    )


class _Gone(NamedTuple):
    """Which executions are gone, in sentences, and whether an unknown one may be among them."""

    sentences: str
    may_be_pruned: bool


def _describe_pruning(context: Context, connection: Connection, key: ExecutionId) -> _Gone:
    age = context.settings.retention.executions
    cutoff = retention.cutoffs(connection).executions
    if cutoff is None:
        kept = f" Executions are kept for {age} after their end." if age else ""
        return _Gone(f"None was pruned so far: there never was one of that name.{kept}", may_be_pruned=False)
    due = context.settings.retention.cutoffs(context.clock()).executions
    # Nothing but a run of `rainbow-admin prune` with an age of its own deletes what is not due yet.
    is_by_hand = due is None or cutoff > due
    how = "by `rainbow-admin prune`" if is_by_hand else f"(retention.executions: {age})"
    kept = f" Others are kept for {age} after their end." if age and is_by_hand else ""
    there = _describe_place(connection, key)
    pruned = f"Executions that ended before {show_time(cutoff)} were pruned {how}."
    return _Gone(f"{pruned} {there.sentences}{kept}", there.may_be_pruned)


def _describe_place(connection: Connection, key: ExecutionId) -> _Gone:
    """The same by how many of its project and domain are known to be among the pruned."""
    place = f"{key.project}/{key.domain}"
    counted = pruned_executions.of(connection, key.project, key.domain)
    are_all_counted = pruned_executions.are_all_counted(connection)
    if counted is None and are_all_counted:
        none = f"None of {place} was counted among them, so there was most likely never one of that name."
        return _Gone(none, may_be_pruned=False)
    if counted is None:
        return _Gone("It may be one of them.", may_be_pruned=True)
    total = f"{counted.total:,}" if are_all_counted else f"at least {counted.total:,}"
    ended = f"between {show_time(counted.first_ended_at)} and {show_time(counted.last_ended_at)}"
    return _Gone(f"It may be one of them: {total} of {place}, which ended {ended}.", may_be_pruned=True)
