"""What is free after jobs have started that an engine has not counted yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from agent.engines.base import is_exclusive
from agent.quantities import count, requested
from ctl.client.quantities import parse_quantity


def room_beside(
    jobs: Iterable[Mapping[str, Any]], capacity: Mapping[str, Any], free: Mapping[str, Any]
) -> dict[str, Any]:
    """What is left of what was free when these jobs have started since; ValueError for what is no quantity."""
    amounts = {resource: parse_quantity(quantity) for resource, quantity in capacity.items()}
    left = {resource: parse_quantity(quantity) for resource, quantity in free.items()}
    for job in jobs:
        for resource in left:
            left[resource] = max(Fraction(0), left[resource] - _taken(job, resource, amounts))
    return {resource: _quantity(resource, amount, free[resource]) for resource, amount in left.items()}


def seconds_until_room(
    needed: Mapping[str, Fraction],
    total: Mapping[str, Fraction],
    running: Iterable[tuple[float, Mapping[str, Fraction]]],
) -> float:
    """When so much is free for the first time, given in how many seconds each job that runs ends, and what it has."""
    ends = sorted(running, key=lambda job: job[0])
    free = {name: amount - sum(has[name] for _, has in ends) for name, amount in total.items()}
    seconds = 0.0
    for end, has in ends:
        if all(needed[name] <= free[name] for name in needed):
            break
        seconds = end
        free = {name: amount + has[name] for name, amount in free.items()}
    return seconds


def _taken(job: Mapping[str, Any], resource: str, capacity: Mapping[str, Fraction]) -> Fraction:
    """What a job takes of a resource; which node it has is not known, so it may be one that was idle."""
    if resource in ("nodes", "executions"):
        return Fraction(count(job, "nodes") if resource == "nodes" else 1)
    amount = requested(job, resource)
    if is_exclusive(job) and capacity.get("nodes"):
        amount = max(amount, capacity.get(resource, Fraction(0)) * count(job, "nodes") / capacity["nodes"])
    return amount


def _quantity(resource: str, amount: Fraction, written: Any) -> Any:
    """An amount as engines write it, never more than there is."""
    if amount == parse_quantity(written):
        return written
    return f"{math.floor(amount * 1000)}m" if resource == "cpu" else type(written)(math.floor(amount))
