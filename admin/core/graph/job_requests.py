"""What jobs ask of a cluster's graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.graph.compatibility import compatibility_entries
from admin.core.graph.requests import Need, ResourceRequest, Slot, SpreadTasks, Unit, vertex_need
from admin.core.graph.requirements import read_requirement, read_requirements
from admin.core.graph.units import CORE, MEMORY, NODE, STORAGE
from admin.core.problems import Path, Problem, raise_problems
from admin.core.resources import parse_demand

#: The types of a graph, by the job's names of resources.
GRAPH_TYPES = {"cpu": CORE, "memory": MEMORY, "gpu": "gpu", "ephemeral_storage": STORAGE}


def request_of(job: Mapping[str, Any], path: Path = ("job",)) -> ResourceRequest:
    """What a job asks for; Invalid where a requirement is not understood.

    What it requires, and its image by what is said of its compatibility, must hold for every node that it runs on. A
    job that names no number of nodes may run its tasks on any, each task on one.
    """
    problems: list[Problem] = []
    requires = read_requirements(job.get("requires") or [], (*path, "requires"), problems)
    implied = [read_requirement(entry, where, problems) for entry, where in compatibility_entries(job, path, problems)]
    raise_problems(problems)
    requires = tuple(dict.fromkeys([*requires, *(entry for entry in implied if entry is not None)]))
    resources = job.get("resources") or {}
    tasks, nodes = resources.get("tasks", 1), resources.get("nodes")
    amounts = {
        GRAPH_TYPES[name]: parse_demand(name, quantity) for name, quantity in (resources.get("requests") or {}).items()
    }
    contents = tuple(Need(Unit(type_), amount) for type_, amount in amounts.items() if amount > 0)
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
