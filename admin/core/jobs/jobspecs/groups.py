"""Groups: the named resources of a next-generation jobspec, and which of them is asked for.

With `schedule: true` on some groups, only those are asked for; one with `schedule: false` is not. The others are meant
for tasks inside what is asked for, which jobs of ours do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.jobs.jobspecs.slots import GroupSlots
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, shorten, unknown_problem

#: What a group says as a whole, beside what it consists of.
_OF_A_GROUP = ("schedule", "attributes")
_NUMBERS = ("count", "replicas")
MOST_GROUPS = 100


def resource_of(group: Any) -> Any:
    """The outermost resource of a group."""
    if not isinstance(group, Mapping):
        return group
    return _node_with_slot({key: value for key, value in group.items() if key not in _OF_A_GROUP})


def _node_with_slot(resource: dict[str, Any]) -> dict[str, Any]:
    """A slot that is one whole node, as that node with a slot in it: both are a task on each of so many nodes."""
    inner = resource.get("with")
    node = inner[0] if isinstance(inner, list) and len(inner) == 1 else None
    if resource.get("type") != "slot" or not isinstance(node, Mapping) or node.get("type") != "node":
        return resource
    if not node.get("with") or any(str(node.get(number, 1)) != "1" for number in _NUMBERS):
        return resource
    slot = {key: value for key, value in resource.items() if key not in _NUMBERS}
    numbers = {key: value for key, value in resource.items() if key in _NUMBERS}
    around = {str(key): value for key, value in node.items() if key not in _NUMBERS}
    return {**around, **numbers, "with": [{**slot, "with": node["with"]}]}


def attributes_of(group: Any) -> Any:
    """The attributes of a group, which win over those of its jobspec."""
    return group.get("attributes", {}) if isinstance(group, Mapping) else {}


def group_of(
    task: Mapping[str, Any], groups: Mapping[str, Any], path: Path, groups_path: Path, problems: list[Problem]
) -> str | None:
    """The name of the resource group that the task uses; one that alone is asked for need not be named."""
    if len(groups) > MOST_GROUPS:
        reason = f"has {len(groups)} groups, more than {MOST_GROUPS}: leave out those that no task uses."
        add_problem(problems, groups_path, reason)
        return None
    asked = _asked_for(groups)
    if "resources" not in task:
        if len(asked) > 1:
            listed = ", ".join(shorten(name) for name in sorted(asked)[:12])
            add_problem(problems, path, f"is missing: name one of {listed}.")
        elif groups and not asked:
            add_problem(problems, groups_path, "has no group to schedule: give one of them schedule true.")
        return asked[0] if len(asked) == 1 else None
    name = task["resources"]
    if not isinstance(name, str):
        add_problem(problems, path, f"{quoted(name)} is not the name of a resource group.")
    elif name not in groups:
        problems.append(unknown_problem(dotted(path), "resource group", name, groups))
    elif name not in asked:
        reason = "is not true, but the task uses this group: give true, or let the task use a group that is scheduled."
        add_problem(problems, (*groups_path, shorten(name), "schedule"), reason)
    else:
        return name
    return None


def check_groups(groups: Mapping[str, Any], used: str, path: Path, problems: list[Problem]) -> None:
    """Report what is wrong with the groups beside the one that is used: each must be right, and not asked for."""
    asked = _asked_for(groups)
    for name, group in groups.items():
        where = (*path, shorten(name))
        if isinstance(group, Mapping) and not isinstance(group.get("schedule", True), bool):
            reason = f"{quoted(group['schedule'])} is neither true nor false."
            add_problem(problems, (*where, "schedule"), reason)
        elif name != used and name in asked:
            add_problem(problems, where, "is used by no task: remove it, or give it schedule false.")
        elif name != used:
            GroupSlots(problems, where).read(resource_of(group))


def _asked_for(groups: Mapping[str, Any]) -> list[str]:
    """The names of the groups that are asked for, in their order."""
    schedules = {name: group.get("schedule") if isinstance(group, Mapping) else None for name, group in groups.items()}
    scheduled = [name for name, schedule in schedules.items() if schedule is True]
    return scheduled or [name for name, schedule in schedules.items() if schedule is not False]
