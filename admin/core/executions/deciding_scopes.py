"""Deciding scopes: the scope that said where an execution goes, and the one whose limit ended it, as one text each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admin.core.executions.limits import LIMITED, QUEUEING_BUDGET_EXCEEDED, TIME_LIMITS
from admin.core.executions.received import setting_of, source_of_amount
from admin.core.placement.routes import DEFINITION, EVERYWHERE, PLATFORM_RUNG, REQUEST
from admin.core.problems import Invalid, Problem, shorten
from admin.core.settings.builtin_kinds import QUALITY_OF_SERVICE
from admin.core.settings.scopes import PLATFORM, STORED_LEVELS, Level, Scope

#: What a limit is set by that the request, a workflow or a jobspec gives with the job.
JOB = "job"
#: What decides without being a scope.
OTHERS = (REQUEST, DEFINITION, PLATFORM_RUNG, EVERYWHERE, JOB)

_LEVELS = {level.value: level for level in STORED_LEVELS}
#: Levels by the number of names in a path; a domain is `-/DOMAIN`.
_LEVELS_OF_PATHS = {1: Level.PROJECT, 2: Level.PROJECT_DOMAIN, 3: Level.WORKFLOW, 4: Level.LAUNCH_PLAN}


def name_of(origin: Mapping[str, Any]) -> str:
    """The scope of a rung or an origin as trails have it: `domain production`; or what decides without being one."""
    scope = Scope(**{key: origin[key] for key in Scope._fields if key in origin})
    return str(scope) if scope != PLATFORM else str(origin.get("rung") or origin["level"])


def limit_scope(
    reason: str,
    job: Mapping[str, Any],
    given_job: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, Any]],
) -> str:
    """The scope that set the limit which ended an execution for a reason; "" where none did or that is not known.

    `given_job` is the job as its request or workflow gave it; without it that may have set the limit.
    """
    if reason in TIME_LIMITS:
        return JOB
    if reason == QUEUEING_BUDGET_EXCEEDED:
        origin = setting_of(settings, QUALITY_OF_SERVICE.name)["origins"].get("spec.queueing_budget")
        return PLATFORM_RUNG if origin is None else name_of(origin)
    resource = LIMITED.get(reason)
    limit = job.get("resources", {}).get("limits", {}).get(resource)
    if resource is None or limit is None or given_job is None:
        return ""
    source = source_of_amount(resource, limit, given_job, settings)
    return JOB if source is None else name_of(source.origin)


def parse_scope_name(field: str, text: str) -> str:
    """The name of a scope by itself (`domain production`) or by its path; Invalid where it is neither.

    Paths are PROJECT, PROJECT/DOMAIN and so on, and -/DOMAIN for a domain of all projects.
    """
    if text in OTHERS or not text:
        return text
    word, _, rest = text.partition(" ")
    names = (rest.strip() if word in _LEVELS else text).split("/")
    level: Level | None = _LEVELS.get(word) if rest else None
    if level is None and len(names) == 2 and names[0] == "-":
        level, names = Level.DOMAIN, names[1:]
    level = level or _LEVELS_OF_PATHS.get(len(names))
    if level is None or len(names) != len(level.keys) or not all(names):
        reason = (
            f"'{shorten(text)}' is no scope: give PROJECT, PROJECT/DOMAIN, PROJECT/DOMAIN/WORKFLOW[/LAUNCH_PLAN], "
            f"-/DOMAIN for a domain, or one of {', '.join(OTHERS)}."
        )
        raise Invalid(Problem(field=field, reason=reason))
    return str(Scope(**dict(zip(level.keys, names, strict=True))))
