"""What jobspecs ask of a cluster's graph: their resources as they stand, at every level that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from admin.core.graph.job_requests import GRAPH_TYPES, request_of
from admin.core.graph.requests import Need, ResourceRequest, Slot, Unit, types_in, vertex_need
from admin.core.graph.requirements import Requirement, read_requirements
from admin.core.graph.units import BYTE_UNITS, MEASURED, NODE, TYPE, amount_of, byte_suffix
from admin.core.jobs.jobspecs import flux, next_generation, read_jobspec
from admin.core.jobs.jobspecs.counts import read_count
from admin.core.jobs.jobspecs.documents import (
    only_task,
    read_fields,
    read_mapping,
    without_unsupported,
)
from admin.core.jobs.jobspecs.groups import group_of, resource_of
from admin.core.jobs.jobspecs.slots import GROUP_REMEDIES, is_other
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, raise_problems, shorten, unknown_problem

_SLOT = "slot"
_AMOUNTS = tuple(GRAPH_TYPES.values())
_FIELDS = ("type", "count", "replicas", "unit", "with", "label", "exclusive", "requires")
MOST_LEVELS = 16


def request_in(jobspec: Mapping[str, Any], path: Path = ("jobspec",)) -> ResourceRequest:
    """What a jobspec of any form asks for; Invalid with every problem of its resources."""
    if flux.matches(jobspec):
        problems: list[Problem] = []
        where = (*path, "resources")
        constraints = (*path, "attributes", "system", "constraints")
        entries = flux.required_properties(jobspec, constraints, problems)
        required = read_requirements(entries, constraints, problems)
        read = [_read_need(entry, (*where, str(index)), problems) for index, entry in enumerate(jobspec["resources"])]
        needs = [need and _on_nodes(need, required) for need in read]
    elif next_generation.matches(jobspec):
        problems = []
        groups = read_mapping(jobspec.get("resources", {}), (*path, "resources"), problems)
        task, where = only_task(jobspec, path, problems)
        group = group_of(task, groups, (*where, "resources"), (*path, "resources"), problems)
        if group is None:
            needs = [] if groups else [vertex_need(NODE, 1)]
        else:
            resource = resource_of(groups[group])
            needs = [_read_need(resource, (*path, "resources", shorten(group)), problems)]
    else:
        return request_of(read_jobspec(jobspec, path), path)
    raise_problems(problems)
    return ResourceRequest(tuple(need for need in needs if need is not None))


def _on_nodes(need: Need, requires: tuple[Requirement, ...]) -> Need:
    """A need that has more requirements on its nodes, or on those of its slots."""
    resource, count = need
    is_inside_nodes = isinstance(resource, Slot) and NODE not in types_in(resource.contents)
    if is_inside_nodes or (not isinstance(resource, Slot) and resource.type == NODE):
        return Need(replace(resource, requires=(*resource.requires, *requires)), count)
    if isinstance(resource, Unit):
        return need
    contents = tuple(_on_nodes(inner, requires) for inner in resource.contents)
    return Need(replace(resource, contents=contents), count)


def layered_request(jobspec: Mapping[str, Any], path: Path) -> ResourceRequest | None:
    """What a jobspec asks for that a job cannot say; None where the job that is read of it says the same.

    That is levels beside nodes, requirements on what nodes hold, several slots in each node, and slots that tasks share
    or leave empty.
    """
    if flux.matches(jobspec):
        is_layered = any(map(_is_layered, jobspec["resources"])) or flux.has_uneven_slots(jobspec)
    else:
        groups = jobspec.get("resources") if next_generation.matches(jobspec) else None
        is_layered = isinstance(groups, Mapping) and any(map(_is_layered, groups.values()))
    return request_in(jobspec, path) if is_layered else None


def _is_layered(resource: Any) -> bool:
    if not isinstance(resource, Mapping):
        return False
    type_, inner = resource.get("type"), resource.get("with")
    if is_other(type_) or (type_ in _AMOUNTS and resource.get("requires")):
        return True
    if not isinstance(inner, list):
        return False
    return any(map(_is_layered, inner)) or (type_ == NODE and any(map(_is_several, inner)))


def _is_several(resource: Any) -> bool:
    """Whether a resource inside a node is more than one slot."""
    if not isinstance(resource, Mapping):
        return False
    numbers = (*((resource.get("count", 1),) if resource.get("type") == _SLOT else ()), resource.get("replicas", 1))
    return any(number != 1 for number in numbers)


def _read_need(
    resource: Any, path: Path, problems: list[Problem], level: int = 0, *, is_on_node: bool = False
) -> Need | None:
    """A resource with what is inside it; None where something is wrong, which is then a problem.

    `is_on_node` says whether a node or slot is around it.
    """
    before = len(problems)
    fields = read_mapping(resource, path, problems)
    fields = without_unsupported(fields, GROUP_REMEDIES, path, problems, harmless={"schedule": True})
    fields = read_fields(fields, _FIELDS, path, problems)
    type_ = fields.get("type")
    if not isinstance(type_, str) or not TYPE.fullmatch(type_):
        reason = "is missing" if "type" not in fields else f"{quoted(type_)} is not a type"
        add_problem(problems, (*path, "type"), f"{reason}: give a type of resource, such as node or core.")
        return None
    count = read_count(fields.get("count", 1), (*path, "count"), problems)
    replicas = read_count(fields.get("replicas", 1), (*path, "replicas"), problems)
    requires = read_requirements(fields.get("requires", []), (*path, "requires"), problems)
    is_on_node = is_on_node or type_ in (NODE, _SLOT)
    contents = _read_contents(fields.get("with", []), (*path, "with"), problems, level, is_on_node=is_on_node)
    is_exclusive = fields.get("exclusive", False)
    if not isinstance(is_exclusive, bool):
        add_problem(problems, (*path, "exclusive"), f"{quoted(is_exclusive)} is neither true nor false.")
    elif is_exclusive and type_ != NODE:
        add_problem(problems, (*path, "exclusive"), "is not supported: remove it; only nodes can be exclusive.")
    is_amount = type_ in _AMOUNTS and not contents
    unit = _read_unit(fields, type_, (*path, "unit"), problems)
    if type_ == _SLOT and not contents and len(problems) == before:
        add_problem(problems, (*path, "with"), "is missing: say what is inside a slot.")
    if len(problems) > before:
        return None
    if type_ == _SLOT:
        return Need(Slot(contents, requires), count * replicas)
    if is_amount:
        unit_need = Need(Unit(type_, requires), amount_of(type_, count, unit))
        # By itself it is what one task needs, and a task runs on one node.
        return Need(Slot((unit_need,)), replicas) if level == 0 or "replicas" in fields else unit_need
    if contents or type_ == NODE:
        return vertex_need(type_, count * replicas, contents, requires, is_exclusive=is_exclusive)
    return Need(Unit(type_, requires), amount_of(type_, count * replicas, unit))


def _read_contents(
    inner: Any, path: Path, problems: list[Problem], level: int, *, is_on_node: bool
) -> tuple[Need, ...]:
    if not isinstance(inner, list):
        add_problem(problems, path, f"{quoted(inner)} is not a list of resources.")
        return ()
    if inner and level >= MOST_LEVELS:
        add_problem(problems, path, f"is deeper than {MOST_LEVELS} levels: leave levels out.")
        return ()
    read = (
        _read_need(entry, (*path, str(index)), problems, level + 1, is_on_node=is_on_node)
        for index, entry in enumerate(inner)
    )
    needs = tuple(need for need in read if need is not None)
    if is_on_node:
        return needs
    # Amounts right inside a level around nodes, such as a rack, are what one task needs: on one node.
    bare = tuple(need for need in needs if isinstance(need.resource, Unit) and need.resource.type in _AMOUNTS)
    return (*((Need(Slot(bare), 1),) if bare else ()), *(need for need in needs if need not in bare))


def _read_unit(fields: Mapping[str, Any], type_: str, path: Path, problems: list[Problem]) -> str:
    unit = fields.get("unit", "")
    if not isinstance(unit, str):
        add_problem(problems, path, f"{quoted(unit)} is not text.")
    elif type_ in MEASURED and not unit:
        add_problem(problems, path, "is missing: say what is counted, such as GB.")
    elif unit and (type_ in ("core", "gpu", NODE, _SLOT) or fields.get("with")):
        add_problem(problems, path, f"a {type_} has no unit: remove it.")
    elif unit and byte_suffix(unit) is None:
        problems.append(unknown_problem(dotted(path), "unit", unit, BYTE_UNITS))
    else:
        return unit
    return ""
