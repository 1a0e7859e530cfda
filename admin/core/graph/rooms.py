"""Rooms: what is free of a machine node by node, and whether a job has a place beside those that wait there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.graph.job_requests import GRAPH_TYPES
from admin.core.graph.machines import Machine
from admin.core.graph.request_texts import read_request
from admin.core.graph.summaries import describe_shortages
from admin.core.resources import parse_capacity

#: Counts of jobs, by what they ask for.
Asked = Mapping[str, int]
_ASKS = "asks:"
#: Shortages that a reason names.
_MOST_NAMED = 2


def asked_key(asks: str) -> str:
    """The name under which amounts that are taken count the jobs that ask for something."""
    return f"{_ASKS}{asks}"


def asked_in(taken: Mapping[str, int]) -> dict[str, int]:
    """How many jobs ask for what, in amounts that are taken."""
    return {name.removeprefix(_ASKS): count for name, count in taken.items() if name.startswith(_ASKS) and count > 0}


class Room:
    """What was free of a machine at the last report of its cluster."""

    def __init__(self, machine: Machine, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        known = _known_nodes(machine, nodes)
        closed = [name for name, node in known.items() if node.get("closed")]
        amounts = {name: amounts_of(node) for name, node in known.items() if not node.get("closed")}
        self._free = machine.machines.free(machine, amounts, closed)

    def lacks(self, asked: Asked, asks: str) -> str:
        """What is missing for a job beside others that have been assigned; "" where it has a place."""
        beside = {read_request(other): count for other, count in asked.items()}
        shortages = self._free.shortages(read_request(asks), beside)
        return describe_shortages(shortages[:_MOST_NAMED])


def used_of(machine: Machine, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How much is in use of the nodes that a report tells of, in all, of each resource that some of them has."""
    used: dict[str, int] = {}
    for name, node in _known_nodes(machine, nodes).items():
        has, free = machine.graph.shape_at(machine.graph.positions[name]).below, amounts_of(node)
        for resource, type_ in GRAPH_TYPES.items():
            if type_ in has:
                left = 0 if node.get("closed") else min(has[type_], free.get(type_, has[type_]))
                used[resource] = used.get(resource, 0) + has[type_] - left
    return used


def _known_nodes(machine: Machine, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: node for name, node in nodes.items() if name in machine.graph.positions}


def amounts_of(node: Mapping[str, Any]) -> dict[str, int]:
    """What is free of a node, by the types of a graph."""
    amounts = parse_capacity({name: quantity for name, quantity in node.items() if name in GRAPH_TYPES})
    return {GRAPH_TYPES[name]: amount for name, amount in amounts.items()}
