"""Statuses: where an execution stands now, from all that is known of it and of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import time_limit_ends_at
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import Retries
from admin.core.executions.statuses import Circumstances, Status, describe_limit
from admin.core.fleet.clusters import build_cluster
from admin.core.placement.decisions import describe_drop, obstacle_at, switched_state
from admin.core.placement.filters import Verdict
from admin.core.placement.routes import describe_rungs
from admin.core.provenance import Provenance
from admin.services.context import Context
from admin.services.decision_views import workload_of
from admin.services.definitions import current_fleet
from admin.services.silences import SilenceView
from admin.store import fleet, statuses
from admin.store.executions import Execution
from admin.store.fleet import HeardCluster


@dataclass(frozen=True, kw_only=True)
class LeaseView:
    """The lease of an execution, and when the agent that has it was heard."""

    expires_at: datetime
    confirmed: bool  #: the agent is known to have it, and may have started it
    heard_at: datetime | None  #: None where nothing was ever heard of its cluster
    health: str | None  #: of its cluster


def view_lease(execution: Execution, heard: HeardCluster | None) -> LeaseView | None:
    """The lease of an execution; None where no agent has one."""
    if execution.lease_expires_at is None:
        return None
    return LeaseView(
        expires_at=execution.lease_expires_at,
        confirmed=execution.confirmed,
        # Of the agent that has it, where another one serves the cluster now.
        heard_at=execution.silent_since or (heard and heard.last_sync_at),
        health=heard and heard.health,
    )


def view_status(
    context: Context,
    connection: Connection,
    execution: Execution,
    settings_trail: Mapping[str, Any],
    provenance: Mapping[int, Provenance],
    silence: SilenceView | None,
) -> Status:
    """Where an execution stands, by the trail of the settings that it was decided by and its cluster's silence.

    `provenance` has the revisions of those settings.
    """
    now = context.clock()
    phase = Phase(execution.phase)
    is_in_line = phase is Phase.QUEUED and execution.cluster is not None and execution.lease_expires_at is None
    circumstances = Circumstances(
        phase=phase,
        since=statuses.phase_began_at(connection, execution),
        reason=execution.reason,
        reason_message=execution.reason_message,
        cluster=execution.cluster,
        attempt=max(1, execution.attempt - execution.unstarted),
        attempts=Retries.of(execution.content.get("retry")).attempts,
        failure=None if execution.last_failure is None else AttemptRecord.from_json(execution.last_failure),
        route=describe_rungs(settings_trail["rungs"]),
        limit=describe_limit(
            execution.reason,
            execution.content["job"],
            execution.request["spec"].get("job"),
            settings_trail["settings"],
            provenance,
            now,
        ),
        duration=execution.duration,
        has_started=execution.started_at is not None,
        position=statuses.place_in_line(connection, execution, now) if is_in_line else None,
        obstacle=_obstacle(context, connection, execution) if is_in_line else None,
        not_before=execution.not_before,
        queue_deadline=execution.queue_deadline,
        ends_at=time_limit_ends_at(execution.started_at, execution.content),
        aborted_by=execution.abort_principal,
        silence=None if silence is None else silence.message,
        judged_at=None if silence is None else silence.next_at,
    )
    return circumstances.status(now)


def _obstacle(context: Context, connection: Connection, execution: Execution) -> Verdict | None:
    """Why the cluster at which an execution waits would not take it now."""
    cluster = current_fleet(context, connection).clusters.get(execution.cluster or "")
    if cluster is None:
        return Verdict("", False, "is gone from the fleet")
    # Its last report may be newer than the fleet: one of load alone is no new generation.
    state = fleet.states(connection).get(cluster.name, cluster.state)
    obstacle = obstacle_at(build_cluster(cluster.definition, state), workload_of(execution))
    switched = None if obstacle is None else switched_state(obstacle)
    if obstacle is None or switched is None:
        return obstacle
    now = context.clock()
    event = fleet.switched_by(connection, {switched: [cluster.name]}, now).get((cluster.name, switched))
    return replace(obstacle, reason=describe_drop(obstacle.reason, event, now))
