"""Jobs: what an execution runs, in terms that every engine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from admin.core import names
from admin.core.fields.branches import MapOf, Section, read
from admin.core.fields.compounds import FreeForm, ListOf
from admin.core.fields.leaves import Boolean, Duration, Integer, Text
from admin.core.problems import Problem, Refused, dotted, invalid
from admin.core.quantities import parse_quantity
from admin.core.resources import LARGEST, TASK_RESOURCES, parse_demand
from admin.core.settings.builtin_kinds import ANNOTATION_VALUES, LABEL_VALUES
from admin.core.settings.resolution import Resolved
from admin.core.token_pools.documents import NEEDS

#: The task types of jobs that say none: those with an image, and those without.
TASK_TYPE_OF_IMAGES, TASK_TYPE_OF_COMMANDS = "container", "process"

#: The most nodes, and tasks, of one job.
MOST_NODES = MOST_TASKS = 10**6

_LINE = Text(pattern=r"[^\x00]*", min_length=0, max_length=65_536)

JOB = Section(
    is_inherited=False,
    fields={
        "task_type": Text(
            max_length=255, description="What plugins are chosen by; container, or process without image."
        ),
        "command": ListOf(item=_LINE, unique=False, max_items=4096, description="The program and its arguments."),
        "image": Text(max_length=2048, description="Container image."),
        "environment": MapOf(
            value=_LINE,
            description="Environment variables.",
            key_pattern=names.ENV_NAME,
            key_rule=names.ENV_NAME_RULE,
        ),
        "working_directory": Text(max_length=4096),
        "resources": Section(
            is_inherited=False,
            fields={
                "nodes": Integer(
                    minimum=1,
                    maximum=MOST_NODES,
                    description="Machines; 1, or with several tasks as many as they need.",
                ),
                "tasks": Integer(
                    minimum=1, maximum=MOST_TASKS, description="Copies of the command, over all nodes; 1."
                ),
                "exclusive": Boolean(description="Whether it has its nodes to itself; false."),
                "requests": Section(is_inherited=False, fields=TASK_RESOURCES, description="What each task needs."),
                "limits": Section(
                    is_inherited=False, fields=TASK_RESOURCES, description="The most each task may take."
                ),
                "duration": Duration(description="The longest it may run."),
            },
        ),
        "requires": ListOf(item=FreeForm(), min_items=0, description="What the nodes that it runs on must have."),
        "compatibility": FreeForm(description="What its image needs: architecture, os, and fields of subsystems."),
        "outputs": ListOf(item=Text(max_length=4096), min_items=0, description="Small files to bring back."),
        "token_pools": NEEDS,
        "labels": LABEL_VALUES,
        "annotations": ANNOTATION_VALUES,
    },
)


def read_job(document: Any, path: tuple[str, ...]) -> dict[str, Any]:
    """A job in its normal form, before settings are applied; Invalid with every problem."""
    return check_job(without_nulls(read(JOB, document, path)), path)


def check_job(job: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The job, if it runs something and its requests fit its own limits; Invalid otherwise."""
    if not job.get("command") and not job.get("image"):
        raise invalid(dotted(path), "runs nothing: give a command, an image, or both.")
    resources = job.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    both = [resource for resource in TASK_RESOURCES if resource in requests and resource in limits]
    field = f"{dotted(path)}.resources.requests"
    excesses = [_own_excess(f"{field}.{resource}", requests[resource], limits[resource]) for resource in both]
    _refuse_excesses([problem for problem in excesses if problem is not None])
    if "gpu" in both and parse_quantity(requests["gpu"]) != parse_quantity(limits["gpu"]):
        reason = (
            f"{requests['gpu']} is not the job's own limit of {limits['gpu']}: GPUs are held whole, so both must be"
        )
        raise invalid(f"{field}.gpu", f"{reason} the same; give one of them, or the same number twice.")
    return job


def _own_excess(field: str, request: str, limit: str) -> Problem | None:
    """The problem of a request above the job's own limit."""
    if parse_quantity(request) <= parse_quantity(limit):
        return None
    reason = f"{request} is above the job's own limit of {limit}: lower the request, or raise the limit."
    return Problem(field=field, reason=reason)


