"""Silences: what is to be said of an execution whose cluster is silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from admin.core.executions.attempts import may_have_started
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST, DRAINED, Retries
from admin.core.executions.silences import Silence
from admin.core.fleet.clusters import Health
from admin.services.context import Context
from admin.store import clock_checks, fleet, reconciliations
from admin.store.executions import Execution
from admin.store.fleet import HeardCluster

_SILENT = (Health.UNREACHABLE.value, Health.LOST.value)


@dataclass(frozen=True, kw_only=True)
class SilenceView:
    """A silence, in values and in words."""

    since: datetime
    on_lost: str
    lease_expires_at: datetime | None
    next_at: datetime | None
    message: str


def view_silence(
    context: Context, connection: Connection, execution: Execution, heard: HeardCluster | None
) -> SilenceView | None:
    """What is to be said of an unfinished execution whose cluster is silent; None for any other.

    `heard` is when the agent of its cluster was heard last.
    """
    cluster = execution.cluster
    if cluster is None or Phase(execution.phase).is_finished:
        return None
    if heard is None or heard.last_sync_at is None:
        return None
    is_silent = heard.health in _SILENT
    since = heard.last_sync_at if is_silent else execution.silent_since
    if since is None:
        return None
    now = context.clock()
    silence = replace(_silence(context, execution, cluster, since), is_taken_over=not is_silent)
    return SilenceView(
        since=silence.since,
        on_lost=silence.on_lost,
        lease_expires_at=silence.lease_expires_at,
        next_at=silence.next_at,
        message=" ".join([silence.describe(now), *_suspensions(connection, now)]),
    )


def find_silence(context: Context, execution: Execution) -> SilenceView | None:
    """The same in a transaction of its own."""
    with context.database.reading() as connection:
        return view_silence(context, connection, execution, fleet.heard(connection).get(execution.cluster or ""))


def _suspensions(connection: Connection, now: datetime) -> Iterator[str]:
    """What keeps executions at silent clusters from being judged."""
    if reconciliations.load(connection).is_waiting:
        yield "Nothing is judged before the restored database is reconciled: `rainbowctl get reconciliation`."
    if not clock_checks.get(connection, now).trusts(now):
        yield "Nothing is given up while the clock is not trusted: `rainbowctl get clock`."


def _silence(context: Context, execution: Execution, cluster: str, since: datetime) -> Silence:
    agents = context.settings.agents
    retries = Retries.of(execution.content.get("retry"))
    is_aborting = execution.phase == Phase.ABORTING.value
    may_follow = not is_aborting or execution.reason == DRAINED
    next_attempt = retries.seconds_until_next(execution.attempt - execution.unstarted, CLUSTER_LOST)
    return Silence(
        cluster=cluster,
        since=since,
        on_lost=retries.on_lost,
        lease_expires_at=execution.lease_expires_at,
        lost_at=since + timedelta(seconds=agents.lost_seconds),
        given_up_at=since + timedelta(seconds=agents.give_up_seconds),
        has_started=may_have_started(execution),
        is_aborting=is_aborting,
        is_retried=next_attempt is not None and may_follow,
        command=f"rainbowctl delete execution {execution.key} --giveUp",
    )
