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
from admin.core.jobs.jobspecs.groups import attributes_of, check_groups, group_of, resource_of
from admin.core.jobs.jobspecs.slots import GroupSlots
from admin.core.jobs.parameters import PARAMETERS
from admin.core.problems import Path, Problem, shorten

_REMEDIES = {
    "groups": "create one execution for each task",
    "requires": "put it on a resource",
    "schedule": "put it on a group of resources",
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
    jobspec = without_unsupported(jobspec, _REMEDIES, path, problems, harmless={"schedule": True})
    fields = read_fields(jobspec, ("version", "name", "resources", "tasks", "task", "attributes"), path, problems)
    check_version(fields, path, problems)
    task, where = only_task(fields, path, problems)
    task = without_unsupported(task, _TASK_REMEDIES, where, problems, harmless={"replicas": 1})
    task = read_fields(task, ("name", "command", "resources"), where, problems)
    command = read_command(task, where, problems)
    groups = read_mapping(fields.get("resources", {}), (*path, "resources"), problems)
    group = group_of(task, groups, (*where, "resources"), (*path, "resources"), problems)
    slots = GroupSlots(problems, (*path, "resources", shorten(group or "")))
    surroundings, parameter = _read_attributes(fields.get("attributes", {}), (*path, "attributes"), problems)
    if group is not None:
        where_group = (*path, "resources", shorten(group))
        slots.read(resource_of(groups[group]))
        check_groups(groups, group, (*path, "resources"), problems)
        own, own_parameter = _read_attributes(attributes_of(groups[group]), (*where_group, "attributes"), problems)
        environment = {**surroundings.get("environment", {}), **own.get("environment", {})}
        surroundings = {**surroundings, **own, **({"environment": environment} if environment else {})}
        parameter = own_parameter or parameter
    duration = surroundings.pop("duration", None)
    carried = {
        "jobspec/name": optional_text(fields, "name", path, problems),
        "jobspec/task": optional_text(task, "name", where, problems),
        PARAMETERS: parameter,
    }
    return {
        "command": command,
        **surroundings,
        "resources": slots.resources(slots.count, duration) if group is not None or duration else {},
        "requires": slots.requires,
        "annotations": to_annotations(carried),
    }


def _read_attributes(attributes: Any, path: Path, problems: list[Problem]) -> tuple[dict[str, Any], Any]:
    """Environment, working directory and duration of attributes, and the parameter that goes with the job."""
    fields = read_fields(attributes, ("duration", "environment", "cwd", "parameter"), path, problems)
    return read_attributes(fields, path, problems), fields.get("parameter")
