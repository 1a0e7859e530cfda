"""The next-generation form: named groups of resources, and a task that uses one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.jobs.jobspecs.documents import (
    check_version,
    only_task,
    optional_text,
    read_attributes,
    read_command,
    read_fields,
    read_mapping,
    to_annotations,
    without_unsupported,
)
from admin.core.jobs.jobspecs.slots import GroupSlots
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, shorten, unknown_problem

_REMEDIES = {
    "groups": "create one execution for each task",
    "requires": "put it on a resource",
}
_TASK_REMEDIES = {
    "group": "give one command",
    "local": "give one command",
    "steps": "give one command",
    "replicas": "create one execution for each",
    "depends_on": "create the execution when what it waits for has finished",
    "requires": "put it on the resource",
}


def matches(jobspec: Mapping[str, Any]) -> bool:
    if "command" in jobspec or "image" in jobspec:
        return False
    return isinstance(jobspec.get("tasks"), list) or not jobspec.keys().isdisjoint(("version", "task", "groups"))


def read(jobspec: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    jobspec = without_unsupported(jobspec, _REMEDIES, path, problems)
    fields = read_fields(jobspec, ("version", "name", "resources", "tasks", "task", "attributes"), path, problems)
    check_version(fields, path, problems)
    task, where = only_task(fields, path, problems)
    task = without_unsupported(task, _TASK_REMEDIES, where, problems, harmless={"replicas": 1})
    task = read_fields(task, ("name", "command", "resources"), where, problems)
    command = read_command(task, where, problems)
    groups = read_mapping(fields.get("resources", {}), (*path, "resources"), problems)
    group = group_of(task, groups, (*where, "resources"), problems)
    slots = GroupSlots(problems)
    if group is not None:
        slots.read(groups[group], (*path, "resources", shorten(group)))
        for name in groups:
            if name != group:
                add_problem(problems, (*path, "resources", shorten(name)), "is used by no task: remove it.")
    where_attributes = (*path, "attributes")
    names = ("duration", "environment", "cwd", "parameter")
    attributes = read_fields(fields.get("attributes", {}), names, where_attributes, problems)
    surroundings = read_attributes(attributes, where_attributes, problems)
    duration = surroundings.pop("duration", None)
    carried = {
        "jobspec/name": optional_text(fields, "name", path, problems),
        "jobspec/task": optional_text(task, "name", where, problems),
        "jobspec/parameter": attributes.get("parameter"),
    }
    return {
        "command": command,
        **surroundings,
        "resources": slots.resources(slots.count, duration) if group is not None or duration else {},
        "requires": slots.requires,
        "annotations": to_annotations(carried),
    }


def group_of(task: Mapping[str, Any], groups: Mapping[str, Any], path: Path, problems: list[Problem]) -> str | None:
    """The name of the resource group that the task uses; a single group need not be named."""
    if "resources" not in task:
        if len(groups) > 1:
            listed = ", ".join(shorten(name) for name in sorted(groups)[:12])
            add_problem(problems, path, f"is missing: name one of {listed}.")
        return next(iter(groups)) if len(groups) == 1 else None
    name = task["resources"]
    if not isinstance(name, str):
        add_problem(problems, path, f"{quoted(name)} is not the name of a resource group.")
    elif name not in groups:
        problems.append(unknown_problem(dotted(path), "resource group", name, groups))
    else:
        return name
    return None
