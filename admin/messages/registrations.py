"""Workflows and launch plans, by version."""

from __future__ import annotations

from typing import Annotated, Any

from marshmallow import ValidationError, fields

from admin.core.registrations import ACTIVE, INACTIVE, Identifier
from admin.messages.requests import (
    NAME,
    PageQuery,
    PayloadField,
    RequestSchema,
)
from admin.messages.shared import Answer, Json, Time, one_of
from admin.store.registrations import Registered, RegisteredFilter

_NUMBERS = {1: ACTIVE, 0: INACTIVE}


class IdentifierBody(RequestSchema):
    project = fields.String(required=True, validate=NAME)
    domain = fields.String(required=True, validate=NAME)
    name = fields.String(required=True, validate=NAME)
    version = fields.String(required=True, validate=NAME)
    resource_type = fields.Raw(metadata={"description": "As Flyte's clients send it; the path tells."})


class RegisterBody(RequestSchema):
    id = fields.Nested(IdentifierBody, required=True)
    spec = PayloadField(required=True)


class StateField(fields.String):
    """ACTIVE or INACTIVE, or Flyte's number for it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        known = _NUMBERS.get(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if known not in (ACTIVE, INACTIVE):
            raise ValidationError("is neither ACTIVE nor INACTIVE.")
        return known


class RegisterPlanBody(RegisterBody):
    state = StateField(load_default=INACTIVE)


class LaunchPlanStateBody(RequestSchema):
    state = StateField(required=True)


class PlansQuery(PageQuery):
    workflow = fields.String(validate=NAME)


def versions_filter(key: dict[str, str], *, workflow: str | None = None, state: str | None = None) -> RegisteredFilter:
    """The versions that a path names, perhaps only those of a workflow or in a state."""
    return RegisteredFilter(**key, workflow=workflow, state=state)


class IdentifierAnswer(Answer):
    project: str
    domain: str
    name: str
    version: str

    @classmethod
    def from_identifier(cls, id: Identifier) -> IdentifierAnswer:
        return cls(project=id.project, domain=id.domain, name=id.name, version=id.version)


class WorkflowAnswer(Answer):
    id: IdentifierAnswer
    spec: Json
    created_at: Time

    @classmethod
    def from_registered(cls, workflow: Registered) -> WorkflowAnswer:
        id = IdentifierAnswer.from_identifier(workflow.id)
        return cls(id=id, spec=workflow.spec, created_at=workflow.created_at)


class LaunchPlanAnswer(Answer):
    id: IdentifierAnswer
    spec: Json
    created_at: Time
    state: Annotated[str, one_of(ACTIVE, INACTIVE)]
    updated_at: Time
    changed: bool | None = None

    @classmethod
    def from_registered(cls, launch_plan: Registered, *, changed: bool | None = None) -> LaunchPlanAnswer:
        return cls(
            id=IdentifierAnswer.from_identifier(launch_plan.id),
            spec=launch_plan.spec,
            created_at=launch_plan.created_at,
            state=launch_plan.state,
            updated_at=launch_plan.updated_at or launch_plan.created_at,
            changed=changed,
        )


class WorkflowRegistered(Answer):
    workflow: WorkflowAnswer
    created: bool


class LaunchPlanRegistered(Answer):
    launch_plan: LaunchPlanAnswer
    created: bool
    warnings: list[Json]


class WorkflowsAnswer(Answer):
    workflows: list[WorkflowAnswer]
    token: str | None = None


class LaunchPlansAnswer(Answer):
    launch_plans: list[LaunchPlanAnswer]
    token: str | None = None
