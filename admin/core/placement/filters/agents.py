"""Filters by what a cluster's agent offers and has declined."""

from __future__ import annotations

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Filter
from admin.core.placement.workloads import Workload


def _missing_plugin(candidate: Candidate, workload: Workload) -> str:
    offered = candidate.cluster.plugins if workload.plugins else None
    if offered is None or set(offered) & set(workload.plugins):
        return ""
    return f"offers none of the plugins {', '.join(workload.plugins)}"


def _declined(candidate: Candidate, workload: Workload) -> str:
    return "declined it" if candidate.cluster.name in workload.declined else ""


PLUGINS = Filter(
    name="plugins",
    question="Does its agent offer one of the plugins that the job needs?",
    code="PLUGIN_MISSING",
    reason=_missing_plugin,
)
DECLINED = Filter(
    name="declined",
    question="Has its agent not declined this execution before?",
    code="CLUSTERS_DECLINED",
    reason=_declined,
)
