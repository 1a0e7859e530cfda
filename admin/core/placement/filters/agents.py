"""Filters by what a cluster's agent offers and has declined."""

from __future__ import annotations

from collections.abc import Sequence

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Drops, Filter
from admin.core.placement.workloads import Workload


def _missing_plugin(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    if not workload.plugins:
        return {}
    reason = f"offers none of the plugins {', '.join(workload.plugins)}"
    return {
        candidate.position: reason
        for candidate in candidates
        if (offered := candidate.cluster.plugins) is not None and not set(offered) & set(workload.plugins)
    }


def _declined(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    if not workload.declined:
        return {}
    return {
        candidate.position: "declined it" for candidate in candidates if candidate.cluster.name in workload.declined
    }


PLUGINS = Filter(
    name="plugins",
    question="Does its agent offer one of the plugins that the job needs?",
    code="PLUGIN_MISSING",
    drop=_missing_plugin,
)
DECLINED = Filter(
    name="declined",
    question="Has its agent not declined this execution before?",
    code="CLUSTERS_DECLINED",
    drop=_declined,
)
