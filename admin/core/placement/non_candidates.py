"""Non-candidates: the clusters of the fleet that a route does not lead to, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import Candidate, Workload, group_of
from admin.core.placement.decisions import describe_drop
from admin.core.placement.filters import CORDONED, ENABLED
from admin.core.placement.routes import Route, RouteKind
from admin.core.provenance import Provenance

#: The filters that are asked here look at clusters alone.
_ANY_WORKLOAD = Workload(key="")
#: Of each cluster, by which event or revision it came to its states.
StatesByCluster = Mapping[str, Mapping[str, Provenance]]


def switched_off(fleet: Fleet, candidates: Collection[str]) -> list[Cluster]:
    """The clusters that are no candidates and that operators keep from getting work."""
    clusters = (cluster for name, cluster in fleet.clusters.items() if name not in candidates)
    return [cluster for cluster in clusters if not cluster.enabled or cluster.state.cordoned]


def render_non_candidates(
    route: Route,
    fleet: Fleet,
    candidates: Collection[str],
    states: StatesByCluster,
    defined_by: Provenance | None,
    now: datetime,
) -> list[JsonObject]:
    """The clusters of a fleet that were no candidates of a route, those first that operators have switched off.

    `states` are of `switched_off`; `defined_by` is the revision of the route's pool or label.
    """
    group = group_of(route, fleet)
    members = {member.cluster for member in group.members} if group else set()
    entries = []
    for name, cluster in fleet.clusters.items():
        if name not in candidates:
            switches = list(_switches(cluster, states.get(name, {})))
            reasons = [*switches, (_absence(route, is_member=name in members), defined_by)]
            origin = next((provenance for _, provenance in reasons if provenance is not None), None)
            entry = {"cluster": name, "why_not": "; ".join(describe_drop(*reason, now) for reason in reasons)}
            entries.append((not switches, entry if origin is None else entry | {"provenance": origin.as_json()}))
    entries.sort(key=lambda entry: entry[0])
    return [entry for _, entry in entries]


def _switches(cluster: Cluster, states: Mapping[str, Provenance]) -> Iterator[tuple[str, Provenance | None]]:
    """What operators have made of a cluster, and by which event or revision."""
    candidate = Candidate(cluster, 1, 0, None)
    for filter_, state in ((ENABLED, "disabled"), (CORDONED, "cordoned")):
        for reason in filter_.drop((candidate,), _ANY_WORKLOAD).values():
            yield reason, states.get(state)


def _absence(route: Route, *, is_member: bool) -> str:
    """Why a route does not lead to a cluster."""
    if is_member:
        return f"came into {route} after this was decided"
    match route.kind:
        case RouteKind.LABEL:
            return f"does not carry {route}"
        case RouteKind.CLUSTER:
            return f"is not {route}, which the request names"
    return f"is not in {route}"
