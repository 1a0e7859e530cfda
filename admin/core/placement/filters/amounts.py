"""Filters by the amounts that a job demands: whether a cluster is large enough, and whether it has room now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Drops, Filter
from admin.core.placement.workloads import Workload
from admin.core.resources import Amounts, format_amount, shortages


def _too_small(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    demand = workload.demand
    return {
        candidate.position: f"is too small: {_compare(short, demand, capacity, 'it has')}"
        for candidate in candidates
        if (capacity := candidate.cluster.capacity) and (short := shortages(capacity, demand))
    }


def _full(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    demand = workload.demand
    return {
        candidate.position: f"is full: {_compare(short, demand, free, 'free are')}"
        for candidate in candidates
        if (free := candidate.free) and (short := shortages(free, demand))
    }


def _compare(resources: Iterable[str], demand: Amounts, amounts: Amounts, verb: str) -> str:
    return ", ".join(
        f"{format_amount(resource, demand[resource])} {resource} wanted, "
        f"{verb} {format_amount(resource, amounts[resource])}"
        for resource in resources
    )


LARGE_ENOUGH = Filter(
    name="large-enough",
    question="Is its capacity at least what the job demands?",
    code="CLUSTERS_TOO_SMALL",
    drop=_too_small,
    is_permanent=True,
)
ROOM = Filter(
    name="room",
    question="Is what it has free now at least what the job demands?",
    code="CLUSTERS_FULL",
    drop=_full,
)
