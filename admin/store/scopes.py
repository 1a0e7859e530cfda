"""Scopes that are known: those that have attributes, and those of registered workflows and launch plans."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, literal, select, tuple_, union

from admin.core.settings.scopes import Scope
from admin.store.attributes import attributes
from admin.store.registrations import launch_plans, workflows


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
    empty = literal("").label("launch_plan")
    sources = (
        (attributes, attributes.c.workflow, attributes.c.launch_plan),
        (workflows, workflows.c.name, empty),
        (launch_plans, launch_plans.c.workflow, launch_plans.c.name),
    )
    parts = []
    for table, workflow_name, plan_name in sources:
        conditions = [table.c.project.in_(projects), table.c.domain == domain]
        conditions.append(tuple_(workflow_name, plan_name) > after)
        if workflow is not None:
            conditions.append(workflow_name == workflow)
        columns = table.c.project, workflow_name.label("workflow"), plan_name.label("launch_plan")
        part = select(*columns).where(*conditions).distinct().order_by(*columns).limit(limit)
        parts.append(select(part.subquery()))
    known = union(*parts).subquery()
    query = select(known).order_by(known.c.project, known.c.workflow, known.c.launch_plan).limit(limit)
    return [Scope(domain, project, *names) for project, *names in connection.execute(query)]
