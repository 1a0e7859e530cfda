"""Non-candidates: the clusters of the fleet that a route does not lead to, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import Candidate, Workload, group_of
from admin.core.placement.filters import CORDONED, ENABLED, REACHABLE, describe_expected
from admin.core.placement.obstacles import describe_drop
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Provenance
from admin.core.use_grants import UsableClusters

#: The filters that are asked here look at clusters alone.
_ANY_WORKLOAD = Workload(key="")
#: Of each cluster, the event or revision that set each of its states.
StatesByCluster = Mapping[str, Mapping[str, Provenance]]


def switched_off(fleet: Fleet, candidates: Collection[str]) -> list[Cluster]:
    """The clusters that are no candidates and that operators keep from getting work."""
    clusters = (cluster for name, cluster in fleet.clusters.items() if name not in candidates)
    return [cluster for cluster in clusters if not cluster.enabled or cluster.state.cordoned]


@dataclass(frozen=True, kw_only=True)
class GroupHistory:
    """The revisions that last changed a route's pool or label; None and empty where unknown."""

    defined_by: Provenance | None = None
    deleted_by: Provenance | None = None
    changed_by: Mapping[str, Provenance] = field(default_factory=dict)  #: by cluster: its last coming or leaving


def render_non_candidates(
    route: Route,
    fleet: Fleet,
    candidates: Collection[str],
    states: StatesByCluster,
    history: GroupHistory,
    now: datetime,
    usable: UsableClusters | None = None,
) -> list[JsonObject]:
    """The clusters of a fleet that were no candidates of a route, those first that get no work anyway.

    `states` are of `switched_off`; `usable` are the clusters that the creator may use, None for all.
    """
    group = group_of(route, fleet)
    members = {member.cluster for member in group.members} if group else set()
    entries = []
    for name, cluster in fleet.clusters.items():
        if name not in candidates:
            switches = list(_switches(cluster, states.get(name, {})))
            absence, by = _absence(route, name, history, is_member=name in members, is_gone=group is None)
            unseen = [(describe_expected(cluster), None)] if cluster.awaits_agent else []
            forbidden = [(usable.reason, None)] if usable is not None and name not in usable.clusters else []
            reasons = [*switches, *forbidden, (absence, by), *unseen]
            origin = next((provenance for _, provenance in reasons if provenance is not None), None)
            entry = {
                "cluster": name,
                **({"expected": True} if unseen else {}),
                "why_not": "; ".join(describe_drop(*reason, now) for reason in reasons),
                "reasons": [_render_reason(*reason) for reason in reasons],
            }
            entries.append((not switches, entry if origin is None else entry | {"provenance": origin.as_json()}))
    entries.sort(key=lambda entry: entry[0])
    return [entry for _, entry in entries]


def _render_reason(reason: str, by: Provenance | None) -> JsonObject:
    return {"reason": reason} if by is None else {"reason": reason, "provenance": by.as_json()}


def _switches(cluster: Cluster, states: Mapping[str, Provenance]) -> Iterator[tuple[str, Provenance | None]]:
    """What keeps a cluster from getting any work, and by which event or revision where an operator did it."""
    candidate = Candidate(cluster, 1, 0, None)
    for filter_, state in ((ENABLED, "disabled"), (CORDONED, "cordoned"), (REACHABLE, "silent")):
        for reason in filter_.drop((candidate,), _ANY_WORKLOAD).values():
            yield reason, states.get(state)


def _absence(
    route: Route, cluster: str, history: GroupHistory, *, is_member: bool, is_gone: bool
) -> tuple[str, Provenance | None]:
    """Why a route does not lead to a cluster, and by which revision."""
    changed_by = history.changed_by.get(cluster)
    if route.kind is RouteKind.CLUSTER:
        return f"is not {route}, which the request names", None
    if is_gone:
        return f"{route} is gone from the fleet", history.deleted_by
    if is_member:
        return f"came into {route} after this was decided", changed_by or history.defined_by
    if changed_by is not None:
        return f"left {route}", changed_by
    verb = "does not carry" if route.kind is RouteKind.LABEL else "is not in"
    return f"{verb} {route} as defined", history.defined_by
