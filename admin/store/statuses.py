"""What is read of an execution's place in the queue, beside its own row."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select, tuple_

from admin.store.execution_tables import executions
from admin.store.executions import UNLEASED, Execution
from admin.store.leases import MAY_START

_columns = executions.c


def place_in_line(connection: Connection, execution: Execution, now: datetime) -> int:
    """Which one an execution is of those that may start at its cluster, from 1."""
    order = (_columns.tier, -_columns.priority, _columns.id)
    is_before = tuple_(*order) < tuple_(execution.tier, -execution.priority, execution.id)
    query = select(func.count()).where(*UNLEASED, _columns.cluster == execution.cluster, MAY_START, is_before)
    return int(connection.execute(query, {"now": now}).scalar_one()) + 1
