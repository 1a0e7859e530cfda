"""Decisions of executions, and the trails they share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Connection, Integer, Table, Text, insert, select
from sqlalchemy import Row as DatabaseRow

from admin.core.settings.trails import Trail
from admin.store.database import RowId, UtcDateTime, insert_new, metadata

#: Equal trails are stored once, however many executions came the same way.
trails = Table(
    "trails",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("body", JSON, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    Column("execution_id", RowId, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True),
    Column("decided_at", UtcDateTime, nullable=False),
    Column("cluster", Text),
    Column("reason", Text, nullable=False),
    Column("reason_message", Text, nullable=False),
    Column("because", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    # Trails are not referred to: a trail that goes would be looked for in every decision.
    Column("settings_trail", Text, nullable=False),
    Column("placement_trail", Text, nullable=False),
    Column("scores", JSON(none_as_null=True)),
)

StoredDecision = DatabaseRow[Any]  #: a row of the table, by the names of its columns


def add_trails(connection: Connection, found: Iterable[Trail]) -> None:
    """Store trails by their digests; those that are there already are left."""
    bodies = {one.digest: one.body for one in found}
    insert_new(connection, trails, [{"digest": digest, "body": bodies[digest]} for digest in sorted(bodies)])


def add(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Store decisions; their trails must be there."""
    if rows:
        connection.execute(insert(decisions), rows)


def of(connection: Connection, execution_id: int) -> list[StoredDecision]:
    """Every decision of an execution, the first one first."""
    found = select(decisions).where(decisions.c.execution_id == execution_id).order_by(decisions.c.number)
    return list(connection.execute(found))


def settings_trails(connection: Connection, keys: Iterable[tuple[int, int]]) -> dict[int, str]:
    """The settings trails of some executions' decisions, by the executions' ids."""
    numbers = dict(keys)
    found = select(decisions.c.execution_id, decisions.c.number, decisions.c.settings_trail).where(
        decisions.c.execution_id.in_(list(numbers))
    )
    return {
        row.execution_id: row.settings_trail
        for row in connection.execute(found)
        if numbers[row.execution_id] == row.number
    }


def trail(connection: Connection, digest: str) -> Any:
    """One trail."""
    return connection.execute(select(trails.c.body).where(trails.c.digest == digest)).scalar_one()
