"""Projects: created, listed, updated, archived and activated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from admin.core import names
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.projects import Project, ProjectState, project_after
from admin.core.settings.writes import Expectation
from admin.errors import ProjectExists, ProjectNotFound, VersionConflict
from admin.services.changes import ChangeOptions, ChangeSet, ProjectWrite, make_change
from admin.services.context import Context
from admin.store import projects, revisions


def create_project(context: Context, given: Mapping[str, Any], options: ChangeOptions) -> Project:
    """A new project; ProjectExists where the id is taken."""
    fields = {name: value for name, value in given.items() if name != "id"}
    write = ProjectWrite(id=given["id"], given=fields, expectation=Expectation(absent=True))
    try:
        make_change(context, ChangeSet(projects=(write,)), options)
    except VersionConflict as conflict:
        raise ProjectExists(
            f"A project called '{write.id}' exists already. Update it instead, or choose another id.",
            details=[{"field": "project.id", "reason": "is taken."}],
        ) from conflict
    return project_after(None, write.id, fields, context.clock()) if options.dry_run else get_project(context, write.id)


def get_project(context: Context, project_id: str) -> Project:
    """One project; ProjectNotFound with the nearest ids where there is none."""
    with context.database.reading() as connection:
        return _found(connection, project_id)


def list_projects(
    context: Context, *, state: ProjectState | None, after: str | None, limit: int
) -> tuple[list[Project], str | None]:
    """Projects by id, and the id to go on after, if there are more."""
    with context.database.reading() as connection:
        found = projects.page(connection, state=state, after=after, limit=limit + 1)
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def update_project(
    context: Context, project_id: str, given: Mapping[str, Any], expectation: Expectation, options: ChangeOptions
) -> Project:
    """Change the given fields of a project and leave the others."""
    before = get_project(context, project_id)
    write = ProjectWrite(id=project_id, given=given, expectation=expectation)
    make_change(context, ChangeSet(projects=(write,)), options)
    if options.dry_run:
        return project_after(before, project_id, given, context.clock())
    return get_project(context, project_id)


def seed_projects(context: Context) -> list[str]:
    """Create the projects that configuration names and that are not there; answers their ids.

    They are configuration, not somebody's change, so no revision tells of them.
    """
    now = context.clock()
    with context.database.writing() as connection:
        revisions.lock_head(connection)
        known = set(projects.ids(connection))
        missing = [seed for seed in context.settings.projects if seed.id not in known]
        for seed in missing:
            given = {"name": seed.name, "description": seed.description, "labels": dict(seed.labels)}
            projects.add(connection, project_after(None, seed.id, given, now))
    return [seed.id for seed in missing]


def _found(connection: Connection, project_id: str) -> Project:
    is_id = names.matches(names.DNS_LABEL, project_id)  # what is none may hold what a database cannot even ask for
    project = projects.get(connection, project_id) if is_id else None
    if project is None:
        near = closest(project_id, projects.ids(connection))
        raise ProjectNotFound(
            f"No project is called '{shorten(project_id)}'.{did_you_mean(near)} `rainbowctl get project` lists them.",
            details=[{"field": "project", "reason": "is unknown.", "closest": list(near)}],
        )
    return project
