"""What jobs ask of a cluster's graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from admin.core.graph.compatibility import compatibility_entries
from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, Vertex, types_in, vertex_need
from admin.core.graph.requirements import Requirement, read_requirement, read_requirements
from admin.core.graph.units import CORE, MEASURED, MEMORY, NODE, STORAGE
from admin.core.problems import Path, Problem, raise_problems
from admin.core.resources import parse_demand

#: The types of a graph, by the job's names of resources.
GRAPH_TYPES = {"cpu": CORE, "memory": MEMORY, "gpu": "gpu", "ephemeral_storage": STORAGE}


def request_of(job: Mapping[str, Any], path: Path = ("job",), asked: Collection[str] | None = None) -> ResourceRequest:
    """What a job asks for; Invalid where a requirement is not understood.

    What it requires, and its image by what is said of its compatibility, must hold for every node that it runs on. A
    job that names no number of nodes may run its tasks on any, each task on one. `asked` are the resources that it
    asked for itself, None for all.
    """
    problems: list[Problem] = []
    requires = requirements_of(job, path, problems)
    raise_problems(problems)
    resources = job.get("resources") or {}
    tasks, nodes = resources.get("tasks", 1), resources.get("nodes")
    requests = resources.get("requests") or {}
    contents = tuple(_needs_of(requests, requests if asked is None else asked))
    is_exclusive = resources.get("exclusive", False)
    if nodes is None and not is_exclusive:
        if not contents:
            return ResourceRequest((vertex_need(NODE, 1, (), requires),) if requires else ())
        return ResourceRequest((Need(Slot(contents, requires), tasks),))
    if nodes in (None, 1):
        held = [Need(resource, amount * tasks) for resource, amount in contents]
        return ResourceRequest((vertex_need(NODE, 1, held, requires, is_exclusive=is_exclusive),))
    if not contents:
        return ResourceRequest((vertex_need(NODE, nodes, (), requires, is_exclusive=is_exclusive),))
    return ResourceRequest(spread=SpreadTasks(nodes, tasks, contents, requires, is_exclusive))


def requirements_of(job: Mapping[str, Any], path: Path, problems: list[Problem]) -> tuple[Requirement, ...]:
    """What a job and its image require; whatever is wrong is added to the problems."""
    requires = read_requirements(job.get("requires") or [], (*path, "requires"), problems)
    implied = [read_requirement(entry, where, problems) for entry, where in compatibility_entries(job, path, problems)]
    return tuple(dict.fromkeys([*requires, *(entry for entry in implied if entry is not None)]))


def asked_resources(given: Mapping[str, Any]) -> Collection[str]:
    """The resources that a job asks for by itself, before any settings."""
    resources = given.get("resources") or {}
    return {*(resources.get("requests") or ()), *(resources.get("limits") or ())}  # a limit alone is asked for too


def _needs_of(requests: Mapping[str, str], asked: Collection[str]) -> Iterator[Need]:
    """What a task needs by its requests; what it did not ask for was given by settings."""
    for name, quantity in requests.items():
        type_, amount = GRAPH_TYPES[name], parse_demand(name, quantity)
        if amount > 0:
            yield Need(Unit(type_, is_default=type_ in MEASURED and name not in asked), amount)


def with_settings(request: ResourceRequest, job: Mapping[str, Any], given: Mapping[str, Any]) -> ResourceRequest:
    """What a jobspec asks for, and in each of its slots what settings gave the job that it did not ask for."""
    stated = (given.get("resources") or {}).get("requests") or {}
    requests = {
        name: quantity for name, quantity in (job["resources"].get("requests") or {}).items() if name not in stated
    }
    slots = _slots_in(request.needs)
    per_slot = -(-job["resources"].get("tasks", 1) // slots) if slots else 1
    added = tuple(Need(unit, amount * per_slot) for unit, amount in _needs_of(requests, asked_resources(given)))
    return replace(request, needs=_with_added(request.needs, added)) if added else request


def _slots_in(needs: Iterable[Need]) -> int:
    return sum(
        count if isinstance(resource, Slot) else count * _slots_in(resource.contents)
        for resource, count in needs
        if not isinstance(resource, Unit)
    )


def _with_added(needs: tuple[Need, ...], added: tuple[Need, ...]) -> tuple[Need, ...]:
    """Needs with some more in each slot, which nodes hold for all of their slots: memory is seldom part of a socket."""
    changed = []
    for need in needs:
        resource, count = need
        if isinstance(resource, Slot):
            holds_nodes = NODE in types_in(resource.contents)
            contents = _with_added(resource.contents, added) if holds_nodes else (*resource.contents, *added)
            need = Need(replace(resource, contents=contents), count)
        elif isinstance(resource, Vertex):
            contents = _with_added(resource.contents, added)
            if resource.type == NODE:
                slots = _slots_in(resource.contents) or 1
                contents = (*resource.contents, *(Need(unit, amount * slots) for unit, amount in added))
            need = Need(replace(resource, contents=contents), count)
        elif resource.type == NODE:
            need = vertex_need(NODE, count, added, resource.requires)
        changed.append(need)
    return tuple(changed)
