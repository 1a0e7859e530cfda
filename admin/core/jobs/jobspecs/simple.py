"""The simple form: the fields of a job, its command at the top, and short names for what one task needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.fields.leaves import Boolean, Quantity
from admin.core.graph.job_requests import requirements_of
from admin.core.jobs.job import JOB
from admin.core.jobs.jobspecs.counts import read_count
from admin.core.jobs.jobspecs.documents import (
    check_version,
    optional_text,
    read_command,
    read_duration,
    read_fields,
    read_mapping,
    to_annotations,
)
from admin.core.jobs.parameters import PARAMETERS
from admin.core.problems import Path, Problem, add_problem, quoted

#: Short names for a task's requests, and the job's names.
_REQUESTS = {
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
_RESOURCES = {"nodes": read_count, "tasks": read_count, "duration": read_duration, "exclusive": Boolean().read}
_FIELDS = (*JOB.fields, "version", "name", "parameters", *_RESOURCES, *_REQUESTS)


def matches(jobspec: Mapping[str, Any]) -> bool:
    return True


def read(jobspec: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    fields = read_fields(jobspec, _FIELDS, path, problems, also=_SHORT_NAMES)
    if "version" in fields:
        check_version(fields, path, problems)
    if isinstance(jobspec.get("time"), int | float):  # minutes to some, seconds to others
        reason = f"{quoted(jobspec['time'])} has no unit: say it, such as 60s or 10m."
        add_problem(problems, (*path, "time"), reason)
    job = {name: fields[name] for name in JOB.fields if name in fields}
    if "command" in fields:
        job["command"] = read_command(fields, path, problems)
    if not fields.keys().isdisjoint(("resources", *_RESOURCES, *_REQUESTS)):
        job["resources"] = _read_resources(fields, path, problems)
    carried: dict[str, Any] = {"jobspec/name": optional_text(fields, "name", path, problems)}
    if "parameters" in fields:
        carried[PARAMETERS] = read_mapping(fields["parameters"], (*path, "parameters"), problems)
    requirements_of(job, path, problems)
    annotations = to_annotations(carried)
    if annotations:
        own = read_mapping(fields.get("annotations", {}), (*path, "annotations"), problems)
        job["annotations"] = {**annotations, **own}
    return job


def _read_resources(fields: Mapping[str, Any], path: Path, problems: list[Problem]) -> dict[str, Any]:
    resources = read_mapping(fields.get("resources", {}), (*path, "resources"), problems)
    requests = read_mapping(resources.get("requests", {}), (*path, "resources", "requests"), problems)
    for name, read_value in _RESOURCES.items():
        if name in fields:
            _set_once(resources, name, read_value(fields[name], (*path, name), problems), (*path, name), problems)
    for name, resource in _REQUESTS.items():
        if name in fields:
            amount = Quantity().read(fields[name], (*path, name), problems)
            _set_once(requests, resource, amount, (*path, name), problems)
    return resources | {"requests": requests} if requests else resources


def _set_once(values: dict[str, Any], name: str, value: Any, path: Path, problems: list[Problem]) -> None:
    if name in values:
        add_problem(problems, path, f"'{name}' is given twice, in two spellings: keep one.")
    elif value is not None:
        values[name] = value
