"""Flux V1: a list with one resource, a list with one task, and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.jobs.jobspecs.counts import read_number
from admin.core.jobs.jobspecs.documents import (
    check_version,
    only_task,
    read_attributes,
    read_command,
    read_fields,
    read_mapping,
    to_annotations,
    without_nulls,
)
from admin.core.jobs.jobspecs.slots import FluxSlots
from admin.core.problems import Path, Problem, add_problem, closest, quoted, shorten

_REMEDIES = {
    "queue": "a queue is chosen by the execution queue attributes",
    "bank": "an agent's options say which account is charged",
    "dependencies": "create the execution when what it waits for has finished",
}
#: Where Flux writes that a node or a core runs several tasks.
_PER_RESOURCE = ("system", "shell", "options", "per-resource")
_SYSTEM_FIELDS = ("duration", "environment", "cwd", "shell", "job", "constraints")
_CONSTRAINTS = ("system", "constraints")


def matches(jobspec: Mapping[str, Any]) -> bool:
    return isinstance(jobspec.get("resources"), list)


def read(jobspec: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    if jobspec.get("attributes", {}) is None:  # as its schema allows
        jobspec = {name: value for name, value in jobspec.items() if name != "attributes"}
    fields = read_fields(jobspec, ("version", "resources", "tasks", "attributes"), path, problems)
    check_version(fields, path, problems)
    slots = FluxSlots(problems, (*path, "resources", "0"))
    resources = fields["resources"]
    if len(resources) == 1:
        slots.read(resources[0])
    else:
        add_problem(problems, (*path, "resources"), f"has {len(resources)} entries: version 1 allows exactly one.")
    task, where = only_task(fields, path, problems)
    task = read_fields(task, ("command", "slot", "count"), where, problems)
    command = read_command(task, where, problems, may_be_text=False)
    if "slot" in task and slots.label is not None and task["slot"] != slots.label:
        reason = f"{quoted(task['slot'])} is not the slot's label, '{shorten(slots.label)}'."
        add_problem(problems, (*where, "slot"), reason)
    tasks = _read_task_count(task, slots.count, where, problems)
    attributes = _read_attributes(fields.get("attributes", {}), (*path, "attributes"), problems)
    tasks = _read_per_resource(fields.get("attributes", {}), slots, tasks, (*path, "attributes"), problems)
    duration = attributes.pop("duration", None)
    where = (*path, "attributes", *_CONSTRAINTS)
    requires = required_properties(jobspec, where, problems)
    if requires and len(resources) == 1 and _has_lone_socket(resources[0]):
        add_problem(problems, where, "is not supported for sockets by themselves: put them into a node.")
    return {
        "command": command,
        **attributes,
        "resources": slots.resources(tasks, duration),
        "requires": requires,
    }


def required_properties(jobspec: Mapping[str, Any], path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The requirements on nodes that the constraints of a jobspec are."""
    constraints = _in_attributes(jobspec.get("attributes"), _CONSTRAINTS)
    names = [] if constraints is None else list(_properties(constraints, path, problems))
    return [{"name": "cluster", "field": f"properties.{name}", "match": True} for name in dict.fromkeys(names)]


def _properties(constraints: Any, path: Path, problems: list[Problem]) -> Iterator[str]:
    """The properties that nodes must all have; any other constraint becomes a problem.

    An empty constraint, and an empty `and` or `or`, are met by every node.
    """
    for operator, values in read_mapping(constraints, path, problems).items():
        where = (*path, shorten(operator))
        if operator == "or" and values == []:
            continue
        if operator not in ("properties", "and"):
            add_problem(problems, where, "is not supported: remove it; nodes are chosen by properties that all have.")
        elif not isinstance(values, list):
            add_problem(problems, where, f"{quoted(values)} is not a list.")
        elif operator == "properties" and not values:
            add_problem(problems, where, "names no property: name one that nodes must have, or remove it.")
        else:
            for index, value in enumerate(values):
                if operator == "and":
                    yield from _properties(value, (*where, str(index)), problems)
                elif not isinstance(value, str) or not value or value.startswith("^"):
                    reason = f"{quoted(value)} is not a property: name one that nodes must have."
                    add_problem(problems, (*where, str(index)), reason)
                else:
                    yield value


def _has_lone_socket(resource: Any) -> bool:
    """Whether slots are in sockets of whatever node: what nodes have is said of the node or slot around them."""
    while isinstance(resource, Mapping) and resource.get("type") not in ("node", "slot"):
        inner = resource.get("with")
        if resource.get("type") == "socket":
            return True
        resource = inner[0] if isinstance(inner, list) and inner else None
    return False


def _read_task_count(task: Mapping[str, Any], slots: int, path: Path, problems: list[Problem]) -> int:
    """How many copies of the command there are, over all slots."""
    where = (*path, "count")
    count = read_fields(task.get("count", {"per_slot": 1}), ("per_slot", "total"), where, problems)
    if len(count) != 1:
        add_problem(problems, where, "give either per_slot or total, such as {per_slot: 1}.")
        return slots
    [(key, value)] = count.items()
    number = read_number(value, (*where, key), problems)
    return number * slots if key == "per_slot" else number


def has_uneven_slots(jobspec: Mapping[str, Any]) -> bool:
    """Whether tasks of a jobspec that was read share slots, or leave some of them empty."""
    task, _ = only_task(jobspec, (), [])
    return task.get("count", {"per_slot": 1}) != {"per_slot": 1} or _per_resource(jobspec.get("attributes")) is not None


def _read_attributes(attributes: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    fields = read_fields(attributes, ("system", "user"), path, problems)
    where = (*path, "system")
    system = without_nulls(read_mapping(fields.get("system", {}), where, problems), where, problems)
    for key in system:
        if key not in _SYSTEM_FIELDS:
            remedy = _REMEDIES.get(key, f"known are {', '.join(_SYSTEM_FIELDS)}")
            reason = f"is not supported: remove it; {remedy}."
            add_problem(problems, (*where, shorten(key)), reason, closest(key, _SYSTEM_FIELDS))
    carried = {"flux/shell": system.get("shell"), "flux/job": system.get("job"), "flux/user": fields.get("user")}
    return {**read_attributes(system, where, problems), "annotations": to_annotations(carried)}


def _read_per_resource(attributes: Any, slots: FluxSlots, tasks: int, path: Path, problems: list[Problem]) -> int:
    """How many copies of the command there are where the shell is told so many per node or core, else as before."""
    per_resource = _per_resource(attributes)
    if per_resource is None:
        return tasks
    path = (*path, *_PER_RESOURCE)
    fields = read_fields(per_resource, ("type", "count"), path, problems)
    number = read_number(fields.get("count", 1), (*path, "count"), problems)
    type_ = fields.get("type")
    if type_ == "node" and slots.nodes is not None:
        return number * slots.nodes
    if type_ == "core" and "cpu" in slots.amounts:
        return number * slots.count * slots.amounts["cpu"].number
    reason = "is missing: give node or core."
    if "type" in fields:
        unknown = f"so many tasks per {shorten(type_)} are not known from the resources"
        reason = f"{unknown}: give a number of nodes, or remove it."
    add_problem(problems, (*path, "type"), reason)
    return tasks


def _per_resource(attributes: Any) -> Any:
    return _in_attributes(attributes, _PER_RESOURCE)


def _in_attributes(attributes: Any, keys: Path) -> Any:
    for key in keys:
        attributes = attributes.get(key) if isinstance(attributes, Mapping) else None
    return attributes
