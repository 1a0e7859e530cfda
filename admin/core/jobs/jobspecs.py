"""Jobspecs: documents in which other schedulers describe a job, read into a job of ours.

Three forms are told apart by their shape: Flux V1 has a list of resources, the next-generation form a mapping of named
groups, and the simple form its command at the top. What has no place in a job is carried as an annotation or refused.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from admin.core import quantities
from admin.core.fields.base import Path, dotted, fault, known_keys, quoted
from admin.core.problems import Invalid, Problem, closest, shorten, unknown_word

_LARGEST_COUNT = 10**9

#: Types of a resource that a task asks for, by the word for them in a job.
_AMOUNTS = {"core": "cpu", "gpu": "gpu", "memory": "memory", "storage": "ephemeral_storage"}
_TYPES = ("node", "slot", *_AMOUNTS)
_MEASURED = ("memory", "ephemeral_storage")
_UNITS = {"B": ""} | {
    f"{prefix}{ending}": f"{'k' if prefix == 'K' and not binary else prefix}{binary}"
    for prefix in "KMGTPE"
    for ending, binary in (("B", ""), ("iB", "i"))
}


def read_jobspec(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The job that a jobspec describes, still to be checked as a job; Invalid with every problem."""
    problems: list[Problem] = []
    given = _mapping(document, path, problems)
    job = _form(given)(given, path, problems) if not problems else {}
    if problems:
        raise Invalid(*problems)
    return {name: value for name, value in job.items() if value not in ({}, [], None)}


def _form(given: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Path, list[Problem]], dict[str, Any]]:
    if isinstance(given.get("resources"), list):
        return _read_flux
    if "command" in given or "image" in given:
        return _read_simple
    is_next = isinstance(given.get("tasks"), list) or any(key in given for key in ("version", "task", "groups"))
    return _read_next if is_next else _read_simple


# Flux V1


