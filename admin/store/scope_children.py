"""The scopes right below another, and what is set at and below each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, select, true, union

from admin.core.settings.scopes import SCOPE_KEYS, Level, Scope
from admin.store.attributes import attributes
from admin.store.keys import is_within, key_columns
from admin.store.projects import projects
from admin.store.registration_tables import IS_ACTIVE, launch_plans, workflows
from admin.store.sql_types import AnyColumn

#: The key that the scopes below have beside those of the scope itself.
CHILD_KEYS = {
    Level.PLATFORM: "project",
    Level.DOMAIN: "project",
    Level.PROJECT: "domain",
    Level.PROJECT_DOMAIN: "workflow",
    Level.WORKFLOW: "launch_plan",
}


class Marks(NamedTuple):
    """What is set at and below a scope."""

    kinds: tuple[str, ...] = ()  #: of the rows exactly there
    rows_below: int = 0


def project_names(
    connection: Connection, after: str, search: str, limit: int, among: Collection[str] | None
) -> list[str]:
    """Ids of projects from after one on, perhaps of some alone."""
    query = select(projects.c.id).where(*_is_sought(projects.c.id, after, search))
    if among is not None:
        query = query.where(projects.c.id.in_(among))
    return list(connection.execute(query.order_by(projects.c.id).limit(limit)).scalars())


def names_below(
    connection: Connection, scope: Scope, after: str, search: str, limit: int, among: Collection[str] | None
) -> list[str]:
    """Names of the workflows, or launch plans, that are set, registered or active right below a scope.

    Perhaps of some alone.
    """
    if scope.workflow:
        sources = [
            (attributes, attributes.c.launch_plan, attributes.c.workflow == scope.workflow),
            (launch_plans, launch_plans.c.name, and_(launch_plans.c.workflow == scope.workflow, IS_ACTIVE)),
        ]
    else:
        sources = [(attributes, attributes.c.workflow, true()), (workflows, workflows.c.name, true())]
    parts = []
    for table, name, condition in sources:
        conditions = [table.c.project == scope.project, table.c.domain == scope.domain, condition]
        if among is not None:
            conditions.append(name.in_(among))
        part = select(name.label("name")).where(*conditions, *_is_sought(name, after, search)).distinct()
        parts.append(select(part.order_by(name).limit(limit).subquery()))
    names = union(*parts).subquery()
    return list(connection.execute(select(names.c.name).order_by(names.c.name).limit(limit)).scalars())


def _is_sought(name: AnyColumn, after: str, search: str) -> list[ColumnElement[bool]]:
    conditions = [name > after]
    return [*conditions, name.icontains(search, autoescape=True)] if search else conditions


def marks(
    connection: Connection, scope: Scope, key: str, names: Sequence[str], within: frozenset[Scope] | None
) -> dict[str, Marks]:
    """What is set at and below the scopes that have one of some names for a key beside those of their parent.

    Below a domain that stands alone nothing is counted: what applies there is in every project.
    """
    column = attributes.c[key]
    deeper = [attributes.c[other] for other in SCOPE_KEYS if other != key and not getattr(scope, other)]
    is_exact = case((and_(true(), *(other == "" for other in deeper)), 1), else_=0)
    conditions = [attributes.c[other] == value for other, value in scope.keys().items()]
    if key == "domain" and not scope.project:
        conditions.append(attributes.c.project == "")
    if within is not None:
        conditions.append(is_within(key_columns(attributes), within))
    counts = func.sum(is_exact).label("exact"), func.count().label("rows")
    query = select(column.label("name"), attributes.c.kind, *counts)
    query = query.where(column.in_(names), *conditions).group_by(column, attributes.c.kind)
    kinds: dict[str, list[str]] = defaultdict(list)
    below: dict[str, int] = defaultdict(int)
    for row in connection.execute(query):
        if row.exact:
            kinds[row.name].append(row.kind)
        below[row.name] += row.rows - row.exact
    return {name: Marks(tuple(sorted(kinds[name])), below[name]) for name in {*kinds, *below}}
