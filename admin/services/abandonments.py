"""Abandonments: executions that are given up, because the cluster that may still run them is silent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import aborted, attempt_number, given_up, may_have_started
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST
from admin.core.executions.selectors import Condition
from admin.core.executions.silences import as_sentence, unconfirmed
from admin.core.fleet.clusters import SILENT
from admin.core.provenance import Actor
from admin.core.settings.scopes import Scope
from admin.core.times import show_time
from admin.errors import NotSilent
from admin.metrics import count_finished
from admin.services.context import Context
from admin.services.endings import EndedMany, end_first
from admin.services.execution_tokens import give_back_of_ended
from admin.services.executions import find_execution, get_execution, matching_unfinished
from admin.services.silences import was_silent_before_drain
from admin.store import executions, fleet
from admin.store.executions import Execution, ExecutionId, ListedExecution


def give_up(context: Context, key: ExecutionId, cause: str | None, by: Actor) -> tuple[Execution, bool]:
    """End an execution that may still run at a silent cluster; NotSilent where its agent can end it.

    Returns whether that changed anything: one that has ended stays as it is. If its agent returns, it ends the job.
    """
    now = context.clock()
    with context.database.writing() as connection:
        cluster = find_execution(context, connection, key).cluster or ""
        state = fleet.hold_state(connection, cluster)  # before the execution, as all locks are taken
        health = state.health
        before = find_execution(context, connection, key, lock=True)
        if before.cluster != cluster and not Phase(before.phase).is_finished:
            raise NotSilent(_refusal(before, health))
        phase = phase_when_given_up(before, health, now)
        if phase is None:
            return before, False
        since = before.silent_since or state.last_sync_at or now
        is_lost_first = was_silent_before_drain(context, connection, before, since)
        why = cause or "no cause was given"
        message = f"Given up by {by}: {why}"
        details = {"reason": CLUSTER_LOST, "message": message}
        values = _ended(before, phase, message, now) | given_up(by)
        if is_lost_first:
            values |= {"reason": CLUSTER_LOST}
        if is_lost_first or phase is Phase.FAILED:  # one that somebody had ended before stays ended by them
            values |= aborted(f"Given up: {why}", by)
        record = AttemptRecord(
            number=before.attempt,
            attempt_number=attempt_number(before),
            outcome=phase.value,
            reason=before.reason if phase is Phase.ABORTED and not is_lost_first else CLUSTER_LOST,
            native_id=before.native_id,
            started_at=before.started_at,
            unconfirmed=may_have_started(before) or None,
            silent_since=(before.silent_since or state.last_sync_at) if may_have_started(before) else None,
        )
        executions.change(connection, before, values, "GIVEN_UP", now, attempt=record, by=by, **details)
        pending = give_back_of_ended(context, connection, [before])
        after = find_execution(context, connection, key)
    context.tokens.finish(pending)
    count_finished(after, now)
    return after, True


def phase_when_given_up(execution: Execution, health: str, now: datetime) -> Phase | None:
    """The phase of an execution that is given up, at a cluster of some health; None for one that has ended.

    NotSilent where its agent can end it.
    """
    if Phase(execution.phase).is_finished:
        return None
    if not _is_silent(execution, health, now):
        raise NotSilent(_refusal(execution, health))
    return Phase.ABORTED if execution.phase == Phase.ABORTING.value else Phase.FAILED


def give_up_many(
    context: Context,
    conditions: Iterable[Condition],
    cause: str | None,
    by: Actor,
    *,
    scope: Scope,
    dry_run: bool,
    limit: int | None = None,
) -> EndedMany:
    """Give up the executions that match and can be given up, each in a transaction of its own; at most so many."""
    now = context.clock()
    with context.database.reading() as connection:
        health = {name: cluster.health for name, cluster in fleet.heard(connection).items()}
    silent = (
        execution
        for execution in matching_unfinished(context, conditions, scope)
        if _is_silent(execution, health.get(execution.cluster or ""), now)
    )
    return end_first(silent, lambda key: _give_up_if_silent(context, key, cause, by), dry_run=dry_run, limit=limit)


def _give_up_if_silent(context: Context, key: ExecutionId, cause: str | None, by: Actor) -> tuple[Execution, bool]:
    try:
        return give_up(context, key, cause, by)
    except NotSilent:  # its agent was heard meanwhile
        return get_execution(context, key), False


def _is_silent(execution: Execution | ListedExecution, health: str | None, now: datetime) -> bool:
    """Whether an execution's lease is over, at a cluster that is not heard, or whose agent is another one now."""
    is_over = execution.lease_expires_at is not None and execution.lease_expires_at <= now
    is_unheard = health in SILENT or execution.silent_since is not None
    return is_over and is_unheard


def _refusal(execution: Execution, health: str) -> str:
    until = execution.lease_expires_at
    if until is None:
        reason = "no agent has it"
    elif health in SILENT:
        reason = f"cluster '{execution.cluster}' is {health}, but its agent has a lease until {show_time(until)}"
    else:
        reason = f"cluster '{execution.cluster}' is {health}, and its agent can end it"
    is_being_ended = execution.phase == Phase.ABORTING.value
    remedy = f"End it with `rainbowctl delete execution {execution.name}`, without --giveUp."
    if until is not None and health in SILENT:
        remedy = (
            "Give it up when that is over." if is_being_ended else f"{remedy[:-1]}, or give it up when that is over."
        )
    elif is_being_ended:
        remedy = "It is being ended already."
    return f"Execution '{execution.name}' cannot be given up: {reason}. {remedy}"


def _ended(execution: Execution, phase: Phase, message: str, now: datetime) -> dict[str, object]:
    """The new values of an execution that is given up."""
    heard_until, started_at = execution.silent_since or now, execution.started_at
    values: dict[str, object] = {
        "phase": phase.value,
        "finished_at": now,
        "duration": max(0.0, (heard_until - started_at).total_seconds()) if started_at else None,
        "lease_expires_at": None,
        "token_number": None,
        "silent_since": None,
        "unconfirmed": may_have_started(execution),
    }
    tell = unconfirmed if may_have_started(execution) else as_sentence
    if phase is Phase.ABORTED:
        return values | {"reason_message": f"{tell(execution.reason_message)} {message}"}
    return values | {"reason": CLUSTER_LOST, "reason_message": tell(message)}
