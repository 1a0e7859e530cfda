"""Projects and domains over HTTP."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from admin.api import rendering
from admin.api.operations import Operations
from admin.api.pages import key_of, token_of
from admin.api.rendering import context
from admin.api.schemas import PageQuery, RequestSchema
from admin.core import names
from admin.core.builtin_kinds import WORKFLOW_EXECUTION_CONFIG
from admin.core.fields import Section
from admin.core.problems import Invalid, Problem
from admin.services import projects
from admin.store.projects import Project, ProjectState

operations = Operations("projects")

_TEXT = validate.Regexp(r"^[^\x00-\x1f\x7f]*\Z", error="control characters are not allowed.")
_MOST_LABELS = 16


class StateField(fields.Field[ProjectState]):
    """ACTIVE or ARCHIVED, or Flyte's number for it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> ProjectState:
        numbered = {0: ProjectState.ACTIVE, 1: ProjectState.ARCHIVED}
        by_word: dict[Any, ProjectState] = {state.value: state for state in ProjectState}
        if isinstance(value, bool) or not isinstance(value, str | int) or value not in {**numbered, **by_word}:
            raise ValidationError("is neither ACTIVE nor ARCHIVED.")
        return {**numbered, **by_word}[value]


class LabelsBody(RequestSchema):
    values = fields.Dict(keys=fields.String(), values=fields.String(), load_default=dict)


class ProjectFields(RequestSchema):
    name = fields.String(validate=[validate.Length(min=1, max=64), _TEXT])
    description = fields.String(validate=[validate.Length(max=300), _TEXT])
    labels = fields.Nested(LabelsBody)
    state = StateField(metadata={"enum": ["ACTIVE", "ARCHIVED"], "type": "string"})


class NewProject(ProjectFields):
    id = fields.String(
        required=True,
        validate=validate.Regexp(f"^{names.DNS_LABEL}\\Z", error=f"is not a project id: use {names.DNS_LABEL_RULE}."),
    )


class CreateBody(RequestSchema):
    project = fields.Nested(NewProject, required=True)


class ProjectsQuery(PageQuery):
    state = fields.String(load_default="ACTIVE", validate=validate.OneOf(["ACTIVE", "ARCHIVED", "ALL"]))


class DomainAnswer(Schema):
    id = fields.String(required=True)
    name = fields.String(required=True)


class LabelsAnswer(Schema):
    values = fields.Dict(keys=fields.String(), values=fields.String(), required=True)


class ProjectAnswer(Schema):
    id = fields.String(required=True)
    name = fields.String(required=True)
    description = fields.String(required=True)
    labels = fields.Nested(LabelsAnswer, required=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in ProjectState]))
    domains = fields.List(fields.Nested(DomainAnswer), required=True)
    created_at = fields.DateTime(required=True)
    updated_at = fields.DateTime(required=True)


class ProjectsAnswer(Schema):
    projects = fields.List(fields.Nested(ProjectAnswer), required=True)
    token = fields.String()


class DomainsAnswer(Schema):
    domains = fields.List(fields.Nested(DomainAnswer), required=True)


@operations.add("GET", "/projects", summary="List projects", query=ProjectsQuery, answer=ProjectsAnswer)
def list_projects(query: dict[str, Any]) -> dict[str, Any]:
    state = None if query["state"] == "ALL" else ProjectState(query["state"])
    after = key_of(query.get("token"), 1)
    found, last = projects.list_projects(
        context(), state=state, after=after[0] if after else None, limit=query["limit"]
    )
    answer: dict[str, Any] = {"projects": [_project(project) for project in found]}
    return answer | {"token": token_of((last,))} if last else answer


@operations.add(
    "POST", "/projects", summary="Create a project", body=CreateBody, answer=ProjectAnswer, errors=(400, 409)
)
def create_project(body: dict[str, Any]) -> dict[str, Any]:
    return _project(projects.create_project(context(), _given(body["project"])))


@operations.add("GET", "/projects/<path:id>", summary="Read a project", answer=ProjectAnswer, errors=(404,))
def get_project(id: str) -> dict[str, Any]:
    return _project(projects.get_project(context(), id))


def _update(id: str, body: dict[str, Any]) -> dict[str, Any]:
    return _project(projects.update_project(context(), id, _given(body)))


for _method in ("PUT", "PATCH"):  # both leave alone what they do not name: nobody loses a label to a new description
    operations.add(
        _method,
        "/projects/<path:id>",
        summary="Change the given fields of a project",
        body=ProjectFields,
        answer=ProjectAnswer,
        errors=(400, 404),
    )(_update)


@operations.add("GET", "/domains", summary="List the domains", answer=DomainsAnswer)
def list_domains() -> dict[str, Any]:
    return {"domains": _domains()}


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "labels": _labels(body["labels"]["values"])} if "labels" in body else body


def _labels(values: dict[str, str]) -> dict[str, str]:
    """Labels by the same rule as those of executions."""
    labels = WORKFLOW_EXECUTION_CONFIG.payload.fields["labels"]
    assert isinstance(labels, Section)
    problems: list[Problem] = []
    read: dict[str, str] = labels.fields["values"].read(values, ("labels", "values"), problems)
    if len(values) > _MOST_LABELS:
        problems.append(Problem(field="labels", reason=f"has {len(values)} entries; the most is {_MOST_LABELS}."))
    if problems:
        raise Invalid(*problems)
    return read


def _domains() -> list[dict[str, str]]:
    return [{"id": domain.id, "name": domain.name} for domain in context().settings.domains]


def _project(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "description": project.description,
        "labels": {"values": project.labels},
        "state": project.state.value,
        "domains": _domains(),
        "created_at": rendering.time(project.created_at),
        "updated_at": rendering.time(project.updated_at),
    }
