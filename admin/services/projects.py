"""Projects: create, read, list and update, which archives and activates too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core import names
from admin.core.changes import PROJECT, Expectation
from admin.core.executions.lifecycle import Phase
from admin.core.projects import Archiving, Project, ProjectState, ProjectValues, is_archiving, project_after
from admin.core.provenance import Provenance
from admin.core.settings.scopes import Scope
from admin.errors import ProjectExists, ProjectNotFound, VersionConflict
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.projects import project_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.scopes import known_projects
from admin.store import projects, revisions, row_changes, unfinished


def project_provenance(context: Context, listed: Sequence[Project]) -> Mapping[str, Mapping[str, Provenance]]:
    """The revisions that made projects as they are, by their ids: of the `definition`, and of `archived` if so."""
    with context.database.reading() as connection:
        versions = {project.id: {"definition": project.version} for project in listed}
        for project_id, number in _archived_by(connection, listed).items():
            versions[project_id]["archived"] = number
        numbers = {number for states in versions.values() for number in states.values()}
        made_by = revisions.provenance_of(connection, numbers - {0})
    return {
        project_id: {state: made_by[number] for state, number in states.items() if number in made_by}
        for project_id, states in versions.items()
    }


def _archived_by(connection: Connection, listed: Sequence[Project]) -> Mapping[str, int]:
    """The revisions that archived projects, by their ids, as far as they are kept."""
    scopes = [Scope(project=project.id) for project in listed if project.state is ProjectState.ARCHIVED]
    changes = row_changes.changes_above(connection, 0, kinds=[PROJECT], scopes=scopes) if scopes else ()
    return {change.scope.project: change.revision for change in changes if is_archiving(change)}


class WrittenProject(NamedTuple):
    """A project as a change leaves it, or would, and what else the change did."""

    project: Project
    changed: Changed


def create_project(context: Context, project_id: str, values: ProjectValues, options: ChangeOptions) -> WrittenProject:
    """Create a project; ProjectExists where the id is taken."""
    try:
        changed = make_change(context, [project_write(project_id, values, Expectation(absent=True))], options)
    except VersionConflict as conflict:
        raise ProjectExists(
            f"A project called '{project_id}' exists already. Update it instead, or choose another id.",
            details=[{"field": "project.id", "reason": "is taken."}],
        ) from conflict
    if options.dry_run:
        return WrittenProject(project_after(None, project_id, values, context.clock()), changed)
    return WrittenProject(get_project(context, project_id), changed)


def get_project(context: Context, project_id: str) -> Project:
    """One project; ProjectNotFound with the nearest ids where there is none."""
    is_id = names.matches(names.DNS_LABEL, project_id)  # a database may refuse to look for other text, such as NUL
    with context.database.reading() as connection:
        project = projects.get(connection, project_id) if is_id else None
        if project is None:
            raise ProjectNotFound.called(project_id, known_projects(connection, context.access))
    return project


def list_projects(
    context: Context, *, state: ProjectState | None, after: str | None, limit: int
) -> tuple[list[Project], str | None]:
    """A page of projects by id, and the id after which the next page starts, if there is one."""
    with context.database.reading() as connection:
        page = projects.page(connection, state=state, after=after, limit=limit + 1, among=context.access.projects)
    return page[:limit], page[limit - 1].id if len(page) > limit else None


def update_project(
    context: Context, project_id: str, values: ProjectValues, expectation: Expectation, options: ChangeOptions
) -> WrittenProject:
    """Set some fields of a project and leave the others."""
    before = get_project(context, project_id)
    changed = make_change(context, [project_write(project_id, values, expectation)], options)
    if options.dry_run:
        return WrittenProject(project_after(before, project_id, values, context.clock()), changed)
    return WrittenProject(get_project(context, project_id), changed)


#: Executions that a preview of archiving names; the others are counted.
_MOST_NAMED = 20


def preview_archiving(context: Context, project_id: str) -> Archiving:
    """What archiving a project would mean for its executions."""
    with context.database.reading() as connection:
        in_all = unfinished.count(connection, project=project_id)
        waiting = {"project": project_id, "phase": Phase.QUEUED.value}
        number = unfinished.count(connection, **waiting)
        first = unfinished.first(connection, _MOST_NAMED, **waiting)
    return Archiving(waiting=number, running=in_all - number, first_waiting=tuple(map(str, first)))


def seed_projects(context: Context) -> list[str]:
    """Create the configured projects that do not exist yet, and return their ids.

    They come from configuration, so no revision records them.
    """
    now = context.clock()
    with context.database.writing() as connection:
        revisions.lock_head(connection)
        existing = set(projects.ids(connection))
        missing = [seed for seed in context.settings.projects if seed.id not in existing]
        for seed in missing:
            values: ProjectValues = {"name": seed.name, "description": seed.description, "labels": dict(seed.labels)}
            projects.add(connection, project_after(None, seed.id, values, now))
    return [seed.id for seed in missing]
