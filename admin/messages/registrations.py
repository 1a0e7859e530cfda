"""Workflows and launch plans, by version."""

from __future__ import annotations

from typing import Annotated, ClassVar

from marshmallow import fields
from msgspec import Meta

from admin.core.registrations import ACTIVE, INACTIVE
from admin.messages.requests import NAME, AuthorshipFields, Fields, PageQuery, PayloadField, RequestSchema, Word
from admin.messages.shared import Answer, ClaimedBy, Json, ProvenanceAnswer, Time, one_of
from admin.store.registrations import Registered, RegisteredFilter


class IdentifierBody(RequestSchema):
    project = fields.String(required=True, validate=NAME)
    domain = fields.String(required=True, validate=NAME)
    name = fields.String(required=True, validate=NAME)
    version = fields.String(required=True, validate=NAME)
    resource_type = fields.Raw(metadata={"description": "As Flyte's clients send it; the path tells."})


class RegisterBody(AuthorshipFields):
    example: ClassVar[Fields] = {
        "id": {"project": "flytesnacks", "domain": "development", "name": "core.training.train", "version": "v1"},
        "spec": {
            "inputs": {"data": {"type": "string"}, "epochs": {"type": "integer", "default": 3}},
            "job": {"command": ["python", "train.py", "{{ inputs.data }}", "--epochs", "{{ inputs.epochs }}"]},
        },
        "message": "A first version.",
        "claimed_by": "ada",
    }

    id = fields.Nested(IdentifierBody, required=True)
    spec = PayloadField("WorkflowSpec", required=True)


class RegisterPlanBody(RegisterBody):
    example: ClassVar[Fields] = {
        "id": {"project": "flytesnacks", "domain": "development", "name": "nightly", "version": "v1"},
        "spec": {
            "workflow_id": {"name": "core.training.train", "version": "v1"},
            "fixed_inputs": {"data": "s3://examples/words"},
        },
    }

    spec = PayloadField("LaunchPlanSpec", required=True)
    state = Word(INACTIVE, ACTIVE, load_default=INACTIVE)


class LaunchPlanStateBody(AuthorshipFields):
    example: ClassVar[Fields] = {"state": "ACTIVE", "message": "The new one is faster.", "claimed_by": "ada"}

    state = Word(INACTIVE, ACTIVE, required=True)


class PlansQuery(PageQuery):
    workflow = fields.String(validate=NAME)
    search = fields.String(validate=NAME, metadata={"description": "Only those whose names have this in them."})


def versions_filter(
    key: dict[str, str], *, workflow: str | None = None, search: str | None = None, state: str | None = None
) -> RegisteredFilter:
    """The versions that a path names, perhaps only those of a workflow, with a text in their names or in a state."""
    return RegisteredFilter(**key, workflow=workflow, search=search, state=state)


class IdentifierAnswer(Answer):
    project: str
    domain: str
    name: str
    version: str


class _RegisteredAnswer(Answer):
    id: IdentifierAnswer
    spec: Json
    created_at: Time
    author: Annotated[str, Meta(description="`unknown` for what was registered before authors were recorded.")]
    claimed_by: ClaimedBy = None
    proof: Annotated[str | None, Meta(description="How the author was proven.")] = None
    message: Annotated[str | None, Meta(description="Why, as who registered it says.")] = None


class WorkflowAnswer(_RegisteredAnswer):
    @classmethod
    def from_registered(cls, workflow: Registered) -> WorkflowAnswer:
        return cls.from_attributes(workflow, id=IdentifierAnswer.from_attributes(workflow.id))


class LaunchPlanAnswer(_RegisteredAnswer):
    state: Annotated[str, one_of(ACTIVE, INACTIVE)]
    updated_at: Time
    state_set_by: Annotated[
        ProvenanceAnswer | None,
        Meta(description="Who made it active or inactive last; absent where it is as it was registered."),
    ] = None
    expected_inputs: Annotated[
        Json | None, Meta(description="By name, as its workflow declares them; `required` are those without a default.")
    ] = None
    changed: bool | None = None

    @classmethod
    def from_registered(cls, launch_plan: Registered, *, changed: bool | None = None) -> LaunchPlanAnswer:
        return cls.from_attributes(
            launch_plan,
            id=IdentifierAnswer.from_attributes(launch_plan.id),
            updated_at=launch_plan.updated_at or launch_plan.created_at,
            state_set_by=launch_plan.state_set_by and ProvenanceAnswer.from_attributes(launch_plan.state_set_by),
            changed=changed,
        )


class WorkflowRegistered(Answer):
    workflow: WorkflowAnswer
    created: bool
    warnings: list[Json]


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
