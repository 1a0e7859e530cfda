"""Own settings: which fields of an execution's settings it does not follow, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from admin.core.executions.own_settings import FieldEffect, field_effects_on
from admin.core.json_text import JsonObject
from admin.core.registrations import Identifier
from admin.core.settings import trails
from admin.core.settings.resolution import Resolved
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.store.executions import Execution

EffectsByKind = Mapping[str, Sequence[FieldEffect]]


def effects_on_job(
    settings: Iterable[Resolved], workflow: Identifier | None, job: JsonObject | None
) -> dict[str, list[FieldEffect]]:
    """By kind, the fields of effective values that a job as it was given does not follow; None where that is gone."""
    effects = {value.kind.name: field_effects_on(value, workflow, job) for value in settings}
    return {kind: effects_of_kind for kind, effects_of_kind in effects.items() if effects_of_kind}


def effects_on_execution(
    context: Context, execution: Execution, settings: Iterable[JsonObject], job: JsonObject | None
) -> dict[str, list[FieldEffect]]:
    """The same of a stored execution, by the settings that a decision stored."""
    kinds, workflow = context.settings.kinds, execution.launched.get("workflow")
    scope = Scope(
        project=execution.project,
        domain=execution.domain,
        workflow=execution.workflow,
        launch_plan=execution.launch_plan,
    )
    values = [
        trails.read_resolved(kinds[value["resource_type"]], scope, value)
        for value in settings
        if value["resource_type"] in kinds
    ]
    return effects_on_job(values, None if workflow is None else Identifier(**workflow), job)
