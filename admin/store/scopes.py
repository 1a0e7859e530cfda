"""Scopes that are known: those that have attributes, and those of registered workflows and active launch plans."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, literal, select, true, tuple_, union

from admin.core.settings.scopes import Scope
from admin.store.attributes import attributes
from admin.store.keys import KeyedQuery
from admin.store.registration_tables import IS_ACTIVE, launch_plans, workflows

_NO_PLAN = literal("").label("launch_plan")
#: Where the scopes of workflows and launch plans are known from: the table, its names, and which of its rows count.
_SOURCES = (
    (attributes, attributes.c.workflow, attributes.c.launch_plan, true()),
    (workflows, workflows.c.name, _NO_PLAN, true()),
    (launch_plans, launch_plans.c.workflow, launch_plans.c.name, IS_ACTIVE),
)


def _known(keys: int) -> list[KeyedQuery]:
    """The queries for what is known below scopes that have a project, a domain and, with three keys, a workflow."""
    queries = []
    for table, workflow_name, plan_name, counts in _SOURCES:
        columns = table.c.project, table.c.domain, workflow_name.label("workflow"), plan_name.label("launch_plan")
        query = select(*columns).where(counts).distinct().order_by(*columns).limit(bindparam("most"))
        queries.append(KeyedQuery(query, (table.c.project, table.c.domain, workflow_name)[:keys]))
    return queries


#: Up to so many places are read one by one.
_FEW = 20
_BELOW_PROJECTS, _BELOW_WORKFLOWS = _known(2), _known(3)


def below(
    connection: Connection,
    domain: str,
    projects: Sequence[str],
    limit: int,
    *,
    after: tuple[str, str] = ("", ""),
    workflow: str | None = None,
) -> list[Scope]:
    """The known workflows and launch plans of some projects in a domain, by project, from after a pair of names on.

    `workflow` is the only one whose launch plans are read.
    """
    parts = []
    for table, workflow_name, plan_name, counts in _SOURCES:
        conditions = [table.c.project.in_(projects), table.c.domain == domain, counts]
        conditions.append(tuple_(workflow_name, plan_name) > after)
        if workflow is not None:
            conditions.append(workflow_name == workflow)
        columns = table.c.project, workflow_name.label("workflow"), plan_name.label("launch_plan")
        part = select(*columns).where(*conditions).distinct().order_by(*columns).limit(limit)
        parts.append(select(part.subquery()))
    scopes = union(*parts).subquery()
    query = select(scopes).order_by(scopes.c.project, scopes.c.workflow, scopes.c.launch_plan).limit(limit)
    return [Scope(domain, project, *names) for project, *names in connection.execute(query)]


def below_all(connection: Connection, places: Sequence[Scope], limit: int) -> list[Scope]:
    """The first known scopes below some others, which all have a project and a domain, or all a workflow too."""
    if len(places) <= _FEW:
        return _below_each(connection, sorted(places, key=lambda scope: scope.sort_key), limit)
    queries = _BELOW_WORKFLOWS if places and places[0].workflow else _BELOW_PROJECTS
    keys = [(project, domain, workflow) if workflow else (project, domain) for domain, project, workflow, _ in places]
    scopes = {
        Scope(domain, project, *names)
        for query in queries
        for project, domain, *names in query.execute(connection, keys, most=limit + len(keys))
    }
    return sorted(scopes.difference(places), key=lambda scope: scope.sort_key)[:limit]


def _below_each(connection: Connection, places: Sequence[Scope], limit: int) -> list[Scope]:
    """The same, place by place in their order until there are enough: of one with very many only the first are read."""
    scopes: list[Scope] = []
    for domain, project, workflow, _ in places:
        if len(scopes) >= limit:
            break
        names = (workflow, "")  # after which what is below comes
        scopes += below(connection, domain, [project], limit - len(scopes), after=names, workflow=workflow or None)
    return scopes
