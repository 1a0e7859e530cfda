"""Resources: amounts that jobs ask for and clusters have, as whole numbers of one unit each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from admin.core.fields import Integer, Quantity, Section
from admin.core.quantities import parse_quantity

#: What one task may ask for.
TASK_RESOURCES = ("cpu", "memory", "gpu", "ephemeral_storage")
#: What a cluster has; every execution takes one of its `executions`.
RESOURCES = (*TASK_RESOURCES, "nodes", "executions")

Amounts = Mapping[str, int]  #: by resource: thousandths of a core, bytes, or pieces

#: Larger than any cluster, and what a database can hold.
LARGEST = 2**62
_PER_UNIT = {"cpu": 1000}


def task_resource_fields() -> dict[str, Quantity]:
    """The fields of what one task asks for."""
    return {
        "cpu": Quantity(description="Cores, such as 2 or 500m."),
        "memory": Quantity(description="Bytes of memory, such as 450Mi."),
        "gpu": Quantity(description="Whole GPUs.", whole=True),
        "ephemeral_storage": Quantity(description="Bytes of scratch disk, such as 10Gi."),
    }


CLUSTER_RESOURCES = Section(
    fields={
        **task_resource_fields(),
        "nodes": Integer(minimum=0, maximum=10**9, description="Machines."),
        "executions": Integer(minimum=0, maximum=10**9, description="Executions at once."),
    }
)


def needed(resource: str, quantity: str | int) -> int:
    """The amount that a wish comes to, rounded up."""
    return min(math.ceil(_exact(resource, quantity)), LARGEST)


def available(quantities: Mapping[str, Any]) -> dict[str, int]:
    """The amounts that a cluster has, rounded down."""
    return {
        resource: min(math.floor(_exact(resource, quantity)), LARGEST)
        for resource, quantity in quantities.items()
        if quantity is not None
    }


def _exact(resource: str, quantity: str | int) -> Fraction:
    return parse_quantity(str(quantity)) * _PER_UNIT.get(resource, 1)


def shown(amounts: Amounts) -> dict[str, str | int]:
    """Amounts as people read them."""
    return {resource: quantity(resource, amounts[resource]) for resource in RESOURCES if resource in amounts}


def quantity(resource: str, amount: int) -> str | int:
    """One amount as people read it."""
    if resource in ("nodes", "executions"):
        return amount
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral_storage"):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def less(have: Amounts, taken: Amounts) -> dict[str, int]:
    """What is left; never below nothing."""
    left = {**have}
    for resource, amount in taken.items():
        if resource in left:
            left[resource] = left[resource] - amount if left[resource] > amount else 0
    return left


def lacking(have: Amounts, wanted: Amounts) -> list[str]:
    """The resources of which there is known to be too little; what nobody has counted may be enough."""
    short = []
    for resource, amount in wanted.items():  # not a comprehension: every cluster is asked twice for every decision
        if amount > have.get(resource, amount):
            short.append(resource)
    return short if len(short) < 2 else sorted(short, key=RESOURCES.index)


def load(capacity: Amounts, free: Amounts) -> float:
    """How full something is, from 0 to 1: as full as its scarcest resource; so exactly that equals are equal."""
    scarcest = 1.0
    for resource, total in capacity.items():
        left = free.get(resource, total)
        if left < total and left / total < scarcest:
            scarcest = left / total
    return round(1 - scarcest, 9)
