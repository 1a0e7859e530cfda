"""Resources: the amounts that jobs ask for and clusters have, each a whole number of its unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from admin.core.fields.branches import Section
from admin.core.fields.leaves import Integer, Quantity
from admin.core.quantities import parse_quantity

#: What one task may ask for: the fields of its requests and limits.
TASK_RESOURCES = {
    "cpu": Quantity(description="Cores, such as 2 or 500m."),
    "memory": Quantity(description="Bytes of memory, such as 450Mi."),
    "gpu": Quantity(description="Whole GPUs.", whole=True),
    "ephemeral_storage": Quantity(description="Bytes of scratch disk, such as 10Gi."),
}
#: What a cluster has; every execution takes one of its `executions`.
CLUSTER_RESOURCES = Section(
    fields={
        **TASK_RESOURCES,
        "nodes": Integer(minimum=0, maximum=10**9, description="Machines."),
        "executions": Integer(minimum=0, maximum=10**9, description="Executions at once."),
    }
)
RESOURCES = tuple(CLUSTER_RESOURCES.fields)

Amounts = Mapping[str, int]  #: by resource: thousandths of a core, bytes, or pieces

#: Larger than any cluster, and small enough for a database column.
LARGEST = 2**62
_PER_UNIT = {"cpu": 1000}
#: The nodes that jobs ask for and share, among what they take: a cluster has no fewer nodes for it.
SHARED_NODES = "shared_nodes"


def parse_demand(resource: str, quantity: str | int) -> int:
    """The amount of a resource that a job asks for, rounded up."""
    return min(math.ceil(_exact(resource, quantity)), LARGEST)


def parse_capacity(quantities: Mapping[str, Any]) -> dict[str, int]:
    """The amounts that a cluster has, rounded down."""
    return {
        resource: _rounded_down(resource, quantity) for resource, quantity in quantities.items() if quantity is not None
    }


@lru_cache(maxsize=16384, typed=True)  # every fleet that is built reads the quantities of all its clusters
def _rounded_down(resource: str, quantity: str | int) -> int:
    return min(math.floor(_exact(resource, quantity)), LARGEST)


@lru_cache(maxsize=4096, typed=True)
def _exact(resource: str, quantity: str | int) -> Fraction:
    return parse_quantity(str(quantity)) * _PER_UNIT.get(resource, 1)


def format_amounts(amounts: Amounts) -> dict[str, str | int]:
    """Amounts as people read them."""
    return {resource: format_amount(resource, amounts[resource]) for resource in RESOURCES if resource in amounts}


def format_amount(resource: str, amount: int) -> str | int:
    """One amount as people read it."""
    if resource in ("nodes", "executions"):
        return amount
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral_storage"):
        # Written in powers of two or of ten, whichever is shorter: 32G is not 31250000Ki.
        return min(_with_suffix(amount, _BINARY_SIZES), _with_suffix(amount, _DECIMAL_SIZES), key=len)
    return str(amount)


_BINARY_SIZES = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_DECIMAL_SIZES = (("T", 10**12), ("G", 10**9), ("M", 10**6))


def _with_suffix(amount: int, sizes: Iterable[tuple[str, int]]) -> str:
    """An amount in the largest unit of which it is a multiple."""
    return next((f"{amount // size}{suffix}" for suffix, size in sizes if amount and amount % size == 0), str(amount))


def in_units(amounts: Amounts) -> dict[str, float]:
    """Amounts in cores, bytes and pieces."""
    return {resource: amount / _PER_UNIT.get(resource, 1) for resource, amount in amounts.items()}


def subtract(amounts: Amounts, taken: Amounts) -> dict[str, int]:
    """What is left of some amounts; never below 0."""
    left = {**amounts}
    for resource, amount in taken.items():
        before = left.get(resource)
        if before is not None:
            left[resource] = before - amount if before > amount else 0
    return left


def occupied(demand: Amounts, capacity: Amounts, *, exclusive: bool, of_node: Amounts | None = None) -> Amounts:
    """What a demand takes of a cluster: nodes are shared, unless it is exclusive, which takes all that its nodes have.

    How much a node has is its share of the capacity, as far as that is known, or what `of_node` says; never less than
    what is asked for.
    """
    if not exclusive:
        return {SHARED_NODES if resource == "nodes" else resource: amount for resource, amount in demand.items()}
    nodes, all_nodes = demand.get("nodes", 0), capacity.get("nodes", 0)
    if not all_nodes:
        return demand
    exclusive_amounts = {
        resource: max(demand.get(resource, 0), -(-capacity[resource] * nodes // all_nodes))
        for resource in TASK_RESOURCES
        if resource in capacity
    }
    for resource, amount in (of_node or {}).items():
        exclusive_amounts[resource] = max(demand.get(resource, 0), amount * nodes)
    return {**demand, **exclusive_amounts}


def add(amounts: Amounts, more: Amounts) -> dict[str, int]:
    """The sum of two amounts."""
    return {resource: amounts.get(resource, 0) + more.get(resource, 0) for resource in {**amounts, **more}}


def shortages(amounts: Amounts, demand: Amounts) -> list[str]:
    """The resources of which there is too little; one whose amount is unknown may be enough."""
    short = []
    for resource, amount in demand.items():  # not a comprehension: this runs twice for every cluster of a decision
        if amount > amounts.get(resource, amount):
            short.append(resource)
    return short if len(short) < 2 else sorted(short, key=RESOURCES.index)


def utilization(capacity: Amounts, free: Amounts) -> float:
    """How full a cluster is, from 0 to 1, by its scarcest resource; rounded, so that equally full clusters tie.

    Nodes do not count: one on which something runs may have room for more.
    """
    return round(1 - _scarcest(capacity, free)[1], 9)


def describe_utilization(capacity: Amounts, free: Amounts) -> str:
    """What is in use of a cluster's scarcest resource: `8 of 10 cpu`, or `nothing`."""
    resource, share = _scarcest(capacity, free)
    if share == 1:
        return "nothing"
    total = capacity[resource]
    return f"{format_amount(resource, total - free[resource])} of {format_amount(resource, total)} {resource}"


def _scarcest(capacity: Amounts, free: Amounts) -> tuple[str, float]:
    """The resource of which the smallest share is free, and that share; 1 where nothing is in use."""
    scarcest, least = "", 1.0
    for resource, total in capacity.items():
        left = free.get(resource, total)
        if left < total and resource != "nodes":
            share = left / total
            if share < least:
                scarcest, least = resource, share
    return scarcest, least
