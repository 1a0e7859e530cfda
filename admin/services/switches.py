"""Switches: what operators do to clusters, or what that would do to executions; all clusters at once, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster, ClusterState
from admin.core.fleet.switches import BY_WORD, Switch, SwitchRequest, describe_end
from admin.core.provenance import NOBODY, Actor, Provenance
from admin.services.context import Context
from admin.services.fleet import ClusterView, find_clusters, view_clusters
from admin.services.previews import ExecutionPreview, notes_of_silent_clusters, preview_switches
from admin.store import cluster_events, fleet
from admin.store.cluster_events import ClusterEvent


@dataclass(frozen=True, kw_only=True)
class SwitchedCluster:
    """A cluster that was switched, or would be."""

    cluster: ClusterView
    is_change: bool
    also_ended: Mapping[str, Provenance]  #: states that the switch ends beside its own, by the events that began them


class Switched(NamedTuple):
    """Clusters that were switched together, or would be."""

    clusters: Sequence[SwitchedCluster]
    notes: Sequence[str]  #: what else the switch ends, and which of the clusters are silent
    preview: ExecutionPreview | None = None  #: of a dry run


def switch_clusters(
    context: Context,
    word: str,
    names: Iterable[str],
    *,
    reason: str | None = None,
    by: Actor = NOBODY,
    request_id: str | None = None,
    deadline: datetime | None = None,
    dry_run: bool = False,
) -> Switched:
    """Do one of `core.fleet.switches.BY_WORD` to clusters, or say what that would do; to all, or to none."""
    switch, request = BY_WORD[word], SwitchRequest(reason=reason, deadline=deadline)
    switched = list(dict.fromkeys(names))
    preview = None
    with context.database.transaction(dry_run=dry_run) as connection:
        if not dry_run:
            fleet.lock(connection)
        clusters = find_clusters(context, connection, switched)
        held = {name: cluster.state for name, cluster in clusters.items()}
        held |= fleet.states(connection, switched) if dry_run else fleet.hold_states(connection, sorted(switched))
        changed = _new_states(switch, request, clusters, held)
        also_ended = _also_ended(context, connection, switch, [held[name] for name in changed])
        if dry_run:
            # Of a drain that goes on it is shown what it still waits for.
            draining = [state for name, state in held.items() if word == "drain" and name not in changed]
            states = [*changed.values(), *draining]
            preview = preview_switches(context, connection, states) if states else ExecutionPreview()
        else:
            event = ClusterEvent(at=context.clock(), type=switch.event, reason=reason, request_id=request_id).by(by)
            event = replace(event, deadline=deadline if switch is BY_WORD["drain"] else None)
            events = [replace(event, cluster=name) for name in changed]
            fleet.save_switched(connection, changed.values(), events)
    now = context.clock()
    silent = [cluster for name in changed if (cluster := replace(clusters[name], state=held[name])).is_silent]
    return Switched(
        clusters=[
            SwitchedCluster(
                cluster=view,
                is_change=view.cluster.name in changed,
                also_ended=also_ended.get(view.cluster.name, {}),
            )
            for view in view_clusters(context, clusters.values())
        ],
        notes=[
            *(
                describe_end(name, state, event.describe(now), dry_run=dry_run)
                for name, ended in also_ended.items()
                for state, event in ended.items()
            ),
            *([] if dry_run else notes_of_silent_clusters(silent)),  # those of a dry run are in its preview
        ],
        preview=preview,
    )


def _new_states(
    switch: Switch, request: SwitchRequest, clusters: Mapping[str, Cluster], held: Mapping[str, ClusterState]
) -> dict[str, ClusterState]:
    """The states of the clusters that a switch changes, computed from the stored ones."""
    states = {name: switch.new_state(replace(cluster, state=held[name]), request) for name, cluster in clusters.items()}
    return {name: state for name, state in states.items() if state is not None}


def _also_ended(
    context: Context, connection: Connection, switch: Switch, before: Sequence[ClusterState]
) -> dict[str, dict[str, Provenance]]:
    """The other states of clusters that a switch ends, each with the event of its own that began it."""
    in_state = {state: [held.name for held in before if getattr(held, state)] for state in switch.ends[1:]}
    begun = cluster_events.begun_apart(connection, in_state, context.clock())
    ended: dict[str, dict[str, Provenance]] = {held.name: {} for held in before}
    for (name, state), event in begun.items():
        ended[name][state] = event
    return ended
