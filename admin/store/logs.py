"""What executions print, in pieces, and the small files they leave."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
)

from admin.store.database import RowId, insert_new, metadata

execution_logs = Table(
    "execution_logs",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("execution_id", RowId, ForeignKey("executions.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("stream", Text, nullable=False),
    Column("start", BigInteger, nullable=False),  # in bytes of the stream
    Column("end", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("execution_id", "attempt", "stream", "start", name="uq_execution_logs_place"),
)
_columns = execution_logs.c

execution_outputs = Table(
    "execution_outputs",
    metadata,
    Column("execution_id", RowId, ForeignKey("executions.id"), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("content", LargeBinary, nullable=False),
)


def length(connection: Connection, execution_id: int, attempt: int, stream: str) -> int:
    """How many bytes of a stream are stored."""
    found = select(func.coalesce(func.max(_columns.end), 0)).where(*_at(execution_id, attempt, stream))
    return int(connection.execute(found).scalar_one())


def append(connection: Connection, execution_id: int, attempt: int, stream: str, start: int, data: bytes) -> None:
    """Store a piece that begins where the last one ended; the same piece again changes nothing."""
    values = {"start": start, "end": start + len(data), "data": data}
    place = {"execution_id": execution_id, "attempt": attempt, "stream": stream}
    insert_new(connection, execution_logs, [{**place, **values}])


def read(connection: Connection, execution_id: int, attempt: int, stream: str, offset: int, limit: int) -> bytes:
    """Some bytes of a stream, from an offset on."""
    found = (
        select(_columns.start, _columns.data)
        .where(*_at(execution_id, attempt, stream), _columns.end > offset, _columns.start < offset + limit)
        .order_by(_columns.start)
    )
    pieces = [
        bytes(row.data)[max(0, offset - row.start) : offset + limit - row.start] for row in connection.execute(found)
    ]
    return b"".join(pieces)


def _at(execution_id: int, attempt: int, stream: str) -> tuple[Any, ...]:
    return _columns.execution_id == execution_id, _columns.attempt == attempt, _columns.stream == stream


def replace_outputs(connection: Connection, execution_id: int, attempt: int, files: list[dict[str, Any]]) -> None:
    """Store the files that an attempt left, in place of those of an earlier one."""
    connection.execute(delete(execution_outputs).where(execution_outputs.c.execution_id == execution_id))
    if files:
        rows = [{"execution_id": execution_id, "attempt": attempt, **one} for one in files]
        connection.execute(insert(execution_outputs), rows)


def outputs(connection: Connection, execution_id: int) -> list[Any]:
    """The files that an execution left, by path."""
    found = select(execution_outputs).where(execution_outputs.c.execution_id == execution_id)
    return list(connection.execute(found.order_by(execution_outputs.c.path)))