def _read_flux(document: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    given = _fields(document, ("version", "resources", "tasks", "attributes"), path, problems)
    _check_version(given, path, problems)
    shape = _Shape(problems)
    resources = given["resources"]
    if len(resources) == 1:
        shape.read_flux(resources[0], (*path, "resources", "0"))
    else:
        fault(problems, (*path, "resources"), f"has {len(resources)} entries: version 1 allows exactly one.")
    task, where = _only_task(given, path, problems)
    task = _fields(task, ("command", "slot", "count"), where, problems)
    command = _read_command(task, where, problems, may_be_text=False)
    if "slot" in task and shape.label is not None and task["slot"] != shape.label:
        fault(problems, (*where, "slot"), f"{quoted(task['slot'])} is not the slot's label, '{shorten(shape.label)}'.")
    tasks = _flux_tasks(task, shape.slots, where, problems)
    job = {"command": command, **_flux_attributes(given.get("attributes", {}), (*path, "attributes"), problems)}
    duration = job.pop("duration", None)
    return job | {"resources": shape.resources(tasks, duration, path)}


def _flux_tasks(task: Mapping[str, Any], slots: int, path: Path, problems: list[Problem]) -> int:
    """How many copies of the command there are, over all slots."""
    where = (*path, "count")
    count = _fields(task.get("count", {"per_slot": 1}), ("per_slot", "total"), where, problems)
    if len(count) != 1:
        fault(problems, where, "give either per_slot or total, such as {per_slot: 1}.")
        return slots
    ((key, value),) = count.items()
    number = _count(value, (*where, key), problems)
    return number * slots if key == "per_slot" else number


_FLUX_REMEDIES = {
    "queue": "a queue is chosen by the execution queue attributes",
    "constraints": "say what a cluster must have with 'requires' in a job",
    "dependencies": "create the execution when what it waits for has finished",
}


def _flux_attributes(attributes: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    given = _fields(attributes, ("system", "user"), path, problems)
    where = (*path, "system")
    system = _mapping(given.get("system", {}), where, problems)
    carried = {"flux/shell": system.get("shell"), "flux/job": system.get("job"), "flux/user": given.get("user")}
    known = ("duration", "environment", "cwd", "shell", "job")
    for key in system:
        if key not in known:
            remedy = _FLUX_REMEDIES.get(key, f"known are {', '.join(known)}")
            fault(problems, (*where, shorten(key)), f"is not supported: remove it; {remedy}.", closest(key, known))
    return {**_surroundings(system, where, problems), "annotations": _carried(carried)}


# The next generation


_TASK_REMEDIES = {
    "replicas": "create one execution for each",
    "depends_on": "create the execution when what it waits for has finished",
    "requires": "put it on the resource",
}
_NEXT_REMEDIES = {
    "groups": "create one execution for each task",
    "requires": "put it on a resource",
}


def _read_next(document: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    document = _without_unsupported(document, _NEXT_REMEDIES, path, problems)
    given = _fields(document, ("version", "name", "resources", "tasks", "task", "attributes"), path, problems)
    _check_version(given, path, problems)
    task, where = _only_task(given, path, problems)
    one = {"replicas": 1}  # the one value of it that asks for nothing
    unsupported = dict.fromkeys(("group", "local", "steps"), "give one command") | _TASK_REMEDIES
    task = _without_unsupported(task, unsupported, where, problems, harmless=one)
    task = _fields(task, ("name", "command", "resources"), where, problems)
    command = _read_command(task, where, problems)
    shape = _Shape(problems)
    groups = _mapping(given.get("resources", {}), (*path, "resources"), problems)
    name = _group_of(task, groups, (*where, "resources"), problems)
    if name is not None:
        shape.read_group(groups[name], (*path, "resources", shorten(name)))
    for other in groups if name is not None else ():
        if other != name:
            fault(problems, (*path, "resources", shorten(other)), "is used by no task: remove it.")
    attributes = _fields(
        given.get("attributes", {}), ("duration", "environment", "cwd", "parameter"), (*path, "attributes"), problems
    )
    surroundings = _surroundings(attributes, (*path, "attributes"), problems)
    duration = surroundings.pop("duration", None)
    carried = {
        "jobspec/name": _optional_text(given, "name", path, problems),
        "jobspec/task": _optional_text(task, "name", where, problems),
        "jobspec/parameter": attributes.get("parameter"),
    }
    return {
        "command": command,
        **surroundings,
        "resources": shape.resources(shape.slots, duration, path) if name is not None or duration else {},
        "requires": shape.requires,
        "annotations": _carried(carried),
    }


def _group_of(task: Mapping[str, Any], groups: Mapping[str, Any], path: Path, problems: list[Problem]) -> str | None:
    """The name of the resource group that the task uses; the only one need not be named."""
    if "resources" not in task:
        if len(groups) > 1:
            fault(
                problems, path, f"is missing: name one of {', '.join(shorten(name) for name in sorted(groups)[:12])}."
            )
        return next(iter(groups)) if len(groups) == 1 else None
    name = task["resources"]
    if not isinstance(name, str):
        fault(problems, path, f"{quoted(name)} is not the name of a resource group.")
    elif name not in groups:
        fault(problems, path, unknown_word("resource group", name, groups), closest(name, groups))
    else:
        return name
    return None


# The simple form

#: Other words for what is asked for one task, and the job's word.
_SHORT_REQUESTS = {
    "cores": "cpu",
    "cpus": "cpu",
    "cpu": "cpu",
    "gpus": "gpu",
    "gpu": "gpu",
    "memory": "memory",
    "storage": "ephemeral_storage",
    "ephemeral_storage": "ephemeral_storage",
}
_SHORT_NAMES = {"env": "environment", "cwd": "working_directory", "time": "duration"}
_JOB_FIELDS = (
    *("task_type", "command", "image", "environment", "working_directory"),
    *("resources", "requires", "outputs", "labels", "annotations"),
)
_SIMPLE_FIELDS = (*_JOB_FIELDS, "version", "name", "nodes", "tasks", "duration", *_SHORT_REQUESTS)


def _read_simple(document: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    known = dict.fromkeys(_SIMPLE_FIELDS)
    given = known_keys(document, known, path, problems, also=_SHORT_NAMES)
    for name in [name for name, value in given.items() if value is None]:
        fault(problems, (*path, name), "is left empty: give a value, or remove the line.")
        del given[name]
    if "version" in given:
        _check_version(given, path, problems)
    if isinstance(document.get("time"), int | float):  # minutes to some, seconds to others
        fault(problems, (*path, "time"), f"{quoted(document['time'])} has no unit: say it, such as 60s or 10m.")
    job = {name: given[name] for name in _JOB_FIELDS if name in given}
    if "command" in given:
        job["command"] = _read_command(given, path, problems)
    if "resources" in given or given.keys() & {"nodes", "tasks", "duration", *_SHORT_REQUESTS}:
        job["resources"] = _simple_resources(given, path, problems)
    title = _optional_text(given, "name", path, problems)
    if title is not None:
        annotations = _mapping(given.get("annotations", {}), (*path, "annotations"), problems)
        job["annotations"] = {"jobspec/name": title, **annotations}
    return job


def _simple_resources(given: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    resources = _mapping(given.get("resources", {}), (*path, "resources"), problems)
    requests = _mapping(resources.get("requests", {}), (*path, "resources", "requests"), problems)
    for word in ("nodes", "tasks", "duration"):
        if word in given:
            read = _read_duration if word == "duration" else _count
            _set_once(resources, word, read(given[word], (*path, word), problems), (*path, word), problems)
    for word, resource in _SHORT_REQUESTS.items():
        if word in given:
            amount = _read_quantity(given[word], (*path, word), problems)
            _set_once(requests, resource, amount, (*path, word), problems)
    return resources | {"requests": requests} if requests else resources


def _set_once(values: dict[str, Any], name: str, value: Any, path: Path, problems: list[Problem]) -> None:
    if name in values:
        fault(problems, path, f"'{name}' is given twice, in two spellings: keep one.")
    elif value is not None:
        values[name] = value


def _read_quantity(value: Any, path: Path, problems: list[Problem]) -> str | None:
    text = value
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value) if abs(value) < 1e20 else ""
    try:
        if not isinstance(text, str):
            raise ValueError(f"is not {quantities.QUANTITY_RULE}")
        quantities.parse_quantity(text)
    except ValueError as error:
        fault(problems, path, f"{quoted(value)} {error}.")
        return None
    return text


# What the forms have in common


@dataclass
class _Shape:
    """What the resources of a jobspec come to: machines, slots over all of them, and what each slot holds."""

    problems: list[Problem]
    nodes: int | None = None
    slots: int = 1
    label: str | None = None
    holds: dict[str, tuple[int, str, Path]] = field(default_factory=dict)  #: by resource: number, suffix, where
    requires: list[dict[str, Any]] = field(default_factory=list)

    def read_flux(self, resource: Any, path: Path) -> None:
        """Read node > slot > cores, or slot > cores."""
        given = self._fields(resource, path)
        if given.get("type") == "node":
            self.nodes = self._number(given, path)
            below = self._below(given, path)
            if len(below) != 1:
                fault(self.problems, (*path, "with"), "a node holds exactly one slot: give it.")
                return
            given, path = self._fields(below[0], (*path, "with", "0")), (*path, "with", "0")
        if given.get("type") != "slot":
            self._wrong_type(given, path, ("slot",) if self.nodes else ("node", "slot"))
            return
        self.label = _optional_text(given, "label", path, self.problems)
        if self.label is None:
            self._missing((*path, "label"), "is missing: name the slot, such as 'task'.")
        self.slots = (self.nodes or 1) * self._number(given, path)
        self._read_amounts(self._below(given, path), path)

    def read_group(self, resource: Any, path: Path) -> None:
        """Read one named group: nodes with or without slots, slots, or bare cores."""
        given = self._next_fields(resource, path)
        kind = given.get("type")
        if isinstance(kind, str) and kind in _AMOUNTS:
            self.slots = _count(given.pop("replicas", 1), (*path, "replicas"), self.problems)
            self._hold(given, path)
            return
        if kind not in ("node", "slot"):
            self._wrong_type(given, path, _TYPES)
            return
        self.slots = self._number(given, path)
        below = self._below(given, path)
        if kind == "node":
            self.nodes = self.slots
            slots = [index for index, child in enumerate(below) if isinstance(child, Mapping) and _is_slot(child)]
            if slots and len(below) > 1:
                fault(self.problems, (*path, "with"), "a slot stands beside other resources: put them into the slot.")
                return
            if slots:
                path = (*path, "with", "0")
                given = self._next_fields(below[0], path)
                self.slots *= self._number(given, path)
                below = self._below(given, path)
        self._read_amounts(below, path, next_form=True)

    def resources(self, tasks: int, duration: str | None, path: Path) -> dict[str, Any]:
        """The resources of the job, when so many tasks share the slots."""
        found: dict[str, Any] = {} if self.nodes is None else {"nodes": self.nodes}
        found["tasks"] = tasks
        requests = {name: self._per_task(name, tasks) for name in _AMOUNTS.values() if name in self.holds}
        if requests:
            found["requests"] = requests
        return found | {"duration": duration} if duration else found

    def _per_task(self, resource: str, tasks: int) -> str:
        number, suffix, path = self.holds[resource]
        share = Fraction(number * self.slots, max(tasks, 1))
        if share.denominator == 1:
            return f"{share}{suffix}"
        small = share * 1000 if resource == "cpu" else share * quantities.parse_quantity(f"1{suffix}")
        if resource == "gpu" or small.denominator != 1:
            reason = f"{number} in each of {self.slots} slots cannot be divided evenly among {tasks} tasks."
            fault(self.problems, path, reason)
        return f"{small}m" if resource == "cpu" else f"{small}"

    def _fields(self, resource: Any, path: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
        known = ("type", "count", "unit", "with", "label", "exclusive", *more)
        resource = _mapping(resource, path, self.problems)
        remedies = {"exclusive": "ask for all that a node has"}
        resource = _without_unsupported(resource, remedies, path, self.problems, harmless={"exclusive": False})
        return _fields(resource, known, path, self.problems)

    def _next_fields(self, resource: Any, path: Path) -> dict[str, Any]:
        resource = _mapping(resource, path, self.problems)
        remedies = {"attributes": "say it with 'requires'", "schedule": "every resource counts"}
        resource = _without_unsupported(resource, remedies, path, self.problems, harmless={"schedule": True})
        given = self._fields(resource, path, ("replicas", "requires"))
        self._read_requires(given.get("requires", []), (*path, "requires"))
        return given

    def _number(self, given: Mapping[str, Any], path: Path) -> int:
        """How many there are of a node or slot, by count or by replicas."""
        if "unit" in given:
            fault(self.problems, (*path, "unit"), f"a {given['type']} has no unit: remove it.")
        count = _count(given.get("count", 1), (*path, "count"), self.problems)
        replicas = _count(given.get("replicas", 1), (*path, "replicas"), self.problems)
        if count > 1 and replicas > 1:
            fault(self.problems, (*path, "replicas"), "stands beside a count above one: give one of the two.")
        return count * replicas

    def _below(self, given: Mapping[str, Any], path: Path) -> list[Any]:
        below = given.get("with", [])
        if not isinstance(below, list):
            fault(self.problems, (*path, "with"), f"{quoted(below)} is not a list of resources.")
            return []
        return below

    def _read_amounts(self, resources: list[Any], path: Path, next_form: bool = False) -> None:
        for index, resource in enumerate(resources):
            where = (*path, "with", str(index))
            given = self._next_fields(resource, where) if next_form else self._fields(resource, where)
            if "replicas" in given:
                fault(self.problems, (*where, "replicas"), "belongs to a node or a slot: give a count.")
            self._hold(given, where)

    def _hold(self, given: Mapping[str, Any], path: Path) -> None:
        """Take in cores, GPUs, memory or storage of each slot."""
        kind = given.get("type")
        if not isinstance(kind, str) or kind not in _AMOUNTS:
            self._wrong_type(given, path, tuple(_AMOUNTS))
            return
        if given.get("with"):
            fault(self.problems, (*path, "with"), f"a {kind} holds no other resource: remove it.")
        resource = _AMOUNTS[kind]
        count = _count(given.get("count", 1), (*path, "count"), self.problems)
        if resource in self.holds:
            fault(self.problems, path, f"'{kind}' is listed twice: add up the counts.")
        self.holds[resource] = count, self._suffix(given, resource, (*path, "unit")), path

    def _suffix(self, given: Mapping[str, Any], resource: str, path: Path) -> str:
        unit = given.get("unit")
        if resource not in _MEASURED:
            if unit is not None:
                fault(self.problems, path, f"a {given['type']} has no unit: remove it.")
        elif not isinstance(unit, str):
            fault(self.problems, path, "is missing: say what is counted, such as GB.")
        elif unit not in _UNITS:
            fault(self.problems, path, unknown_word("unit", unit, _UNITS), closest(unit, _UNITS))
        else:
            return _UNITS[unit]
        return ""

    def _wrong_type(self, given: Mapping[str, Any], path: Path, known: tuple[str, ...]) -> None:
        kind = given.get("type")
        if "type" not in given:
            self._missing((*path, "type"), f"is missing: give one of {', '.join(known)}.")
        elif kind in _TYPES:
            fault(self.problems, (*path, "type"), f"a {kind} cannot stand here: give one of {', '.join(known)}.")
        else:
            word = str(kind)
            fault(self.problems, (*path, "type"), unknown_word("resource type", word, known), closest(word, known))

    def _missing(self, path: Path, reason: str) -> None:
        """Note that something is missing, unless what should be there, or around it, is known to be wrong."""
        if not {dotted(path), dotted(path[:-1])} & {problem.field for problem in self.problems}:
            fault(self.problems, path, reason)

    def _read_requires(self, requires: Any, path: Path) -> None:
        if not isinstance(requires, list):
            fault(self.problems, path, f"{quoted(requires)} is not a list of requirements.")
            return
        for index, entry in enumerate(requires):
            where = (*path, str(index))
            given = _fields(entry, ("name", "field", "match", "min", "max"), where, self.problems)
            for key in ("name", "field"):
                if _optional_text(given, key, where, self.problems) is None:
                    self._missing((*where, key), "is missing: a requirement has a name and a field.")
            if not given.keys() & {"match", "min", "max"}:
                self._missing(where, "asks for nothing: give match, or min and max.")
            for key in (key for key in given if key in ("match", "min", "max")):
                if isinstance(given[key], bool) or not isinstance(given[key], str | int | float):
                    fault(self.problems, (*where, key), f"{quoted(given[key])} is neither text nor a number.")
            if given not in self.requires:
                self.requires.append(given)


def _is_slot(resource: Mapping[str, Any]) -> bool:
    return resource.get("type") == "slot"


def _mapping(value: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        fault(problems, path, f"{quoted(value)} is not a mapping.")
        return {}
    return {str(key): item for key, item in value.items()}


def _fields(value: Any, known: Collection[str], path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The fields of a mapping; unknown ones, and ones left empty, become problems."""
    given = known_keys(_mapping(value, path, problems), dict.fromkeys(known), path, problems)
    for name in [name for name, item in given.items() if item is None]:
        fault(problems, (*path, name), "is left empty: give a value, or remove the line.")
        del given[name]
    return given


def _without_unsupported(
    given: Mapping[str, Any],
    remedies: Mapping[str, str],
    path: Path,
    problems: list[Problem],
    harmless: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The mapping without the fields that a jobspec may have and a job has no place for; these become problems."""
    for key in (key for key in given if key in remedies):
        if harmless is None or key not in harmless or given[key] != harmless[key]:
            fault(problems, (*path, key), f"is not supported: remove it; {remedies[key]}.")
    return {key: value for key, value in given.items() if key not in remedies}


def _check_version(given: Mapping[str, Any], path: Path, problems: list[Problem]) -> None:
    if given.get("version") != 1 or isinstance(given["version"], bool):
        found = f"{quoted(given['version'])} is not supported" if "version" in given else "is missing"
        fault(problems, (*path, "version"), f"{found}: give version 1.")


def _only_task(given: Mapping[str, Any], path: Path, problems: list[Problem]) -> tuple[dict[str, Any], Path]:
    """The one task of a jobspec, and where it stands."""
    if "task" in given:
        if "tasks" in given:
            fault(problems, (*path, "task"), "stands beside tasks: give one of the two.")
        return _mapping(given["task"], (*path, "task"), problems), (*path, "task")
    tasks = given.get("tasks")
    where = (*path, "tasks")
    if not isinstance(tasks, list) or not tasks:
        fault(problems, where, f"{'is missing' if tasks is None else 'names no task'}: give a list of one task.")
        return {"command": ["?"]}, where  # so that the missing task is the only problem
    if len(tasks) > 1:
        fault(problems, where, f"has {len(tasks)} tasks: give one, and create one execution for each of the others.")
    return _mapping(tasks[0], (*where, "0"), problems), (*where, "0")


def _read_command(given: Mapping[str, Any], path: Path, problems: list[Problem], may_be_text: bool = True) -> list[str]:
    """The program and its arguments; a text is split at its spaces as a shell would, but never run by one."""
    where = (*path, "command")
    command = given.get("command")
    if isinstance(command, str) and may_be_text:
        return _split(command, where, problems)
    if not isinstance(command, list) or not command:
        found = f"{quoted(command)} is not a list" if command else "is missing"
        fault(problems, where, f"{found}: give the program and its arguments, such as [sleep, '60'].")
        return []
    for index, word in enumerate(command):
        if not isinstance(word, str):
            fault(problems, (*where, str(index)), f"{quoted(word)} is not text: put it in quotes.")
    return command


def _split(command: str, path: Path, problems: list[Problem]) -> list[str]:
    if "\n" in command.strip():
        fault(problems, path, "has several lines: give a list, such as [sh, -c, 'the lines'].")
        return []
    try:
        words = shlex.split(command)
    except ValueError as error:
        fault(problems, path, f"{quoted(command)} cannot be split into words ({error}): give a list.")
        return []
    if not words:
        fault(problems, path, "is empty: give the program and its arguments.")
    return words


def _surroundings(given: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    """Environment, working directory and duration of attributes, under the job's names; duration apart."""
    found: dict[str, Any] = {}
    if "environment" in given:
        environment = _mapping(given["environment"], (*path, "environment"), problems)
        for key, value in environment.items():
            if not isinstance(value, str):
                where = (*path, "environment", shorten(key))
                fault(problems, where, f"{quoted(value)} is not text: put it in quotes.")
        found["environment"] = environment
    if "cwd" in given:
        found["working_directory"] = _optional_text(given, "cwd", path, problems)
    if "duration" in given:
        found["duration"] = _read_duration(given["duration"], (*path, "duration"), problems)
    return found


def _read_duration(value: Any, path: Path, problems: list[Problem]) -> str | None:
    """A duration from seconds or from text; zero seconds mean none."""
    if value == 0 and not isinstance(value, bool):
        return None
    text = value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        text = f"{value:.9f}".rstrip("0").rstrip(".") + "s"
    try:
        if not isinstance(text, str):
            raise ValueError(f"is neither seconds nor {quantities.DURATION_RULE}")
        quantities.parse_duration(text)
    except ValueError as error:
        fault(problems, path, f"{quoted(value)} {error}.")
        return None
    return text


def _count(value: Any, path: Path, problems: list[Problem]) -> int:
    if isinstance(value, float) and value.is_integer():  # JSON makes no difference between 5 and 5.0
        value = int(value)
    if isinstance(value, Mapping):
        fault(problems, path, "ranges of counts are not supported: give one whole number.")
    elif isinstance(value, bool) or not isinstance(value, int):
        fault(problems, path, f"{quoted(value)} is not a whole number.")
    elif not 1 <= value <= _LARGEST_COUNT:
        fault(problems, path, f"{quoted(value)} is out of range: give a whole number from 1 to {_LARGEST_COUNT}.")
    else:
        return value
    return 1


def _optional_text(given: Mapping[str, Any], key: str, path: Path, problems: list[Problem]) -> str | None:
    value = given.get(key)
    if key in given and not isinstance(value, str):
        fault(problems, (*path, key), f"{quoted(value)} is not text: put it in quotes.")
        return None
    return value


def _carried(values: Mapping[str, Any]) -> dict[str, str]:
    """Annotations for what a job has no field for."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
        if value is not None
    }
