"""The spec of an execution: the fields of a request, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from admin.core.executions.retries import RETRY, retry_problems
from admin.core.fields.branches import Section, read
from admin.core.fields.compounds import FreeForm, Record
from admin.core.fields.leaves import DNS_LABEL, ENTITY_NAME, Choice, Integer, Text, not_null, numbered_choice
from admin.core.fleet import asking
from admin.core.fleet.documents import STRATEGY, strategy_problems
from admin.core.fleet.fleet import CONSTRAINT
from admin.core.graph.compatibility import empty_problems, null_requirements
from admin.core.jobs.job import JOB, without_nulls
from admin.core.json_text import json_string
from admin.core.placement.candidates import RequestedStrategy
from admin.core.placement.constraints.rules import RULES
from admin.core.placement.routes import Target
from admin.core.problems import Path, Problem, dotted, invalid, raise_problems, shorten
from admin.core.settings import builtin_kinds as kinds
from admin.core.token_pools.documents import NEEDS

#: An execution becomes a native job, so its name is one that Kubernetes accepts.
EXECUTION_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
EXECUTION_NAME_RULE = (
    "lower-case letters, digits and '-', at most 63, starting with a letter and ending with a letter or digit"
)

IDENTIFIER = {"project": DNS_LABEL, "domain": DNS_LABEL, "name": ENTITY_NAME, "version": ENTITY_NAME}


def _not_null(payload: Section) -> Section:
    """A payload whose fields may not be null: attributes may unset what a broader scope says, requests not."""
    return replace(payload, fields={name: not_null(field) for name, field in payload.fields.items()})


#: Settings that a launch plan's definition and a request may both give, over the attributes.
SETTINGS: dict[str, Any] = {
    **kinds.WORKFLOW_EXECUTION_CONFIG.payload.fields,
    "cluster_assignment": _not_null(kinds.CLUSTER_ASSIGNMENT.payload),
    "execution_cluster_label": _not_null(kinds.EXECUTION_CLUSTER_LABEL.payload),
    "quality_of_service": kinds.QUALITY_OF_SERVICE.payload,
}
#: Flyte's older form of an identity.
AUTH_ROLE = Record(drop_empty=True, fields={"assumable_iam_role": Text(), "kubernetes_service_account": Text()})

_NOTIFICATIONS = "nobody is notified: `rainbowctl wait execution NAME` ends when an execution does"
_SCHEDULES = "launch plans have no schedule: start executions from a scheduler of your own"
#: Fields of Flyte's that have no meaning here, each with the reason.
REFUSED = {
    "tags": "there are no tags: give executions labels",
    "notifications": _NOTIFICATIONS,
    "disable_all": _NOTIFICATIONS,
    "schedule": _SCHEDULES,
    "schedules": _SCHEDULES,
    "entity_metadata": f"{_NOTIFICATIONS}, and {_SCHEDULES}",
}

EXECUTION_SPEC = Section(
    exclusive=("launch_plan", "job", "jobspec"),
    refused=REFUSED,
    fields={
        **SETTINGS,
        "launch_plan": Record(
            description="What to launch; a workflow or task is resolved without a launch plan.",
            required=("name",),
            drop_empty=True,
            fields={
                "resource_type": Choice(
                    words=("LAUNCH_PLAN", "WORKFLOW", "TASK"), numbers={"TASK": 1, "WORKFLOW": 2, "LAUNCH_PLAN": 3}
                ),
                **IDENTIFIER,
            },
        ),
        "retry": RETRY,
        "token_pools": NEEDS,
        "job": JOB,
        "jobspec": FreeForm(description="A jobspec: the simple form, the next generation's, or Flux's."),
        "cluster": ENTITY_NAME,
        "strategy": replace(STRATEGY, description="How a cluster is chosen, in place of the pool's strategy."),
        "rules": RULES,
        **asking.REQUEST_FIELDS,
        "auth_role": AUTH_ROLE,
        "metadata": Record(
            fields={
                "mode": numbered_choice(
                    "MANUAL", "SCHEDULED", "SYSTEM", "RELAUNCH", "CHILD_WORKFLOW", "RECOVERED", "TRIGGER"
                ),
                "principal": Text(min_length=0, max_length=255),
                "nesting": Integer(minimum=0, maximum=1000),
            }
        ),
    },
)


def read_spec(spec: Any, path: Path = ("spec",)) -> dict[str, Any]:
    """A request's spec in its normal form; Invalid with every problem."""
    normal = _with_strategy(read(EXECUTION_SPEC, spec, path))
    asking_problems = [
        Problem(field=dotted((*path, name)), reason=reason)
        for name, reason in asking.asking_problems(normal, asking.REQUEST_FIELDS).items()
    ]
    strategic = [*strategy_problems(normal, (*path, "rules")), *asking_problems]
    unsaid = [problem for name in ("job", "jobspec") for problem in null_requirements(normal.get(name), (*path, name))]
    empty = [
        problem
        for name in ("job", "jobspec")
        for problem in empty_problems((normal.get(name) or {}).get("compatibility"), (*path, name, "compatibility"))
    ]
    raise_problems([*retry_problems(normal, path), *strategic, *empty, *unsaid])
    if not any(normal.get(name) for name in EXECUTION_SPEC.exclusive):
        raise invalid(dotted(path), "runs nothing: give one of launch_plan, job and jobspec.")
    for name in ("launch_plan", "job", "cluster", "metadata", "auth_role"):
        if name in normal:
            normal[name] = without_nulls(normal[name])
    kept = {name: value for name, value in normal.items() if value is not None or name in SETTINGS}
    return with_auth_role(kept, path)


