"""Filters by the amounts that a job demands: whether a cluster is large enough, and whether it has room now."""

from __future__ import annotations

from collections.abc import Iterable

from admin.core.placement.candidates import Candidate
from admin.core.placement.filters.base import Filter
from admin.core.placement.workloads import Workload
from admin.core.resources import Amounts, format_amount, shortages


def _too_small(candidate: Candidate, workload: Workload) -> str:
    capacity = candidate.cluster.capacity
    short = shortages(capacity, workload.demand) if capacity else ()
    return f"is too small: {_compare(short, workload.demand, capacity or {}, 'it has')}" if short else ""


def _full(candidate: Candidate, workload: Workload) -> str:
    free = candidate.free
    short = shortages(free, workload.demand) if free else ()
    return f"is full: {_compare(short, workload.demand, free or {}, 'free are')}" if short else ""


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
    reason=_too_small,
    is_permanent=True,
)
ROOM = Filter(
    name="room",
    question="Is what it has free now at least what the job demands?",
    code="CLUSTERS_FULL",
    reason=_full,
)
