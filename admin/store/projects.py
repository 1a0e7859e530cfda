"""Projects."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import JSON, BigInteger, Column, Connection, Table, Text, bindparam, delete, insert, select, update

from admin.core.projects import Project, ProjectState
from admin.store.database import UtcDateTime, metadata
from admin.store.sql_types import AnyRow, build

projects = Table(
    "projects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
)


_ONE = select(projects).where(projects.c.id == bindparam("id"))


def _project(row: AnyRow) -> Project:
    return build(Project, row, state=ProjectState(row.state))


def get(connection: Connection, project_id: str) -> Project | None:
    """One project."""
    row = connection.execute(_ONE, {"id": project_id}).one_or_none()
    return None if row is None else _project(row)


def page(
    connection: Connection,
    *,
    state: ProjectState | None,
    after: str | None,
    limit: int,
    among: Collection[str] | None = None,
) -> list[Project]:
    """Projects by id, from after an id on; perhaps only those among some ids."""
    query = select(projects).order_by(projects.c.id).limit(limit)
    if among is not None:
        query = query.where(projects.c.id.in_(among))
    if state is not None:
        query = query.where(projects.c.state == state.value)
    if after is not None:
        query = query.where(projects.c.id > after)
    return [_project(row) for row in connection.execute(query)]


def get_many(connection: Connection, project_ids: Iterable[str]) -> dict[str, Project]:
    """The projects that exist of those with some ids, by id."""
    query = select(projects).where(projects.c.id.in_(list(project_ids)))
    return {row.id: _project(row) for row in connection.execute(query)}


def archived_among(connection: Connection, project_ids: Iterable[str]) -> set[str]:
    """Those of some projects that are archived."""
    is_archived = projects.c.state == ProjectState.ARCHIVED.value
    query = select(projects.c.id).where(projects.c.id.in_(list(project_ids)), is_archived)
    return set(connection.execute(query).scalars())


def every(connection: Connection) -> list[Project]:
    """All projects."""
    return [_project(row) for row in connection.execute(select(projects))]


def ids(connection: Connection, state: ProjectState | None = None) -> list[str]:
    """The ids of every project, or of those in a state."""
    query = select(projects.c.id)
    if state is not None:
        query = query.where(projects.c.state == state.value)
    return list(connection.execute(query).scalars())


def add(connection: Connection, project: Project) -> None:
    """Insert a project."""
    connection.execute(insert(projects).values(**_values(project)))


def change(connection: Connection, project: Project) -> None:
    """Update a project."""
    connection.execute(update(projects).where(projects.c.id == project.id).values(**_values(project)))


def remove(connection: Connection, project_id: str) -> None:
    """Delete a project."""
    connection.execute(delete(projects).where(projects.c.id == project_id))


def _values(project: Project) -> dict[str, object]:
    return {**vars(project), "state": project.state.value}
