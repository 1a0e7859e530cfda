"""Own settings: what a launch plan's definition or a registered job says itself, and so wins over attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from admin.core.executions.consequences import ROUTE_KINDS, ConsequenceCode
from admin.core.executions.effective_settings import payload_of
from admin.core.executions.spec import target_of
from admin.core.jobs.job import task_type
from admin.core.json_text import JsonObject
from admin.core.problems import Path, dotted, quoted, shorten
from admin.core.registrations import Identifier
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.resolution import Resolved
from admin.core.settings.warnings import WarningCode, describe_excess, describe_unread, excesses

#: The maps of the execution config that a job has too; its own entries win.
_JOB_MAPS = {"labels": "labels", "annotations": "annotations", "envs": "environment"}
#: Why executions do not follow a field, the reason that decides first.
FIELD_OUTCOMES = (
    WarningCode.LAUNCH_PLAN_SAYS,
    WarningCode.IGNORED_BY_JOB,
    WarningCode.UNREAD_FIELD,
    WarningCode.DEFAULT_CAPPED,
)
#: In place of a workflow's version, of a job that a request gives itself.
_AD_HOC = Identifier(project="", domain="", name="", version="")


@dataclass(frozen=True, kw_only=True)
class RegisteredWork:
    """What is registered and runs at the scope of a workflow or launch plan."""

    plan: Identifier | None = None  #: the active version of the launch plan that the scope is for
    definition: Mapping[str, Any] = field(default_factory=dict)  #: its settings
    jobs: Mapping[Identifier, JsonObject] = field(default_factory=dict)  #: by the versions of the workflow that are run


@dataclass(frozen=True, kw_only=True)
class FieldEffect:
    """What happens with one field of an effective value that executions do not simply follow."""

    field: str
    outcome: WarningCode | ConsequenceCode
    effect: str  #: what wins, in a few words
    message: str  #: the same in a sentence, about all fields of one reason
    value: Any = None  #: what executions get instead, where that is one value

    @property
    def is_overridden(self) -> bool:
        """Whether the field counts for nothing; one that is capped still says that there is an amount."""
        return self.outcome is not WarningCode.DEFAULT_CAPPED


def field_effects(
    resolved: Resolved, registered: RegisteredWork, paths: Collection[Path] | None = None
) -> list[FieldEffect]:
    """The fields of an effective value that executions at its scope do not follow; one reason for each field.

    With `paths` only of those fields. Where executions go by another pool or label is not among it: `consequences` has
    that.
    """
    kind, scope = resolved.kind, resolved.scope
    left = [path for path in (*resolved.origins, *resolved.unset) if paths is None or path in paths]
    effects: list[FieldEffect] = []
    if kind.name not in ROUTE_KINDS:
        covered = _take(left, definition_paths(kind, left, registered.definition))
        effects += _of_definition(kind, covered, registered, definition_message(scope.launch_plan, covered))
    jobs = list(registered.jobs.values())
    covered = _take(left, job_paths(kind, left, jobs))
    effects += _of_jobs(kind, covered, registered.jobs, job_message(kind, scope.workflow, jobs, covered))
    effects += unread_fields(kind, _take(left, kind.unread_among(left)))
    for excess in excesses(resolved) if kind.name == kinds.TASK_RESOURCE.name else ():
        if ("defaults", excess.resource) in left:
            effects.append(
                FieldEffect(
                    field=f"defaults.{excess.resource}",
                    outcome=WarningCode.DEFAULT_CAPPED,
                    effect=f"executions get {excess.limit}, the limit",
                    message=describe_excess(excess),
                    value=excess.limit,
                )
            )
    return effects


def field_effects_on(resolved: Resolved, workflow: Identifier | None, job: JsonObject | None) -> list[FieldEffect]:
    """The same for one execution, of its own settings and its job as given; None where that is not known.

    What its launch plan or its request says is part of these settings, and goes over the job.
    """
    jobs = {} if job is None else {workflow or _AD_HOC: job}
    paths = [path for path, origin in resolved.origins.items() if not origin.layer]
    return [*field_effects(resolved, RegisteredWork(jobs=jobs), paths), *_unread_in_layers(resolved)]


def unread_in_launch(settings: Iterable[Resolved]) -> list[FieldEffect]:
    """The fields that no engine of Rainbow reads, of those that a request or its launch plan says itself."""
    return [effect for resolved in settings if resolved.kind.unread for effect in _unread_in_layers(resolved)]


def _unread_in_layers(resolved: Resolved) -> Iterator[FieldEffect]:
    of_layers = (path for path, origin in resolved.origins.items() if origin.layer)
    return unread_fields(resolved.kind, resolved.kind.unread_among(of_layers))


def without_overridden(resolved: Resolved, effects: Iterable[FieldEffect]) -> Resolved:
    """An effective value whose trail counts the fields that something registered overrides as overridden."""
    fields = {effect.field for effect in effects if effect.is_overridden}
    if not fields:
        return resolved
    trail = []
    for step in resolved.trail:
        used = tuple(path for path in step.used if dotted(path) not in fields)
        lost = tuple(path for path in step.used if path not in used)
        trail.append(step._replace(used=used, overridden=(*step.overridden, *lost)))
    return resolved._replace(trail=tuple(trail))


def _take(left: list[Path], paths: Collection[Path]) -> list[Path]:
    """Those of the paths that are left which are among some others; they are left no more."""
    taken = [path for path in left if path in paths]
    left[:] = [path for path in left if path not in taken]
    return taken


def definition_paths(kind: Kind, paths: Collection[Path], definition: Mapping[str, Any]) -> Collection[Path]:
    """Those of some leaves over which the definition of a launch plan wins; others may be among them."""
    if kind.name in ROUTE_KINDS:
        target = target_of(definition)
        return paths if target.pool or target.label else []
    own_leaves = kind.leaves(payload_of(kind, definition))
    return paths if own_leaves and kind.merge is Merge.REPLACE else own_leaves


def definition_message(plan: str, paths: Iterable[Path]) -> str:
    """That the definition of a launch plan says some leaves itself."""
    return f"The definition of launch plan '{plan}' says {_listed(paths)} itself, and wins over attributes."


def job_paths(kind: Kind, paths: Iterable[Path], jobs: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Those of some leaves that every one of some jobs ignores."""
    return [path for path in paths if jobs and all(_is_ignored(kind, path, job) for job in jobs)]


