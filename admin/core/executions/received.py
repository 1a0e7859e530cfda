"""Received: what a job really gets of resources, environment, labels and identity, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from admin.core.jobs.job import capped
from admin.core.json_text import JsonObject
from admin.core.placement.routes import DEFINITION, REQUEST, describe_version
from admin.core.settings.builtin_kinds import TASK_RESOURCE, WORKFLOW_EXECUTION_CONFIG

#: The maps of a job, and the branch of the execution config that fills each.
_MAPS = {"environment": "envs", "labels": "labels", "annotations": "annotations"}
#: The kinds of settings that a job itself may override.
OVERRIDABLE = (TASK_RESOURCE.name, WORKFLOW_EXECUTION_CONFIG.name)
_RUN_AS = "security_context.run_as"
#: What goes over every row.
LAYERS = (DEFINITION, REQUEST)


class AmountSource(NamedTuple):
    """Which setting an amount of a resource comes from."""

    setting: str  #: `defaults.memory`, or `limits.memory` where that caps the default
    origin: Mapping[str, Any]


def setting_of(settings: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    """The effective value of a kind, of those that a trail has."""
    return next(value for value in settings if value["resource_type"] == kind)


def source_of_amount(
    resource: str, amount: str, given_job: Mapping[str, Any] | None, settings: Sequence[Mapping[str, Any]]
) -> AmountSource | None:
    """The setting that an amount comes from; None where the job itself says it.

    `given_job` is the job as its request or workflow gave it; without it that is not known.
    """
    resources = (given_job or {}).get("resources", {})
    if any(resource in resources.get(part, {}) for part in ("requests", "limits")):
        return None
    effective = setting_of(settings, TASK_RESOURCE.name)
    default, limit = (effective["value"].get(part, {}).get(resource) for part in ("defaults", "limits"))
    if default is None or amount != capped(default, limit):
        return None
    setting = f"{'defaults' if amount == default else 'limits'}.{resource}"
    return AmountSource(setting, effective["origins"][setting])


def received(
    job: Mapping[str, Any],
    given_job: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, Any]],
    *,
    project: str,
    launched: Mapping[str, Mapping[str, str]],
) -> list[JsonObject]:
    """Each thing that a job gets, with the origin of the setting that gives it; without one the job itself does.

    `overrides` is the path of the setting that something of the job itself, of the launch plan's definition or of the
    request wins over; `source` is what gives it where that is no row: the labels of the project, or by name and version
    the launch plan or the workflow of those that were launched.
    """
    entries = [
        *_resources(job, given_job, settings),
        *_maps(job, given_job, settings, project),
        *_identity(job, settings),
    ]
    registered = {noun: describe_version(noun, identifier) for noun, identifier in launched.items()}
    return [_with_source(entry, registered, is_known=given_job is not None) for entry in entries]


def _with_source(entry: JsonObject, registered: Mapping[str, str], *, is_known: bool) -> JsonObject:
    """What a job gets with the launch plan or workflow that gives it; `is_known` where the job as given is known."""
    is_of_plan = entry.get("origin", {}).get("level") == DEFINITION
    source = registered.get("launch_plan" if is_of_plan else "workflow")
    if source is None or "source" in entry or ("origin" in entry and not is_of_plan):
        return entry
    return entry | {"source": source} if is_of_plan or is_known else entry


def _resources(
    job: Mapping[str, Any], given_job: Mapping[str, Any] | None, settings: Sequence[Mapping[str, Any]]
) -> Iterator[JsonObject]:
    resources = job.get("resources", {})
    defaults = setting_of(settings, TASK_RESOURCE.name)["value"].get("defaults", {})
    for part in ("requests", "limits"):
        for resource, amount in resources.get(part, {}).items():
            entry = {"field": f"resources.{part}.{resource}", "value": amount}
            source = source_of_amount(resource, amount, given_job, settings)
            if source is not None:
                yield entry | {"origin": source.origin}
            else:
                yield entry | ({"overrides": f"defaults.{resource}"} if resource in defaults else {})
    for name in ("nodes", "tasks", "duration"):
        if resources.get(name, 1) != 1:  # of which there is one unless the job says otherwise
            yield {"field": f"resources.{name}", "value": str(resources[name])}
    if resources.get("exclusive"):
        yield {"field": "resources.exclusive", "value": "true"}


def _maps(
    job: Mapping[str, Any], given_job: Mapping[str, Any] | None, settings: Sequence[Mapping[str, Any]], project: str
) -> Iterator[JsonObject]:
    config = setting_of(settings, WORKFLOW_EXECUTION_CONFIG.name)
    for name, branch in _MAPS.items():
        values = config["value"].get(branch, {}).get("values", {})
        if not isinstance(values, Mapping):
            values = {entry["key"]: entry["value"] for entry in values}
        for key, value in job.get(name, {}).items():
            entry, setting = {"field": f"{name}.{key}", "value": value}, f"{branch}.values.{key}"
            if name == "labels" and given_job is not None and key not in {*values, *given_job.get(name, {})}:
                yield entry | {"source": f"the labels of project {project}"}
            elif key not in values:
                yield entry
            elif str(values[key]) == value:
                yield entry | _given(config, setting)
            else:
                yield entry | {"overrides": setting}


def _identity(job: Mapping[str, Any], settings: Sequence[Mapping[str, Any]]) -> Iterator[JsonObject]:
    if job.get("identity"):
        config = setting_of(settings, WORKFLOW_EXECUTION_CONFIG.name)
        given = _given(config, _RUN_AS) if _RUN_AS in config["origins"] else {}
        yield {"field": "identity", "value": job["identity"]} | given


def _given(effective: Mapping[str, Any], setting: str) -> JsonObject:
    """Where a setting comes from, and that it is over a row or the configuration, where those say it too."""
    origin = effective["origins"][setting]
    if origin["level"] not in LAYERS:
        return {"origin": origin}
    below = (step for step in effective["trail"] if step["level"] not in LAYERS)
    is_over = any(setting in step.get(part, ()) for step in below for part in ("used", "overridden"))
    return {"origin": origin} | ({"overrides": setting} if is_over else {})
