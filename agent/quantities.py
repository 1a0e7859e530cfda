"""Quantities as jobs write them: `500m` of cpu, `1.5Gi` of memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ctl.client.quantities import parse_quantity


def per_task(job: Mapping[str, Any], resource: str, part: str = "requests") -> Fraction | None:
    """What each task of a job requests of cpu, memory, gpu or ephemeral_storage; None if the job does not say."""
    quantity = (job.get("resources", {}).get(part) or {}).get(resource)
    return None if quantity is None else parse_quantity(quantity)


def count(job: Mapping[str, Any], part: str) -> int:
    """How many nodes or tasks a job has."""
    return int(job.get("resources", {}).get(part, 1))


def tasks_on_node(job: Mapping[str, Any]) -> int:
    """The most tasks of a job that one node may have, so that they are on as many nodes as the job wants."""
    nodes, tasks = count(job, "nodes"), count(job, "tasks")
    return tasks if nodes == 1 else max(1, min(math.ceil(tasks / nodes), (tasks - 1) // (nodes - 1)))


def requested(job: Mapping[str, Any], resource: str) -> Fraction:
    """What all tasks of a job request together."""
    return (per_task(job, resource) or Fraction(0)) * count(job, "tasks")


def round_up(quantity: Fraction) -> int:
    """The least whole number that is enough: half a core is one."""
    return math.ceil(quantity)
