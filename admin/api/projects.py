"""Projects and domains over HTTP."""

from __future__ import annotations

from typing import Any

from admin.api.current import authorship, context
from admin.api.operations import Operations
from admin.api.preconditions import WRITE_HEADERS, expectation
from admin.core.problems import Invalid, Problem, shorten
from admin.core.projects import Project, ProjectState
from admin.messages.pages import key_of, token_of
from admin.messages.projects import (
    CreateBody,
    DomainsAnswer,
    ProjectAnswer,
    ProjectsAnswer,
    ProjectsQuery,
    UpdateBody,
    project_values,
)
from admin.messages.requests import (
    WriteQuery,
)
from admin.services import projects
from admin.services.changeable.base import ChangeOptions, Mode

operations = Operations("projects")


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
    values = project_values(body["project"], "project")
    return _answer(projects.create_project(context(), body["project"]["id"], values, _options(query, body)))


@operations.add("GET", "/projects/<rest:id>", summary="Read a project", answer=ProjectAnswer, errors=(404,))
def get_project(id: str) -> ProjectAnswer:
    return _answer(projects.get_project(context(), id))


def _update(id: str, query: dict[str, Any], body: dict[str, Any]) -> ProjectAnswer:
    if body.get("id", id) != id:
        raise Invalid(Problem(field="id", reason=f"is not the path's, '{shorten(id)}'; leave it out."))
    return _answer(projects.update_project(context(), id, project_values(body), expectation(), _options(query, body)))


def _options(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    return ChangeOptions(authorship=authorship(body), mode=Mode.of(dry_run=query["dry_run"]))


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


def _answer(project: Project) -> ProjectAnswer:
    return ProjectAnswer.from_project(project, context().settings.domains)
