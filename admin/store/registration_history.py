"""The history of registrations: who registered, activated and deactivated versions, when and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Table, select

from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.store.keys import is_by, within
from admin.store.registration_tables import (
    KEY,
    is_registered_within,
    launch_plan_activations,
    launch_plans,
    workflows,
)
from admin.store.sql_types import build


@dataclass(frozen=True, kw_only=True)
class Registration:
    """That a version was registered, or made active or inactive: by whom, when and why."""

    table: str  #: the name of its table
    number: int  #: of its row
    id: Identifier
    workflow: str | None = None  #: the name of a launch plan's workflow
    at: datetime
    author: str
    claimed_by: str | None
    message: str | None
    state: str | None = None  #: that a launch plan's version was given
    replaced_by: str | None = None  #: the version whose activation made this one inactive


@dataclass(frozen=True, kw_only=True)
class RegistrationFilter:
    """Which registrations a list contains; None for any."""

    domain: str | None = None
    project: str | None = None
    workflow: str | None = None  #: of a workflow, and of its launch plans
    launch_plan: str | None = None
    actor: str | None = None  #: the author, verified or claimed
    after: datetime | None = None
    before: datetime | None = None
    within: frozenset[Scope] | None = None  #: only those at and below these scopes


def page(
    connection: Connection, table: Table, filters: RegistrationFilter, below: int | None, limit: int
) -> list[Registration]:
    """The registrations of workflows or launch plans, or activations, newest first, below a number if one is given."""
    is_plan = table is not workflows
    if filters.launch_plan is not None and not is_plan:
        return []
    names = [*KEY, "id", "created_at", "author", "claimed_by", "message", *(["workflow"] if is_plan else [])]
    names += ["state", "replaced_by"] if table is launch_plan_activations else []
    query = select(*(table.c[name] for name in names)).where(*_conditions(table, filters))
    if below is not None:
        query = query.where(table.c.id < below)
    rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit))
    return [
        build(Registration, row, table=table.name, number=row.id, id=build(Identifier, row), at=row.created_at)
        for row in rows
    ]


def _conditions(table: Table, filters: RegistrationFilter) -> Iterator[ColumnElement[bool]]:
    names = {"project": filters.project, "domain": filters.domain, "name": filters.workflow}
    if table is not workflows:
        names |= {"name": filters.launch_plan, "workflow": filters.workflow}
    yield from (table.c[column] == name for column, name in names.items() if name is not None)
    if filters.within is not None:
        yield is_registered_within(table, filters.within)
    if filters.actor is not None:
        yield is_by(filters.actor, table.c.author, table.c.claimed_by)
    yield from within(table.c.id, table.c.created_at, filters.after, filters.before)


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who made the newest registrations and activations: the authors and the names that callers gave."""
    queries = (
        select(table.c.author, table.c.claimed_by).order_by(table.c.id.desc()).limit(limit)
        for table in (workflows, launch_plans, launch_plan_activations)
    )
    return {name for query in queries for names in connection.execute(query) for name in names if name}
