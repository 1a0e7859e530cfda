"""The nearest row that a scope without a value could take over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.settings.kinds import Kind
from admin.core.settings.nearest import nearest_row
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope
from admin.services.context import Context
from admin.store import attributes, projects
from admin.store.attributes import Filter

#: Rows, and other projects, that are looked at.
_MOST = 100


def find_nearest(context: Context, connection: Connection, kind: Kind, scope: Scope) -> Row | None:
    """The nearest row of a kind beside a scope at which no value applies; None where there is none."""
    for rows in _beside(context, connection, kind.name, scope):
        seen = [row for row in rows if context.access.allows("attributes.read", row.scope)]
        row = nearest_row(kind, scope, seen)
        if row is not None:
            return row
    return None


def _beside(context: Context, connection: Connection, kind: str, scope: Scope) -> Iterator[Iterable[Row]]:
    """The rows beside a scope and beside the broader ones, level by level, the most specific first."""
    domain, project, workflow, launch_plan = scope
    known = context.access.projects
    page = projects.page(connection, state=None, after=None, limit=_MOST, among=known) if project else []
    others = [other.id for other in page]
    here = Filter(kinds=(kind,), project=project, domain=domain)
    domains = context.settings.domain_ids()

    def elsewhere(**below: str) -> Iterator[Iterable[Row]]:
        """The rows of the same name in another domain, then in another project."""
        yield attributes.exactly(connection, [(kind, Scope(other, project, **below)) for other in domains])
        yield attributes.exactly(connection, [(kind, Scope(domain, other, **below)) for other in others])

    if launch_plan:
        plans = replace(here, workflow=workflow, level=Level.LAUNCH_PLAN)
        yield attributes.page(connection, plans, None, _MOST)
        yield from elsewhere(workflow=workflow, launch_plan=launch_plan)
    if workflow:
        yield attributes.page(connection, replace(here, level=Level.WORKFLOW), None, _MOST)
        yield from elsewhere(workflow=workflow)
    if project and domain:
        yield from elsewhere()
    if project:
        yield attributes.exactly(connection, [(kind, Scope(project=other)) for other in others])
    if domain:
        yield attributes.of_domains(connection, kind)
