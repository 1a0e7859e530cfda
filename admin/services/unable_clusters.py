"""Unable clusters: why no cluster of a route would take something, with who is behind each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.definitions import Source
from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload
from admin.core.placement.filters import DECLINED, USE, WAS_DELETED, Verdict
from admin.core.placement.obstacles import (
    MOST_NAMED,
    describe_decline,
    describe_drop,
    describe_triggers,
    describe_unable,
    find_failures,
    switched_state,
)
from admin.core.placement.routes import Route
from admin.core.resources import Amounts
from admin.services.cluster_provenance import defined_by
from admin.services.context import Context
from admin.services.deletions import deleted_cluster
from admin.store import cluster_events


class Obstacles(NamedTuple):
    """Why no cluster would take an execution."""

    message: str
    triggers: str  #: when it is decided again


def explain_unable(
    context: Context,
    connection: Connection,
    route: Route,
    fleet: Fleet,
    workload: Workload,
    waiting: Mapping[str, Amounts] | None,
    declines: Mapping[str, str] | None = None,
    *,
    assumed: Collection[str] = (),
) -> Obstacles | None:
    """Why no cluster of a route in a fleet would take a workload, with who is behind it; None where one would.

    `waiting` is as `find_failures` takes it. Nobody is behind the states of clusters that are only `assumed`.
    """
    failures, why_declined = find_failures(route, fleet, workload, waiting), declines or {}
    if not failures:
        return None
    obstacles = {name: failed[0] for name, failed in failures.items()}
    named = [name for name, verdict in obstacles.items() if verdict.filter != USE.name][:MOST_NAMED]
    for name in named:
        verdict = obstacles[name]
        if name not in assumed:
            verdict = with_provenance(context, connection, fleet.clusters[name], verdict)
        if verdict.filter == DECLINED.name:
            verdict = replace(verdict, reason=describe_decline(verdict.reason, why_declined.get(name)))
        obstacles[name] = verdict
    return Obstacles(describe_unable(route, obstacles), describe_triggers(failures))


def with_provenance(context: Context, connection: Connection, cluster: Cluster, obstacle: Verdict) -> Verdict:
    """Why a cluster does not pass a filter, with the event or revision by which that is so."""
    now, name, switched = context.clock(), cluster.name, switched_state(obstacle)
    if switched is not None:
        by = cluster_events.switched_by(connection, {switched: [name]}, now).get((name, switched))
        if by is None and switched == "disabled" and cluster.definition.version:
            by = defined_by(connection, [cluster.definition]).get(cluster.definition.version)
        return replace(obstacle, reason=describe_drop(obstacle.reason, by, now, is_told=context.access.sees_fleet()))
    is_named = cluster.definition.source is Source.NAMED and context.access.sees_fleet()
    deleted = deleted_cluster(connection, name) if is_named else None
    if deleted is None:
        return obstacle
    reason = WAS_DELETED if obstacle.reason == WAS_DELETED else f"{obstacle.reason}, deleted"
    return replace(obstacle, reason=f"{reason} by {deleted.describe(now)}")
