"""Workflows and launch plans over HTTP."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from admin.api import rendering
from admin.api.current import context
from admin.api.operations import Operations
from admin.api.pages import key_of, token_of
from admin.api.preconditions import WriteQuery
from admin.api.schemas import NAME, PageQuery, Payload, RequestSchema
from admin.core.jobs.registrations import ACTIVE, INACTIVE, Identifier
from admin.core.problems import Invalid, Problem
from admin.services import registrations
from admin.store.registrations import Registered, RegisteredFilter, launch_plans, workflows

operations = Operations("workflows")

MOST_BYTES = 4 * 1024 * 1024
_NUMBERS = {1: ACTIVE, 0: INACTIVE}


class IdentifierBody(RequestSchema):
    project = fields.String(required=True, validate=NAME)
    domain = fields.String(required=True, validate=NAME)
    name = fields.String(required=True, validate=NAME)
    version = fields.String(required=True, validate=NAME)
    resource_type = fields.Raw(metadata={"description": "As Flyte's clients send it; the path tells."})


class RegisterBody(RequestSchema):
    id = fields.Nested(IdentifierBody, required=True)
    spec = Payload(required=True)


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


class IdentifierAnswer(Schema):
    project = fields.String(required=True)
    domain = fields.String(required=True)
    name = fields.String(required=True)
    version = fields.String(required=True)


class WorkflowAnswer(Schema):
    id = fields.Nested(IdentifierAnswer, required=True)
    spec = Payload(required=True)
    created_at = fields.DateTime(required=True)


class LaunchPlanAnswer(WorkflowAnswer):
    state = fields.String(required=True, validate=validate.OneOf([ACTIVE, INACTIVE]))
    updated_at = fields.DateTime(required=True)
    changed = fields.Boolean()


class WorkflowRegistered(Schema):
    workflow = fields.Nested(WorkflowAnswer, required=True)
    created = fields.Boolean(required=True)


class LaunchPlanRegistered(Schema):
    launch_plan = fields.Nested(LaunchPlanAnswer, required=True)
    created = fields.Boolean(required=True)
    warnings = fields.List(fields.Dict(), required=True)


class WorkflowsAnswer(Schema):
    workflows = fields.List(fields.Nested(WorkflowAnswer), required=True)
    token = fields.String()


class LaunchPlansAnswer(Schema):
    launch_plans = fields.List(fields.Nested(LaunchPlanAnswer), required=True)
    token = fields.String()


def _shown(found: Registered) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "id": vars(found.id),
        "spec": found.spec,
        "created_at": rendering.time(found.created_at),
        "state": found.state or None,
        "updated_at": rendering.time(found.updated_at) if found.updated_at else None,
    }
    return {name: value for name, value in answer.items() if value is not None}


@operations.add(
    "POST",
    "/workflows",
    summary="Register a version of a workflow",
    query=WriteQuery,
    body=RegisterBody,
    answer=WorkflowRegistered,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def register_workflow(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    found, is_new = registrations.register_workflow(context(), body["id"], body["spec"], dry_run=query["dry_run"])
    return {"workflow": _shown(found), "created": is_new}


@operations.add(
    "POST",
    "/launch_plans",
    summary="Register a version of a launch plan",
    query=WriteQuery,
    body=RegisterPlanBody,
    answer=LaunchPlanRegistered,
    errors=(400, 404, 409),
    most_bytes=MOST_BYTES,
)
def register_launch_plan(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    found, is_new = registrations.register_launch_plan(
        context(), body["id"], body["spec"], active=body["state"] == ACTIVE, dry_run=query["dry_run"]
    )
    warnings = registrations.registration_warnings(context(), found.spec)
    return {"launch_plan": _shown(found), "created": is_new, "warnings": warnings}


@operations.add(
    "GET",
    "/workflows/<project>/<domain>/<name>/<version>",
    summary="Read a version of a workflow, or the latest",
    answer=WorkflowAnswer,
    errors=(400, 404),
)
def get_workflow(**key: str) -> dict[str, Any]:
    return _shown(registrations.get_workflow(context(), Identifier(**key)))


@operations.add(
    "GET",
    "/launch_plans/<project>/<domain>/<name>/<version>",
    summary="Read a version of a launch plan, or the latest",
    answer=LaunchPlanAnswer,
    errors=(400, 404),
)
def get_launch_plan(**key: str) -> dict[str, Any]:
    return _shown(registrations.get_launch_plan(context(), Identifier(**key)))


@operations.add(
    "GET",
    "/active_launch_plans/<project>/<domain>/<name>",
    summary="Read the active version of a launch plan",
    answer=LaunchPlanAnswer,
    errors=(400, 404),
)
def get_active(**key: str) -> dict[str, Any]:
    return _shown(registrations.get_active(context(), Identifier(**key, version="")))


@operations.add(
    "PUT",
    "/launch_plans/<project>/<domain>/<name>/<version>",
    summary="Activate or deactivate a version of a launch plan",
    body=LaunchPlanStateBody,
    answer=LaunchPlanAnswer,
    errors=(400, 404),
)
def set_state(body: dict[str, Any], **key: str) -> dict[str, Any]:
    found, is_change = registrations.set_launch_plan_state(context(), Identifier(**key), body["state"])
    return _shown(found) | {"changed": is_change}


def _page(what: str, wanted: RegisteredFilter, query: dict[str, Any]) -> dict[str, Any]:
    table = workflows if what == "workflows" else launch_plans
    key = key_of(query.get("token"), 2)
    if key is not None and not (key[1].isascii() and key[1].isdecimal() and len(key[1]) < 19):
        raise Invalid(Problem(field="token", reason="is not a token that a list gave; leave it out to start anew."))
    after = (key[0], int(key[1])) if key else None
    found, last = registrations.list_registered(context(), table, wanted, after, query["limit"])
    answer: dict[str, Any] = {what: [_shown(one) for one in found]}
    return answer | {"token": token_of((last[0], str(last[1])))} if last else answer


def _list_of(what: str, path: str, summary: str, state: str | None = None) -> None:
    is_plans = what == "launch_plans"

    @operations.add(
        "GET",
        path,
        summary=summary,
        query=PlansQuery if is_plans else PageQuery,
        answer=LaunchPlansAnswer if is_plans else WorkflowsAnswer,
        errors=(400,),
    )
    def list_registered(query: dict[str, Any], **key: str) -> dict[str, Any]:
        wanted = RegisteredFilter(**key, workflow=query.get("workflow"), state=state)
        return _page(what, wanted, query)


_list_of("workflows", "/workflows/<project>/<domain>", "List workflows, the newest version of each")
_list_of("workflows", "/workflows/<project>/<domain>/<name>", "List the versions of a workflow, newest first")
_list_of("launch_plans", "/launch_plans/<project>/<domain>", "List launch plans, the newest version of each")
_list_of("launch_plans", "/launch_plans/<project>/<domain>/<name>", "List the versions of a launch plan, newest first")
_list_of("launch_plans", "/active_launch_plans/<project>/<domain>", "List the active launch plans", ACTIVE)