def job_message(kind: Kind, workflow: str, jobs: Iterable[Mapping[str, Any]], paths: Iterable[Path]) -> str:
    """That the jobs of a workflow ignore some leaves."""
    job = f"The job of workflow '{workflow}'" if workflow else "The job"
    if kind.name == kinds.PLUGIN_OVERRIDE.name:
        return f"{job} is of the task type {_task_types(jobs)}. This does not reach it."
    return f"{job} says {_listed(paths)} itself. This does not reach it."


def _is_ignored(kind: Kind, path: Path, job: Mapping[str, Any]) -> bool:
    """Whether a job has its own word on a leaf."""
    if kind.name == kinds.PLUGIN_OVERRIDE.name:
        return path[-1] != task_type(job)
    return _own_value(kind, path, job) is not None


def _own_value(kind: Kind, path: Path, job: Mapping[str, Any]) -> str | None:
    """What a job says itself of a leaf."""
    if kind.name == kinds.TASK_RESOURCE.name and path[0] == "defaults":
        resources = job.get("resources", {})
        amounts = (resources.get(part, {}).get(path[-1]) for part in ("requests", "limits"))
        return next((amount for amount in amounts if amount is not None), None)
    if kind.name == kinds.WORKFLOW_EXECUTION_CONFIG.name and path[0] in _JOB_MAPS:
        value: str | None = job.get(_JOB_MAPS[path[0]], {}).get(path[-1])
        return value
    return None


def _of_definition(
    kind: Kind, paths: Iterable[Path], registered: RegisteredWork, message: str
) -> Iterator[FieldEffect]:
    own_leaves = kind.leaves(payload_of(kind, registered.definition))
    plan = registered.plan
    who = "the launch plan" if plan is None else f"launch plan {plan.name} {plan.version}"
    for path in paths:
        value = own_leaves.get(path)
        if isinstance(value, dict) and path[0] in _JOB_MAPS:  # a variable of the environment, with its key
            value = value["value"]
        says = f"says {_shown(value)}" if value is not None else "unsets it" if path in own_leaves else "says otherwise"
        yield FieldEffect(
            field=dotted(path),
            outcome=WarningCode.LAUNCH_PLAN_SAYS,
            effect=f"{who} {says}",
            message=message,
            value=value,
        )


def _of_jobs(
    kind: Kind, paths: Iterable[Path], jobs: Mapping[Identifier, JsonObject], message: str
) -> Iterator[FieldEffect]:
    name = min((workflow.name for workflow in jobs), default="")
    version = f" {min(workflow.version for workflow in jobs)}" if len(jobs) == 1 else ""
    who = f"the job of workflow {name}{version}" if name else "the job"
    for path in paths:
        values = {_own_value(kind, path, job) for job in jobs.values()}
        value = values.pop() if len(values) == 1 else None
        if kind.name == kinds.PLUGIN_OVERRIDE.name:
            says = f"is of the task type {_task_types(jobs.values())}"
        else:
            says = "says it itself" if value is None else f"says {_shown(value)}"
        yield FieldEffect(
            field=dotted(path),
            outcome=WarningCode.IGNORED_BY_JOB,
            effect=f"{who} {says}",
            message=message,
            value=value,
        )


def unread_fields(kind: Kind, paths: Sequence[Path]) -> Iterator[FieldEffect]:
    """What becomes of fields that no part of Rainbow reads."""
    is_passed_on = kind.name != kinds.TASK_RESOURCE.name
    effect = "passed to agents; no engine of Rainbow reads it" if is_passed_on else "nothing reads it"
    message = describe_unread(kind, paths) if paths else ""
    for path in paths:
        yield FieldEffect(field=dotted(path), outcome=WarningCode.UNREAD_FIELD, effect=effect, message=message)


def _task_types(jobs: Iterable[Mapping[str, Any]]) -> str:
    return " or ".join(dict.fromkeys(f"'{task_type(job)}'" for job in jobs))


def _shown(value: Any) -> str:
    return shorten(value if isinstance(value, str) else quoted(value))


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(dotted, paths))
