"""How many executions retention has deleted: a row for each project and domain, however many there were."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Table, Text, func, select, update

from admin.store.database import UtcDateTime, insert_new, metadata
from admin.store.execution_tables import executions

pruned_executions = Table(
    "pruned_executions",
    metadata,
    Column("project", Text, primary_key=True),  # empty in a row which says that others were deleted uncounted
    Column("domain", Text, primary_key=True),
    Column("total", BigInteger, nullable=False),
    Column("first_ended_at", UtcDateTime),
    Column("last_ended_at", UtcDateTime),
)
_PLACE = (executions.c.project, executions.c.domain)
_ENDED_AT = executions.c.finished_at
_ENDS = (pruned_executions.c.total, pruned_executions.c.first_ended_at, pruned_executions.c.last_ended_at)


class PrunedExecutions(NamedTuple):
    """How many executions were deleted, and when the first and the last of them had ended."""

    total: int
    first_ended_at: datetime
    last_ended_at: datetime


def add(connection: Connection, ids: Collection[int]) -> None:
    """Count executions that are about to be deleted."""
    grouped = select(*_PLACE, func.count(), func.min(_ENDED_AT), func.max(_ENDED_AT)).where(executions.c.id.in_(ids))
    # In one order, so that those that run at the same time do not wait for each other.
    for project, domain, number, first, last in connection.execute(grouped.group_by(*_PLACE).order_by(*_PLACE)).all():
        row = {"project": project, "domain": domain, "total": 0, "first_ended_at": first, "last_ended_at": last}
        insert_new(connection, pruned_executions, [row])
        is_row = (pruned_executions.c.project == project, pruned_executions.c.domain == domain)
        before = PrunedExecutions(*connection.execute(select(*_ENDS).where(*is_row).with_for_update()).one())
        values = {
            "total": before.total + number,
            "first_ended_at": min(before.first_ended_at, first),
            "last_ended_at": max(before.last_ended_at, last),
        }
        connection.execute(update(pruned_executions).where(*is_row).values(values))


def of(connection: Connection, project: str, domain: str) -> PrunedExecutions | None:
    """Those of a project and domain that were counted; None if none were."""
    is_row = (pruned_executions.c.project == project, pruned_executions.c.domain == domain)
    row = connection.execute(select(*_ENDS).where(*is_row)).one_or_none()
    return None if row is None else PrunedExecutions(*row)


def are_all_counted(connection: Connection) -> bool:
    """Whether none were deleted before they were counted."""
    return connection.execute(select(_ENDS[0]).where(pruned_executions.c.project == "")).first() is None
