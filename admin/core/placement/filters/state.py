"""Filters by a cluster's weight and state, whatever the job is."""

from __future__ import annotations

from collections.abc import Sequence

from admin.core.fleet.clusters import Cluster, ClusterState
from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Drops, Filter
from admin.core.placement.workloads import Workload


def _weightless(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {candidate.position: "has weight 0" for candidate in candidates if not candidate.weight > 0}


def _disabled(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {candidate.position: "is disabled" for candidate in candidates if not candidate.cluster.enabled}


def _cordoned(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {
        candidate.position: _cordon(candidate.cluster.state)
        for candidate in candidates
        if candidate.cluster.state.cordoned
    }


def _cordon(state: ClusterState) -> str:
    status = "is draining" if state.draining else "is cordoned"
    return f"{status} ({state.cordon_reason})" if state.cordon_reason else status


def _unreachable(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {
        candidate.position: _silence(candidate.cluster)
        for candidate in candidates
        if not candidate.cluster.is_reachable or not candidate.cluster.state.admitted
    }


def _silence(cluster: Cluster) -> str:
    return f"is {cluster.health.value}" if cluster.state.admitted else "waits to be admitted"


WEIGHT = Filter(
    name="weight",
    question="Does the pool or label give it a weight above 0?",
    code="NO_CLUSTERS",
    drop=_weightless,
)
ENABLED = Filter(
    name="enabled",
    question="Does it take part in the fleet?",
    code="CLUSTERS_DISABLED",
    drop=_disabled,
)
CORDONED = Filter(
    name="cordoned",
    question="Does it take new work, neither cordoned nor draining?",
    code="CLUSTERS_CORDONED",
    drop=_cordoned,
)
REACHABLE = Filter(
    name="reachable",
    question="Is it admitted, and has its agent synced lately or never yet?",
    code="CLUSTERS_UNREACHABLE",
    drop=_unreachable,
)
