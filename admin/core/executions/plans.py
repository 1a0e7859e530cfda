"""Run plans: everything an execution runs with, but where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.executions.launches import Launch, Rules
from admin.core.executions.queues import TIERS, find_queues, resolve_quality
from admin.core.executions.spec import requested_strategy
from admin.core.executions.tokens import needed_amounts, write_amounts
from admin.core.graph.job_requests import asked_resources, request_of, with_settings
from admin.core.graph.request_texts import write_request
from admin.core.jobs.job import demand, task_type, with_resources
from admin.core.jobs.parameters import parameters_in
from admin.core.jobs.templates import fill_job
from admin.core.placement.candidates import JobParameters, Workload
from admin.core.placement.choice import WeightedChoice
from admin.core.placement.routes import Route
from admin.core.quantities import parse_duration
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.resolution import Resolved
from admin.core.settings.scopes import Scope

#: The declared kind whose field `priority` orders leases within a tier; it counts by its name, where it is declared.
PRIORITY_KIND = "WORKFLOW_PRIORITY"
_DEFAULT_PRIORITY = 50
#: The largest priority, either way, that the lease order tells apart.
_LARGEST_PRIORITY = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A launch with every setting applied."""

    job: dict[str, Any]
    config: dict[str, Any]
    queues: WeightedChoice | None  #: the queue is drawn by the execution's name
    quality_of_service: dict[str, Any]
    plugins: dict[str, Any] | None
    retry: dict[str, Any] | None
    attributes: dict[str, Any]  #: effective values that a lease carries to the agent unchanged
    effective: EffectiveSettings
    workload: Workload

    @property
    def route(self) -> Route:
        return self.effective.route

    @property
    def queue(self) -> str | None:
        return self.draw_queue(self.workload.key)

    def draw_queue(self, key: str) -> str | None:
        """The queue of an execution with this key; None without queues."""
        return self.queues.draw(key) if self.queues is not None else None

    @property
    def tier(self) -> int:
        """Its place in the lease order; the lower goes first."""
        return TIERS.index(self.quality_of_service.get("tier", "UNDEFINED"))

    @property
    def token_pools(self) -> str | None:
        """How many tokens of which pools it needs while it runs, as it is stored."""
        return write_amounts(self.job.get("token_pools", {}))

    @property
    def priority(self) -> int:
        """Its place within its tier; the higher goes first."""
        return _priority(self.attributes)


def _priority(attributes: Mapping[str, Any]) -> int:
    priority = attributes.get(PRIORITY_KIND, {}).get("priority")
    if not isinstance(priority, int | float):  # not set, or declared as another type
        return _DEFAULT_PRIORITY
    return max(-_LARGEST_PRIORITY, min(int(priority), _LARGEST_PRIORITY))


def build_run_plan(launch: Launch, name: str, effective: EffectiveSettings, rules: Rules) -> RunPlan:
    """Apply every setting to a launch; Invalid where a setting forbids it."""
    settings = effective.settings
    filled = dict(launch.job) if launch.inputs is None else fill_job(launch.job, launch.inputs)
    job = _with_config(filled, effective, launch.project_labels)
    job = with_resources(job, settings[kinds.TASK_RESOURCE.name], launch.job_path)
    job = _with_tokens(job, launch, rules)
    plugins = _plugins(job, settings[kinds.PLUGIN_OVERRIDE.name])
    must_offer = plugins is not None and plugins["missing_plugin_behavior"] == "FAIL"
    return RunPlan(
        job=job,
        config=effective.config.value,
        queues=find_queues(rules.queues, settings[kinds.EXECUTION_QUEUE.name]),
        quality_of_service=resolve_quality(settings[kinds.QUALITY_OF_SERVICE.name], rules.queueing_budgets),
        plugins=plugins,
        retry=launch.request.get("retry") or launch.definition.get("retry"),
        attributes=effective.lease_attributes,
        effective=effective,
        workload=Workload(
            key=f"{launch.scope.project}/{launch.scope.domain}/{name}",
            demand=demand(job),
            exclusive=bool(job["resources"].get("exclusive")),
            asks=_asks(job, filled, launch),
            plugins=tuple(plugins["plugin_id"]) if plugins and must_offer else (),
            requested=requested_strategy(launch.request),
            job=parameters_of(job, launch.scope, _priority(effective.lease_attributes)),
        ),
    )


def _asks(job: Mapping[str, Any], given: Mapping[str, Any], launch: Launch) -> str:
    """What a job asks of a cluster's graph; a number of nodes only where it was given."""
    if launch.asked is not None:
        return write_request(with_settings(launch.asked, job, given))
    resources = {**job["resources"]}
    if "nodes" not in given.get("resources", {}):
        resources.pop("nodes", None)
    path = tuple(launch.job_path.split("."))
    return write_request(request_of({**job, "resources": resources}, path, asked_resources(given)))


def parameters_of(job: Mapping[str, Any], scope: Scope, priority: int) -> JobParameters:
    """What rules may look at of a job at a scope."""
    resources = job["resources"]
    duration = resources.get("duration")
    return JobParameters(
        tasks=resources.get("tasks", 1),
        duration=None if duration is None else float(parse_duration(duration)),
        priority=priority,
        project=scope.project,
        domain=scope.domain,
        workflow=scope.workflow,
        launch_plan=scope.launch_plan,
        labels=job.get("labels", {}),
        parameters=parameters_in(job.get("annotations", {})),
    )


def _with_config(
    job: dict[str, Any], effective: EffectiveSettings, project_labels: Mapping[str, str]
) -> dict[str, Any]:
    """A job under the execution config: the request's and the launch plan's entries win over its own, the rest lose."""
    configured = {**job, "task_type": task_type(job)}
    for name, layers in effective.job_maps.items():
        own = job.get(name, {})
        if layers.unset:
            own = {key: value for key, value in own.items() if key not in layers.unset}
        project = project_labels if name == "labels" else {}
        merged = {**project, **layers.below, **own, **layers.above}
        configured.pop(name, None)
        if merged:
            configured[name] = merged
    identity = effective.config.value.get("security_context", {}).get("run_as")
    return configured | {"identity": identity} if identity else configured


def _with_tokens(job: dict[str, Any], launch: Launch, rules: Rules) -> dict[str, Any]:
    """A job with the tokens that it needs; of each pool the most specific statement counts."""
    layers = (
        rules.task_tokens.get(job["task_type"]),
        job.get("token_pools"),
        launch.definition.get("token_pools"),
        launch.request.get("token_pools"),
    )
    if not any(layers):
        return job
    needed = needed_amounts(*layers)
    others = {name: value for name, value in job.items() if name != "token_pools"}
    return {**others, "token_pools": needed} if needed else others


def _plugins(job: Mapping[str, Any], overrides: Resolved) -> dict[str, Any] | None:
    for entry in overrides.value.get("overrides", []):
        if entry["task_type"] == job["task_type"]:
            behavior = entry.get("missing_plugin_behavior", "FAIL")
            return {"plugin_id": entry["plugin_id"], "missing_plugin_behavior": behavior}
    return None
