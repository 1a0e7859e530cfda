"""Scopes whose project and domain this admin knows."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.problems import closest, did_you_mean, shorten
from admin.core.projects import Project, ProjectState
from admin.core.settings.scopes import Scope
from admin.errors import ProjectArchived, UnknownDomain, UnknownProject
from admin.services.access import Access
from admin.services.context import Context
from admin.store import projects, row_changes
from admin.store.cache.index import Applying


def check_readable(context: Context, connection: Connection, scope: Scope) -> None:
    """Refuse a scope whose domain or project is unknown."""
    if scope.domain:
        check_domain(context, scope.domain)
    if scope.project:
        find_project(context, connection, scope.project)


def find_project(context: Context, connection: Connection, project_id: str) -> Project:
    """A project; UnknownProject with the closest ones that the caller may know of where there is none."""
    project = projects.get(connection, project_id)
    if project is None:
        raise UnknownProject.called(project_id, known_projects(connection, context.access))
    return project


def known_projects(connection: Connection, access: Access) -> list[str]:
    """The ids of the projects that a caller may know of."""
    return [project for project in projects.ids(connection) if access.knows(project)]


def applying(context: Context, scope: Scope) -> Applying | None:
    """The rows that apply at a known scope, from memory; None where the database must be read."""
    if scope.domain:
        check_domain(context, scope.domain)
    applied = context.index.applying(scope)
    # Another replica may have created a configured project. No revision records that, so the index does not know it.
    return None if applied is None or (scope.project and applied.project is None) else applied


def check_existed(context: Context, connection: Connection, scope: Scope) -> None:
    """Refuse a scope that is unknown now and in history; its project may have been removed since."""
    is_removed = bool(scope.project) and projects.get(connection, scope.project) is None
    if is_removed and row_changes.has_project(connection, scope.project):
        scope = Scope(domain=scope.domain)
    check_readable(context, connection, scope)


def check_active(project: Project) -> None:
    """Refuse a project that is archived."""
    if project.state is ProjectState.ARCHIVED:
        remedy = f"Run `rainbowctl update project {project.id} --activate` first."
        raise ProjectArchived(
            f"Project '{project.id}' is archived: nothing can be set, registered or created there; it can be read, and "
            f"what waits or runs there goes on. {remedy}",
            details=[{"field": "project", "reason": f"'{project.id}' is archived. {remedy}"}],
        )


def check_domain(context: Context, domain: str) -> None:
    """Refuse a domain that configuration does not have."""
    domains = context.settings.domain_ids()
    if domain not in domains:
        near = closest(domain, domains)
        reason = (
            f"No domain is called '{shorten(domain)}'.{did_you_mean(near)} Domains are configured at the admin; "
            f"known are {', '.join(domains)}."
        )
        raise UnknownDomain(reason, details=[{"field": "domain", "reason": reason, "closest": list(near)}])