def with_auth_role(spec: dict[str, Any], path: Path) -> dict[str, Any]:
    """Flyte's older `auth_role` joined with the `security_context`; Invalid where the two contradict each other."""
    role = spec.pop("auth_role", None) or {}
    identity = {
        ours: (theirs, role[theirs])
        for ours, theirs in (("iam_role", "assumable_iam_role"), ("k8s_service_account", "kubernetes_service_account"))
        if role.get(theirs)
    }
    if not identity:
        return spec
    context = spec.get("security_context") or {}
    run_as = context.get("run_as") or {}
    problems = [
        Problem(
            field=dotted((*path, "auth_role", theirs)),
            reason=f"is '{shorten(name)}', and security_context.run_as.{ours} is '{shorten(run_as[ours])}': give one.",
        )
        for ours, (theirs, name) in identity.items()
        if run_as.get(ours, name) != name
    ]
    raise_problems(problems)
    names = {ours: name for ours, (_theirs, name) in identity.items()}
    return {**spec, "security_context": {**context, "run_as": {**names, **run_as}}}


def target_of(settings: Mapping[str, Any]) -> Target:
    """Where a request's or a definition's settings ask to run."""
    return Target(
        cluster=settings.get("cluster"),
        pool=settings.get("cluster_assignment", {}).get("cluster_pool_name"),
        label=settings.get("execution_cluster_label", {}).get("value"),
    )


def _with_strategy(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec with the strategy that its rules, or what it says of asking, are for."""
    if spec.get("strategy") is not None:
        return spec
    has_rules = spec.get("rules") is not None
    asks = any(spec.get(name) is not None for name in asking.REQUEST_FIELDS)
    if has_rules == asks:
        return spec
    return {**spec, "strategy": CONSTRAINT if has_rules else asking.ASK}


def requested_strategy(request: Mapping[str, Any]) -> RequestedStrategy | None:
    """The strategy that a request asks for; None for that of its pool."""
    name, rules = request.get("strategy"), request.get("rules")
    if name is None:
        return None
    given = tuple((field, request[field]) for field in asking.REQUEST_FIELDS if request.get(field) is not None)
    return RequestedStrategy(name, None if rules is None else json_string(rules), given)


def request_warnings(request: Mapping[str, Any]) -> list[dict[str, str]]:
    """Warnings about a request that is accepted."""
    target = target_of(request)
    named = [
        kind for kind, name in (("cluster", target.cluster), ("pool", target.pool), ("label", target.label)) if name
    ]
    if len(named) < 2:
        return []
    message = f"The request names a {' and a '.join(named)}; the {named[0]} counts."
    return [{"code": "several_places", "message": message}]
