"""Filters by a cluster's weight and state, whatever the job is."""

from __future__ import annotations

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Filter
from admin.core.placement.workloads import Workload


def _weightless(candidate: Candidate, _: Workload) -> str:
    return "" if candidate.weight > 0 else "has weight 0"


def _disabled(candidate: Candidate, _: Workload) -> str:
    return "" if candidate.cluster.enabled else "is disabled"


def _cordoned(candidate: Candidate, _: Workload) -> str:
    state = candidate.cluster.state
    if not state.cordoned:
        return ""
    status = "is draining" if state.draining else "is cordoned"
    return f"{status} ({state.cordon_reason})" if state.cordon_reason else status


def _unreachable(candidate: Candidate, _: Workload) -> str:
    cluster = candidate.cluster
    if not cluster.state.admitted:
        return "waits to be admitted"
    return "" if cluster.is_reachable else f"is {cluster.health.value}"


WEIGHT = Filter(
    name="weight",
    question="Does the pool or label give it a weight above 0?",
    code="NO_CLUSTERS",
    reason=_weightless,
)
ENABLED = Filter(
    name="enabled",
    question="Does it take part in the fleet?",
    code="CLUSTERS_DISABLED",
    reason=_disabled,
)
CORDONED = Filter(
    name="cordoned",
    question="Does it take new work, neither cordoned nor draining?",
    code="CLUSTERS_CORDONED",
    reason=_cordoned,
)
REACHABLE = Filter(
    name="reachable",
    question="Is it admitted, and has its agent synced lately or never yet?",
    code="CLUSTERS_UNREACHABLE",
    reason=_unreachable,
)
