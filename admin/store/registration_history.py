"""The history of registrations: who registered, activated and deactivated versions, when and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Table, func, select, tuple_

from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.store.keys import is_by, within
from admin.store.registration_tables import (
    KEY,
    PLACE,
    is_registered_within,
    launch_plan_activations,
    launch_plans,
    workflows,
)
from admin.store.sql_types import AnyRow, AnySelect, build


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
    proof: str | None = None  #: how the author was proven
    message: str | None
    request_id: str | None = None
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
    request_id: str | None = None
    within: frozenset[Scope] | None = None  #: only those at and below these scopes


def page(
    connection: Connection, table: Table, filters: RegistrationFilter, below: int | None, limit: int
) -> list[Registration]:
    """The registrations of workflows or launch plans, or activations, newest first, below a number if one is given."""
    if filters.launch_plan is not None and table is workflows:
        return []
    query = _selected(table).where(*_conditions(table, filters))
    if below is not None:
        query = query.where(table.c.id < below)
    return [_registration(table, row) for row in connection.execute(query.order_by(table.c.id.desc()).limit(limit))]


def newest_versions(
    connection: Connection, table: Table, filters: RegistrationFilter, after: tuple[str, ...] | None, limit: int
) -> list[Registration]:
    """The version of each workflow or launch plan that was registered last, by project, domain and name."""
    place = [table.c[name] for name in PLACE]
    conditions = list(_conditions(table, filters))
    if after is not None:
        conditions.append(tuple_(*place) > after)
    newest = select(func.max(table.c.id)).where(*conditions).group_by(*place).order_by(*place).limit(limit)
    rows = connection.execute(_selected(table).where(table.c.id.in_(newest)).order_by(*place))
    return [_registration(table, row) for row in rows]


def _selected(table: Table) -> AnySelect:
    names = [*KEY, "id", "created_at", "author", "claimed_by", "proof", "message", "request_id"]
    names += ["workflow"] if table is not workflows else []
    names += ["state", "replaced_by"] if table is launch_plan_activations else []
    return select(*(table.c[name] for name in names))


def _registration(table: Table, row: AnyRow) -> Registration:
    return build(Registration, row, table=table.name, number=row.id, id=build(Identifier, row), at=row.created_at)


def _conditions(table: Table, filters: RegistrationFilter) -> Iterator[ColumnElement[bool]]:
    names = {"project": filters.project, "domain": filters.domain, "name": filters.workflow}
    if table is not workflows:
        names |= {"name": filters.launch_plan, "workflow": filters.workflow}
    yield from (table.c[column] == name for column, name in names.items() if name is not None)
    if filters.within is not None:
        yield is_registered_within(table, filters.within)
    if filters.actor is not None:
        yield is_by(filters.actor, table.c.author, table.c.claimed_by)
    if filters.request_id is not None:
        yield table.c.request_id == filters.request_id
    yield from within(table.c.id, table.c.created_at, filters.after, filters.before)


def newest_names(connection: Connection, limit: int) -> set[str]:
    """Who made the newest registrations and activations: the authors and the names that callers gave."""
    queries = (
        select(table.c.author, table.c.claimed_by).order_by(table.c.id.desc()).limit(limit)
        for table in (workflows, launch_plans, launch_plan_activations)
    )
    return {name for query in queries for names in connection.execute(query) for name in names if name}
