"""Workflows and launch plans, by version."""

from __future__ import annotations

from typing import Annotated

from admin.core.registrations import ACTIVE, INACTIVE, Identifier
from admin.messages.shared import Answer, Json, Time, one_of
from admin.store.registrations import Registered


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
