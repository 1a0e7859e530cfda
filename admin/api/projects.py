"""Projects and domains over HTTP."""

from __future__ import annotations

from typing import Any, cast

from marshmallow import ValidationError, fields, validate

from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.preconditions import WRITE_HEADERS, WriteQuery, expectation
from admin.api.schemas import AuthorshipFields, PageQuery, Pattern, RequestSchema
from admin.core import names
from admin.core.changes import Authorship
from admin.core.problems import Invalid, Problem, shorten
from admin.core.projects import Project, ProjectState, ProjectValues, read_labels
from admin.messages.pages import key_of, token_of
from admin.messages.projects import DomainsAnswer, ProjectAnswer, ProjectsAnswer
from admin.services import projects
from admin.services.changeable.base import ChangeOptions, Mode

operations = Operations("projects")

_TEXT = Pattern(r"^[^\x00-\x1f\x7f]*$", error="control characters are not allowed.")


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
        validate=Pattern(f"^{names.DNS_LABEL}$", error=f"is not a project id: use {names.DNS_LABEL_RULE}."),
    )


class CreateBody(AuthorshipFields):
    project = fields.Nested(NewProject, required=True)


class UpdateBody(ProjectFields, AuthorshipFields):
    """What to change; what only the admin sets may be repeated as it was read, and has no effect."""

    id = fields.String()
    domains = fields.Raw()
    created_at = fields.Raw()
    updated_at = fields.Raw()
    version = fields.Raw()
    org = fields.String(validate=validate.Equal("", error="there are no organisations here; leave it out."))


class ProjectsQuery(PageQuery):
    state = fields.String(load_default="ACTIVE", validate=validate.OneOf(["ACTIVE", "ARCHIVED", "ALL"]))


@operations.add("GET", "/projects", summary="List projects", query=ProjectsQuery, answer=ProjectsAnswer)
def list_projects(query: dict[str, Any]) -> ProjectsAnswer:
    state = None if query["state"] == "ALL" else ProjectState(query["state"])
    after = key_of(query.get("token"), 1)
    page, last = projects.list_projects(context(), state=state, after=after[0] if after else None, limit=query["limit"])
    return ProjectsAnswer(projects=[_answer(project) for project in page], token=token_of((last,)) if last else None)


@operations.add(
    "POST",
    "/projects",
    summary="Create a project",
    query=WriteQuery,
    body=CreateBody,
    answer=ProjectAnswer,
    errors=(400, 409),
)
def create_project(query: dict[str, Any], body: dict[str, Any]) -> ProjectAnswer:
    values = _values(body["project"], "project")
    return _answer(projects.create_project(context(), body["project"]["id"], values, _options(query, body)))


@operations.add("GET", "/projects/<rest:id>", summary="Read a project", answer=ProjectAnswer, errors=(404,))
def get_project(id: str) -> ProjectAnswer:
    return _answer(projects.get_project(context(), id))


def _update(id: str, query: dict[str, Any], body: dict[str, Any]) -> ProjectAnswer:
    if body.get("id", id) != id:
        raise Invalid(Problem(field="id", reason=f"is not the path's, '{shorten(id)}'; leave it out."))
    return _answer(projects.update_project(context(), id, _values(body), expectation(), _options(query, body)))


def _options(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    authorship = Authorship(
        claimed_by=body.get("claimed_by"), message=body.get("message"), request_id=caller().request_id
    )
    return ChangeOptions(authorship=authorship, mode=Mode.of(dry_run=query["dry_run"]))


for _method in ("PUT", "PATCH"):  # both leave alone what they do not name: nobody loses a label to a new description
    operations.add(
        _method,
        "/projects/<rest:id>",
        summary="Change the given fields of a project",
        query=WriteQuery,
        body=UpdateBody,
        answer=ProjectAnswer,
        errors=(400, 404, 409),
        headers=WRITE_HEADERS,
    )(_update)


@operations.add("GET", "/domains", summary="List the domains", answer=DomainsAnswer)
def list_domains() -> DomainsAnswer:
    return DomainsAnswer.from_domains(context().settings.domains)


def _values(body: dict[str, Any], *under: str) -> ProjectValues:
    """The fields of a project in a body, checked; `under` is where they stand there."""
    values = {name: value for name, value in body.items() if name in ProjectFields().fields}
    if "labels" in values:
        values["labels"] = read_labels(values["labels"]["values"], (*under, "labels", "values"))
    return cast(ProjectValues, values)


def _answer(project: Project) -> ProjectAnswer:
    return ProjectAnswer.from_project(project, context().settings.domains)
