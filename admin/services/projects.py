"""Projects: created, listed, updated, archived and activated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from admin.core.problems import closest, did_you_mean, shorten
from admin.errors import ProjectExists, ProjectNotFound
from admin.services.context import Context
from admin.store import projects, revisions
from admin.store.projects import Project, ProjectState


def create_project(context: Context, given: Mapping[str, Any]) -> Project:
    """A new project; ProjectExists where the id is taken."""
    now = context.clock()
    project = Project(
        id=given["id"],
        name=given.get("name") or given["id"],
        description=given.get("description", ""),
        labels=given.get("labels", {}),
        state=given.get("state", ProjectState.ACTIVE),
        created_at=now,
        updated_at=now,
    )
    with context.database.writing() as connection:
        revisions.lock_head(connection)  # two creators of one id: the second sees the first
        if projects.get(connection, project.id) is not None:
            raise ProjectExists(
                f"A project called '{project.id}' exists already. Update it instead, or choose another id.",
                details=[{"field": "project.id", "reason": "is taken."}],
            )
        projects.add(connection, [project])
    return project


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


def update_project(context: Context, project_id: str, given: Mapping[str, Any]) -> Project:
    """Change the given fields of a project and leave the others."""
    with context.database.writing() as connection:
        revisions.lock_head(connection)  # no attribute is written while its project is being archived
        before = _found(connection, project_id)
        after = replace(before, **given)
        if after != before:
            after = replace(after, updated_at=context.clock())
            projects.change(connection, after)
    return after


def seed_projects(context: Context) -> list[str]:
    """Create the projects that configuration names and that are not there; answers their ids."""
    now = context.clock()
    with context.database.writing() as connection:
        revisions.lock_head(connection)
        known = set(projects.ids(connection))
        missing = [seed for seed in context.settings.projects if seed.id not in known]
        projects.add(
            connection,
            [
                Project(
                    id=seed.id,
                    name=seed.name,
                    description=seed.description,
                    labels=dict(seed.labels),
                    state=ProjectState.ACTIVE,
                    created_at=now,
                    updated_at=now,
                )
                for seed in missing
            ],
        )
    return [seed.id for seed in missing]


def _found(connection: Connection, project_id: str) -> Project:
    project = projects.get(connection, project_id)
    if project is None:
        near = closest(project_id, projects.ids(connection))
        raise ProjectNotFound(
            f"No project is called '{shorten(project_id)}'.{did_you_mean(near)} `rainbowctl get project` lists them.",
            details=[{"field": "project", "reason": "is unknown.", "closest": list(near)}],
        )
    return project
