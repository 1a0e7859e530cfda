"""The logs of executions, in pieces, and their small output files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
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

Stream = tuple[int, int, str]  #: the id of an execution, an attempt of it, and stdout or stderr

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


class OutputFile(NamedTuple):
    """A small file that an attempt of an execution left, or its beginning."""

    path: str
    attempt: int
    size: int
    truncated: bool
    content: bytes


def length(connection: Connection, execution_id: int, attempt: int, stream: str) -> int:
    """How many bytes of a stream are stored."""
    query = select(func.coalesce(func.max(_columns.end), 0)).where(*_is_stream(execution_id, attempt, stream))
    return int(connection.execute(query).scalar_one())


def lengths(connection: Connection, execution_ids: Iterable[int]) -> dict[Stream, int]:
    """How many bytes of each stream of each attempt of some executions are stored."""
    key = (_columns.execution_id, _columns.attempt, _columns.stream)
    query = select(*key, func.max(_columns.end)).where(_columns.execution_id.in_(list(execution_ids)))
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query.group_by(*key))}


def append(connection: Connection, pieces: Iterable[tuple[Stream, int, bytes]]) -> None:
    """Store pieces that each begin where their stream ended; the same piece again changes nothing."""
    rows = [
        {
            "execution_id": execution_id,
            "attempt": attempt,
            "stream": stream,
            "start": start,
            "end": start + len(data),
            "data": data,
        }
        for (execution_id, attempt, stream), start, data in pieces
    ]
    insert_new(connection, execution_logs, rows)


def read(connection: Connection, execution_id: int, attempt: int, stream: str, offset: int, limit: int) -> bytes:
    """Bytes of a stream from an offset on; none where those were pruned."""
    query = (
        select(_columns.start, _columns.data)
        .where(*_is_stream(execution_id, attempt, stream), _columns.end > offset, _columns.start < offset + limit)
        .order_by(_columns.start)
    )
    rows = connection.execute(query).all()
    if rows and rows[0].start > offset:
        return b""
    return b"".join(bytes(row.data)[max(0, offset - row.start) : offset + limit - row.start] for row in rows)


def _is_stream(execution_id: int, attempt: int, stream: str) -> tuple[ColumnElement[bool], ...]:
    return _columns.execution_id == execution_id, _columns.attempt == attempt, _columns.stream == stream


def replace_outputs(connection: Connection, files: Mapping[int, Sequence[OutputFile]]) -> None:
    """Store the files that an attempt of each execution left, in place of those of earlier attempts."""
    if files:
        connection.execute(delete(execution_outputs).where(execution_outputs.c.execution_id.in_(list(files))))
        rows = [
            {"execution_id": execution_id, **output._asdict()}
            for execution_id, outputs in files.items()
            for output in outputs
        ]
        connection.execute(insert(execution_outputs), rows)


_SELECT_OUTPUT = select(*(execution_outputs.c[name] for name in OutputFile._fields))


def outputs(connection: Connection, execution_id: int) -> list[OutputFile]:
    """The files that an execution left, by path."""
    query = _SELECT_OUTPUT.where(execution_outputs.c.execution_id == execution_id).order_by(execution_outputs.c.path)
    return list(map(OutputFile._make, connection.execute(query)))
