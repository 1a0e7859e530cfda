"""Small fleets for tests of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from admin.core.fleet.clusters import ClusterState
from admin.core.fleet.definitions import Definition, FleetKind, Source
from admin.core.fleet.documents import read_definition
from admin.core.fleet.fleet import CONSTRAINT, Fleet, build_fleet
from admin.core.placement.candidates import Workload
from admin.core.placement.decisions import Decision, decide
from admin.core.placement.routes import EVERYWHERE, REQUEST, Route, RouteKind, Rung
from admin.core.resources import Amounts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: The configuration that the proposal of pools gives as an example.
POOLS_SAMPLE = """
clusters:
  poolNameClusterMap:
    pool_1:
      - {id: flyte-1-k8s, weight: 1}
      - {id: flyte-2-k8s, weight: 2}
    pool_2:
      - {id: flyte-3-k8s, weight: 6}
      - {id: flyte-4-k8s, weight: 99}
  labelClusterMap:
    production:
      - {id: flyte-1-k8s, weight: 1}
  clusterConfigs:
    - name: flyte-1-k8s
      endpoint: 127.0.0.1
      enabled: true
      auth: {type: file_path, tokenPath: /etc/token, certPath: /etc/cert}
    - name: flyte-2-k8s
      endpoint: 127.0.0.2
      enabled: true
      auth: {type: file_path, tokenPath: /etc/token2, certPath: /etc/cert2}
"""


def definition(kind: FleetKind, name: str, payload: Mapping[str, Any]) -> Definition:
    normal = read_definition(kind, name, dict(payload))
    return Definition(kind=kind, name=name, payload=normal, source=Source.MANAGED, version=1)


def group(members: Mapping[str, float] | Iterable[str], **more: Any) -> dict[str, Any]:
    """The definition of a pool or a label."""
    weights = members if isinstance(members, Mapping) else dict.fromkeys(members, 1)
    return {"members": [{"id": name, "weight": weight} for name, weight in weights.items()], **more}


def small_fleet(
    *,
    clusters: Mapping[str, Mapping[str, Any]] | None = None,
    pools: Mapping[str, Mapping[str, Any]] | None = None,
    labels: Mapping[str, Mapping[str, Any]] | None = None,
    states: Mapping[str, Mapping[str, Any]] | None = None,
) -> Fleet:
    """A fleet; a state with a report counts as reported."""
    payloads = ((FleetKind.CLUSTER, clusters), (FleetKind.POOL, pools), (FleetKind.LABEL, labels))
    definitions = [
        definition(kind, name, payload) for kind, by_name in payloads for name, payload in (by_name or {}).items()
    ]
    cluster_states = {
        name: ClusterState(name=name, reported_at=NOW if "report" in state else None, **state)
        for name, state in (states or {}).items()
    }
    return build_fleet(1, definitions, cluster_states)


def pool_fleet(strategy: str, clusters: Mapping[str, Mapping[str, Any]], **states: Mapping[str, Any]) -> Fleet:
    """A fleet with one pool, 'p', of clusters in this order."""
    return small_fleet(clusters=clusters, pools={"p": group(list(clusters), **by_strategy(strategy))}, states=states)


def by_strategy(name: str) -> dict[str, Any]:
    """The fields of a pool with a strategy, and with rules where it needs some."""
    return {"strategy": name, **({"rules": [{"sort": "default(cost, 99)"}]} if name == CONSTRAINT else {})}


def reports(**report: Any) -> dict[str, Any]:
    """The state of a cluster that has reported."""
    return {"report": report}


def route(kind: RouteKind, name: str = "") -> Route:
    """A route that the request names; every cluster for ANY."""
    rung = EVERYWHERE if kind is RouteKind.ANY else REQUEST
    return Route(kind=kind, name=name, rungs=(Rung(rung=rung, kind=kind, name=name, is_set=True, state="wins"),))


def pool(name: str) -> Route:
    return route(RouteKind.POOL, name)


def decided(fleet: Fleet, to: Route, key: str = "p/d/e", waiting: Mapping[str, Amounts] | None = None) -> Decision:
    """A decision about a workload that takes one of a cluster's executions."""
    return decide(to, fleet, Workload(key=key, demand={"executions": 1}), waiting or {})
