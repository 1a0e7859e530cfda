"""Requests as texts: the form in which they are stored with executions, and by which answers are remembered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, Vertex
from admin.core.graph.requirements import Requirement

_UNIT, _VERTEX, _SLOT = "unit", "vertex", "slot"


def write_request(request: ResourceRequest) -> str:
    """A request as a text, the same for equal requests."""
    document: dict[str, Any] = {"needs": [_write_need(need) for need in request.needs]}
    spread = request.spread
    if spread is not None:
        document["spread"] = [
            spread.nodes,
            spread.tasks,
            [_write_need(need) for need in spread.contents],
            _write_requirements(spread.requires),
            spread.is_exclusive,
        ]
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=4096)  # executions that are alike have the same text
def read_request(text: str) -> ResourceRequest:
    """The request that a text was written of."""
    document = json.loads(text)
    needs = tuple(map(_read_need, document["needs"]))
    if "spread" not in document:
        return ResourceRequest(needs)
    nodes, tasks, contents, requires, is_exclusive = document["spread"]
    spread = SpreadTasks(nodes, tasks, tuple(map(_read_need, contents)), _read_requirements(requires), is_exclusive)
    return ResourceRequest(needs, spread)


def _write_need(need: Need) -> list[Any]:
    resource, amount = need
    requires = _write_requirements(resource.requires)
    if isinstance(resource, Unit):
        return [_UNIT, amount, requires, resource.type, *([True] if resource.is_default else [])]
    contents = [_write_need(inner) for inner in resource.contents]
    if isinstance(resource, Slot):
        return [_SLOT, amount, requires, contents]
    return [_VERTEX, amount, requires, contents, resource.type, resource.is_exclusive]


def _read_need(written: list[Any]) -> Need:
    kind, amount, entries, *rest = written
    requires = _read_requirements(entries)
    if kind == _UNIT:
        return Need(Unit(rest[0], requires, is_default=len(rest) > 1), amount)
    contents = tuple(map(_read_need, rest[0]))
    if kind == _SLOT:
        return Need(Slot(contents, requires), amount)
    return Need(Vertex(rest[1], contents, requires, rest[2]), amount)


def _write_requirements(requires: Iterable[Requirement]) -> list[list[Any]]:
    return [list(requirement) for requirement in requires]


def _read_requirements(entries: Iterable[list[Any]]) -> tuple[Requirement, ...]:
    return tuple(Requirement(*entry) for entry in entries)