def _refuse_excesses(problems: list[Problem]) -> None:
    if problems:
        raise Refused("above_limit", *problems)


def without_nulls(value: Any) -> Any:
    """A mapping without its null entries, at any depth."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(item) for name, item in value.items() if item is not None}


class AboveLimit(NamedTuple):
    """An amount that a job asks for, above the limit of its resource."""

    part: str  #: `requests` or `limits`
    resource: str
    amount: str
    limit: str


class AskedAmount(NamedTuple):
    """An amount of a resource that a job asks for."""

    part: str  #: `requests` or `limits`
    resource: str
    amount: str


def asked_amounts(job: Mapping[str, Any]) -> tuple[AskedAmount, ...]:
    """The amounts that a job asks for, by resource."""
    resources = job.get("resources") or {}
    return tuple(
        AskedAmount(part, resource, amount)
        for resource in TASK_RESOURCES
        for part in ("requests", "limits")
        if (amount := resources.get(part, {}).get(resource)) is not None
    )


def above_limits(asked: Iterable[AskedAmount], limits: Mapping[str, str | None]) -> Iterator[AboveLimit]:
    """The amounts that are asked for beyond limits."""
    for part, resource, amount in asked:
        limit = limits.get(resource)
        if limit is not None and parse_quantity(amount) > parse_quantity(limit):
            yield AboveLimit(part, resource, amount, limit)


def with_resources(job: Mapping[str, Any], allowed: Resolved, path: str) -> dict[str, Any]:
    """A job with the defaults filled in and the limits enforced; Invalid for a request above a limit.

    A default is capped at the limit. An explicit request is granted or refused, never changed.
    """
    resources = dict(job.get("resources", {}))
    requests, limits = dict(resources.get("requests", {})), dict(resources.get("limits", {}))
    allowed_defaults, allowed_limits = allowed.value.get("defaults", {}), allowed.value.get("limits", {})
    problems: list[Problem] = []
    for part, resource, amount, limit in above_limits(asked_amounts(job), allowed_limits):
        origin = allowed.origins["limits", resource]
        reason = f"{amount} is above the limit of {limit} set {origin}: ask for less, or raise it."
        setting = origin.setting(allowed.kind.name, f"limits.{resource}")
        problems.append(Problem(field=f"{path}.resources.{part}.{resource}", reason=reason, setting=setting))
    for resource in TASK_RESOURCES:
        most = allowed_limits.get(resource)
        request = requests.get(resource) or limits.get(resource) or capped(allowed_defaults.get(resource), most)
        if request is None:
            continue
        requests[resource] = request
        excess = _own_excess(f"{path}.resources.requests.{resource}", request, limits.setdefault(resource, request))
        if excess is not None:
            problems.append(excess)
    _refuse_excesses(problems)
    filled = {"requests": _ordered(requests), "limits": _ordered(limits)}
    # Several tasks without a number of nodes may run on any, each task on one.
    nodes = {} if resources.get("tasks", 1) > 1 and not resources.get("exclusive") else {"nodes": 1}
    resources = {**nodes, "tasks": 1, **resources, **{name: part for name, part in filled.items() if part}}
    return {**job, "resources": resources}


def _ordered(amounts: Mapping[str, str]) -> dict[str, str]:
    return {resource: amounts[resource] for resource in TASK_RESOURCES if resource in amounts}


def capped(default: str | None, limit: str | None) -> str | None:
    """A default amount, or the limit where that is less."""
    if default is None or limit is None:
        return default
    return min(default, limit, key=parse_quantity)


def demand(job: Mapping[str, Any]) -> dict[str, int]:
    """The resources that a cluster must have for a job; it takes them while it runs, but for nodes that it shares."""
    resources = job.get("resources", {})
    tasks = resources.get("tasks", 1)
    taken = {
        resource: min(parse_demand(resource, quantity) * tasks, LARGEST)
        for resource, quantity in resources.get("requests", {}).items()
    }
    return {**taken, "nodes": resources.get("nodes", 1), "executions": 1}


def task_type(job: Mapping[str, Any]) -> str:
    """The task type by which plugins are chosen."""
    return str(job.get("task_type") or (TASK_TYPE_OF_IMAGES if job.get("image") else TASK_TYPE_OF_COMMANDS))
