"""Projects and domains over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.permissions import SIGNED_IN
from admin.core.problems import invalid, shorten
from admin.core.projects import Archiving, Project, ProjectState, read_values
from admin.core.provenance import Provenance
from admin.messages.pages import key_of, token_of
from admin.messages.projects import (
    CreateBody,
    DomainsAnswer,
    ProjectAnswer,
    ProjectQuery,
    ProjectsAnswer,
    ProjectsQuery,
    UpdateBody,
)
from admin.messages.requests import Fields, WriteQuery
from admin.services import projects
from admin.services.changes import Changed

operations = Operations("projects")


@operations.add("GET", "/projects", query=ProjectsQuery, shows_some=True, permission="projects.read")
def list_projects(query: Fields) -> ProjectsAnswer:
    """List projects."""
    state = None if query["state"] == "ALL" else ProjectState(query["state"])
    after = key_of(query.get("token"), 1)
    page, last = projects.list_projects(context(), state=state, after=after[0] if after else None, limit=query["limit"])
    made_by = projects.project_provenance(context(), page) if query["provenance"] else {}
    answers = [_answer(project, provenance=made_by.get(project.id)) for project in page]
    return ProjectsAnswer(projects=answers, token=token_of((last,)) if last else None)


@operations.add("POST", "/projects", query=WriteQuery, body=CreateBody, permission="projects.write", errors=(409,))
def create_project(query: Fields, body: Fields) -> ProjectAnswer:
    """Create a project."""
    values = read_values(body["project"], "project")
    written = projects.create_project(context(), body["project"]["id"], values, change_options(query, body))
    return _answer(written.project, changed=written.changed)


@operations.add(
    "GET", "/projects/<rest:id>", query=ProjectQuery, shows_some=True, permission="projects.read", errors=(404,)
)
def get_project(query: Fields, id: str) -> ProjectAnswer:
    """Read a project."""
    project = projects.get_project(context(), id)
    made_by = projects.project_provenance(context(), [project]) if query["provenance"] else {}
    return _answer(project, provenance=made_by.get(id))


def _update(id: str, query: Fields, body: Fields) -> ProjectAnswer:
    """Change the given fields of a project."""
    if body.get("id", id) != id:
        raise invalid("id", f"is not the path's, '{shorten(id)}'; leave it out.")
    values = read_values(body)
    project, changed = projects.update_project(context(), id, values, expectation(), change_options(query, body))
    is_trial = query["dry_run"] and values.get("state") is ProjectState.ARCHIVED
    return _answer(project, archiving=projects.preview_archiving(context(), id) if is_trial else None, changed=changed)


for _method in ("PUT", "PATCH"):  # both leave unnamed fields unchanged: a new description removes no label
    operations.add(
        _method,
        "/projects/<rest:id>",
        id=f"{_method.lower()}_project",
        query=WriteQuery,
        body=UpdateBody,
        errors=(404, 409),
        headers=WRITE_HEADERS,
        permission="projects.write",
    )(_update)


@operations.add("GET", "/domains", permission=SIGNED_IN)
def list_domains() -> DomainsAnswer:
    """List the domains."""
    return DomainsAnswer.from_domains(context().settings.domains)


def _answer(
    project: Project,
    *,
    archiving: Archiving | None = None,
    changed: Changed | None = None,
    provenance: Mapping[str, Provenance] | None = None,
) -> ProjectAnswer:
    domains = context().settings.domains
    return ProjectAnswer.from_project(project, domains, archiving=archiving, changed=changed, provenance=provenance)
