"""What executions print, in pieces, and the small files they leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

Place = tuple[int, int, str]  #: an execution, an attempt of it, and a stream

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


def lengths(connection: Connection, execution_ids: Iterable[int]) -> dict[Place, int]:
    """How many bytes of each stream of each attempt of some executions are stored."""
    place = (_columns.execution_id, _columns.attempt, _columns.stream)
    found = select(*place, func.max(_columns.end)).where(_columns.execution_id.in_(list(execution_ids)))
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(found.group_by(*place))}


def append(connection: Connection, pieces: Iterable[tuple[Place, int, bytes]]) -> None:
    """Store pieces that each begin where the last one ended; the same piece again changes nothing."""
    rows = [
        {"execution_id": row_id, "attempt": attempt, "stream": stream, "start": start, "end": start + len(data)}
        | {"data": data}
        for (row_id, attempt, stream), start, data in pieces
    ]
    insert_new(connection, execution_logs, rows)


def read(connection: Connection, execution_id: int, attempt: int, stream: str, offset: int, limit: int) -> bytes:
    """Some bytes of a stream, from an offset on; none where what stood there is no longer kept."""
    found = (
        select(_columns.start, _columns.data)
        .where(*_at(execution_id, attempt, stream), _columns.end > offset, _columns.start < offset + limit)
        .order_by(_columns.start)
    )
    rows = connection.execute(found).all()
    if rows and rows[0].start > offset:
        return b""
    return b"".join(bytes(row.data)[max(0, offset - row.start) : offset + limit - row.start] for row in rows)


def _at(execution_id: int, attempt: int, stream: str) -> tuple[Any, ...]:
    return _columns.execution_id == execution_id, _columns.attempt == attempt, _columns.stream == stream


def replace_outputs(connection: Connection, files: Mapping[int, tuple[int, list[dict[str, Any]]]]) -> None:
    """Store the files that attempts of some executions left, in place of those of earlier ones."""
    if files:
        connection.execute(delete(execution_outputs).where(execution_outputs.c.execution_id.in_(list(files))))
        rows = [
            {"execution_id": row_id, "attempt": attempt, **one}
            for row_id, (attempt, some) in files.items()
            for one in some
        ]
        connection.execute(insert(execution_outputs), rows)


def outputs(connection: Connection, execution_id: int) -> list[Any]:
    """The files that an execution left, by path."""
    found = select(execution_outputs).where(execution_outputs.c.execution_id == execution_id)
    return list(connection.execute(found.order_by(execution_outputs.c.path)))
