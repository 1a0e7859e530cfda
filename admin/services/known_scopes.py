"""Known scopes below another: projects in their domains, and the workflows and launch plans that have a name there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sqlalchemy import Connection

from admin.core.settings.scopes import Level, Scope
from admin.services.context import Context
from admin.store import projects, scopes

#: Projects whose scopes are read at once.
_PROJECTS = 20


def scopes_below(
    context: Context, connection: Connection, scope: Scope, limit: int, after: Scope | None = None
) -> list[Scope]:
    """The first known scopes at which a scope's settings apply, but for itself, from after one of them on.

    They come by domain, project, workflow and launch plan. Only scopes with a project and a domain are among them: at
    these executions are resolved.
    """
    return list(islice(_scopes_below(context, connection, scope, limit, after), limit))


def _scopes_below(
    context: Context, connection: Connection, scope: Scope, limit: int, after: Scope | None
) -> Iterator[Scope]:
    if scope.level is Level.LAUNCH_PLAN:
        return
    if scope.level in (Level.PROJECT_DOMAIN, Level.WORKFLOW):
        start = after or scope
        names = start.workflow, start.launch_plan
        workflow = scope.workflow or None
        yield from scopes.below(connection, scope.domain, [scope.project], limit, after=names, workflow=workflow)
        return
    for domain in [scope.domain] if scope.domain else sorted(context.settings.domain_ids()):
        if after is not None and domain < after.domain:
            continue
        last = ""
        if after is not None and domain == after.domain:
            last, names = after.project, (after.workflow, after.launch_plan)
            yield from scopes.below(connection, domain, [last], limit, after=names)
        while True:
            chunk = _projects_after(context, connection, scope, last)
            places = scopes.below(connection, domain, chunk, limit) if chunk else []
            for project in chunk:
                yield Scope(domain, project)
                yield from (place for place in places if place.project == project)
            if scope.project or not chunk:
                break
            last = chunk[-1]


def _projects_after(context: Context, connection: Connection, scope: Scope, last: str) -> list[str]:
    """The next projects below a scope that the caller may know of; of a project's own scope it alone, if not read."""
    if scope.project:
        return [] if last else [scope.project]
    known = context.access.projects
    page = projects.page(connection, state=None, after=last or None, limit=_PROJECTS, among=known)
    return [project.id for project in page]
