"""What is read of an execution's place in the queue and of its phase, beside its own row."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select, tuple_

from admin.store.execution_tables import execution_events, executions
from admin.store.executions import UNLEASED, Execution
from admin.store.leases import MAY_START

_columns = executions.c
_event_columns = execution_events.c


def place_in_line(connection: Connection, execution: Execution, now: datetime) -> int:
    """Which one an execution is of those that may start at its cluster, from 1."""
    order = (_columns.tier, -_columns.priority, _columns.id)
    is_before = tuple_(*order) < tuple_(execution.tier, -execution.priority, execution.id)
    query = select(func.count()).where(*UNLEASED, _columns.cluster == execution.cluster, MAY_START, is_before)
    return int(connection.execute(query, {"now": now}).scalar_one()) + 1


def phase_began_at(connection: Connection, execution: Execution) -> datetime:
    """When an execution entered its phase."""
    if execution.finished_at is not None:  # its events may not be kept, and it may have been archived since
        return execution.finished_at
    is_own = _event_columns.execution_id == execution.id
    last_other = select(func.coalesce(func.max(_event_columns.number), 0)).where(
        is_own, _event_columns.phase != execution.phase
    )
    query = select(func.min(_event_columns.at)).where(is_own, _event_columns.number > last_other.scalar_subquery())
    return connection.execute(query).scalar_one() or execution.created_at
