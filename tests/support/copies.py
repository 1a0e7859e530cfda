"""Many executions at the price of one."""

from __future__ import annotations

from sqlalchemy import func, insert, select

from admin.services.context import Context
from admin.store.decisions import decisions
from admin.store.execution_tables import execution_events, executions


def copy_execution(context: Context, template: str, names: list[str]) -> None:
    """Store executions like an existing one under other names, each with its decision and its first event."""
    with context.database.writing() as connection:
        row = connection.execute(select(executions).where(executions.c.name == template)).one()
        decision = connection.execute(select(decisions).where(decisions.c.execution_id == row.id)).one()
        event = connection.execute(select(execution_events).where(execution_events.c.execution_id == row.id)).one()
        first = connection.execute(select(func.max(executions.c.id))).scalar_one() + 1
        values = {key: value for key, value in row._mapping.items() if key not in ("id", "name")}
        connection.execute(insert(executions), [{**values, "name": name} for name in names])
        ids = list(connection.execute(select(executions.c.id).where(executions.c.id >= first)).scalars())
        event_values = {key: value for key, value in event._mapping.items() if key != "id"}
        connection.execute(insert(decisions), [{**decision._mapping, "execution_id": id} for id in ids])
        connection.execute(insert(execution_events), [{**event_values, "execution_id": id} for id in ids])
