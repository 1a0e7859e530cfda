"""Decisions of executions, and the trails they share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    FromClause,
    Integer,
    ScalarSelect,
    Table,
    Text,
    insert,
    select,
)

from admin.core.json_text import JsonObject
from admin.core.settings.trails import Trail
from admin.store.database import RowId, UtcDateTime, insert_new, metadata

Value = TypeVar("Value")

#: Equal trails are stored once, however many executions share them.
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
    # No foreign keys: deleting a trail would search every decision.
    Column("settings_trail", Text, nullable=False),
    Column("placement_trail", Text, nullable=False),
    Column("scores", JSON(none_as_null=True)),
)


class StoredDecision(NamedTuple):
    """A decision of an execution; trails by their digests."""

    execution_id: int
    number: int
    decided_at: datetime
    cluster: str | None
    reason: str
    reason_message: str
    because: str
    revision: int
    settings_trail: str
    placement_trail: str
    scores: JsonObject | None  #: as `Evaluation.scores` has them


_SELECT_DECISION = select(*(decisions.c[name] for name in StoredDecision._fields))


def add_trails(connection: Connection, new: Iterable[Trail]) -> None:
    """Store trails by their digests; those that are stored already are left."""
    bodies = {trail.digest: trail.body for trail in new}
    insert_new(connection, trails, [{"digest": digest, "body": bodies[digest]} for digest in sorted(bodies)])


def add(connection: Connection, new: Iterable[StoredDecision]) -> None:
    """Store decisions, whose trails must be stored."""
    rows = [decision._asdict() for decision in new]
    if rows:
        connection.execute(insert(decisions), rows)


def of(connection: Connection, execution_id: int) -> list[StoredDecision]:
    """Every decision of an execution, the first one first."""
    query = _SELECT_DECISION.where(decisions.c.execution_id == execution_id).order_by(decisions.c.number)
    return list(map(StoredDecision._make, connection.execute(query)))


def of_last(table: FromClause, column: Column[Value]) -> ScalarSelect[Value]:
    """A column of the last decision of each execution of a table."""
    is_last = (decisions.c.execution_id == table.c.id, decisions.c.number == table.c.decisions)
    return select(column).where(*is_last).correlate(table).scalar_subquery()


def settings_trails(connection: Connection, keys: Iterable[tuple[int, int]]) -> dict[int, str]:
    """The digests of the settings trails of some decisions, by the ids of their executions."""
    return _of_decisions(connection, keys, decisions.c.settings_trail)


def placement_trails(connection: Connection, keys: Iterable[tuple[int, int]]) -> dict[int, str]:
    """The digests of the placement trails of some decisions, by the ids of their executions."""
    return _of_decisions(connection, keys, decisions.c.placement_trail)


def clusters(connection: Connection, keys: Iterable[tuple[int, int]]) -> dict[int, str | None]:
    """The clusters that some decisions chose, by the ids of their executions."""
    return _of_decisions(connection, keys, decisions.c.cluster)


def _of_decisions(connection: Connection, keys: Iterable[tuple[int, int]], column: Column[Value]) -> dict[int, Value]:
    numbers = dict(keys)
    if not numbers:
        return {}
    query = select(decisions.c.execution_id, decisions.c.number, column).where(
        decisions.c.execution_id.in_(list(numbers))
    )
    return {
        execution_id: value
        for execution_id, number, value in connection.execute(query)
        if numbers[execution_id] == number
    }


def rungs(connection: Connection, digests: Iterable[str]) -> dict[str, list[JsonObject]]:
    """The rungs of some settings trails, by their digests; the rest of a trail is not read."""
    return _parts(connection, "rungs", digests)


def settings(connection: Connection, digests: Iterable[str]) -> dict[str, list[JsonObject]]:
    """The effective values of some settings trails, by their digests; the rungs are not read."""
    return _parts(connection, "settings", digests)


def _parts(connection: Connection, part: str, digests: Iterable[str]) -> dict[str, list[JsonObject]]:
    requested = sorted(set(digests))
    if not requested:
        return {}
    query = select(trails.c.digest, trails.c.body[part]).where(trails.c.digest.in_(requested))
    return {row[0]: row[1] for row in connection.execute(query)}


def trail(connection: Connection, digest: str) -> JsonObject:
    """The body of a trail, a JSON object."""
    body: JsonObject = connection.execute(select(trails.c.body).where(trails.c.digest == digest)).scalar_one()
    return body
