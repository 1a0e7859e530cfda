"""The logs of executions and their output files, in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
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
    case,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from admin.store.database import RowId, UtcDateTime, insert_new, metadata

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
    Column("stored_at", UtcDateTime),  # None for what was stored before there were times
    UniqueConstraint("execution_id", "attempt", "stream", "start", name="uq_execution_logs_place"),
)
_columns = execution_logs.c

#: What the stream of an output file is called, before its path.
OUTPUT = "output:"
#: How many pieces are read at once to find the last lines.
_PIECES = 16

Stream = tuple[int, int, str]  #: the id of an execution, an attempt of it, and stdout, stderr or an output file

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
    """A file that an attempt of an execution left, or its beginning; a large one is stored in pieces."""

    path: str
    attempt: int
    size: int
    truncated: bool
    content: bytes


class Extent(NamedTuple):
    """What is stored of a stream."""

    first: int  #: where it begins, later than 0 if its beginning was pruned
    next: int  #: where the first bytes from some offset on are
    end: int  #: where it ends
    kept: int  #: how many bytes are stored, fewer than the end says if some are missing


def extent(connection: Connection, stream: Stream, offset: int = 0) -> Extent:
    """What is stored of a stream, and where it goes on at an offset."""
    numbers = (
        func.min(_columns.start),
        func.min(case((_columns.end > offset, _columns.start))),
        func.max(_columns.end),
        func.sum(_columns.end - _columns.start),
    )
    row = connection.execute(select(*numbers).where(*_is_stream(stream))).one()
    first, next, end, kept = (int(number or 0) for number in row)
    return Extent(first=first, next=max(offset, next), end=end, kept=kept)


def ends(connection: Connection, execution_ids: Iterable[int]) -> dict[Stream, int]:
    """Where what is stored of each stream of each attempt of some executions ends."""
    key = (_columns.execution_id, _columns.attempt, _columns.stream)
    query = select(*key, func.max(_columns.end)).where(_columns.execution_id.in_(list(execution_ids)))
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query.group_by(*key))}


def append(connection: Connection, pieces: Iterable[tuple[Stream, int, bytes]], now: datetime) -> None:
    """Store pieces that each begin where their stream ended, or later; the same piece again changes nothing."""
    rows = [
        {
            "execution_id": execution_id,
            "attempt": attempt,
            "stream": stream,
            "start": start,
            "end": start + len(data),
            "data": data,
            "stored_at": now,
        }
        for (execution_id, attempt, stream), start, data in pieces
    ]
    insert_new(connection, execution_logs, rows)


def drop(connection: Connection, stream: Stream, start: int, end: int) -> None:
    """Delete the bytes of a stream from one place, where a piece begins, to another."""
    is_between = (*_is_stream(stream), _columns.start >= start, _columns.start < end)
    connection.execute(delete(execution_logs).where(*is_between, _columns.end <= end))
    rest = func.substr(_columns.data, cast(end - _columns.start + 1, Integer))
    connection.execute(update(execution_logs).where(*is_between).values(data=rest, start=end))


def read(connection: Connection, stream: Stream, offset: int, limit: int) -> bytes:
    """Bytes of a stream from an offset on, up to where some are missing."""
    query = (
        select(_columns.start, _columns.data)
        .where(*_is_stream(stream), _columns.end > offset, _columns.start < offset + limit)
        .order_by(_columns.start)
    )
    data = b""
    for start, piece in connection.execute(query):
        if start > offset + len(data):
            break
        data += bytes(piece)[max(0, offset - start) : offset + limit - start]
    return data


def start_of_last_lines(connection: Connection, stream: Stream, number: int) -> int:
    """Where the last lines of a stream begin, at least one; a line that is not ended yet counts."""
    query = select(_columns.start, _columns.data).where(*_is_stream(stream)).order_by(_columns.start.desc())
    start, is_last = 0, True
    with connection.execute(query.execution_options(yield_per=_PIECES)) as rows:
        for start, piece in rows:
            data = bytes(piece)
            position = len(data)
            if is_last and data.endswith(b"\n"):
                position -= 1
            is_last = False
            while (position := data.rfind(b"\n", 0, position)) >= 0:
                number -= 1
                if number == 0:
                    return int(start) + position + 1
    return start


def start_since(connection: Connection, stream: Stream, time: datetime) -> int | None:
    """Where what was stored since a time begins, None if nothing was; what has no time counts as later."""
    is_since = or_(_columns.stored_at >= time, _columns.stored_at.is_(None))
    query = select(func.min(_columns.start)).where(*_is_stream(stream), is_since)
    start: int | None = connection.execute(query).scalar()
    return start


def _is_stream(stream: Stream) -> tuple[ColumnElement[bool], ...]:
    execution_id, attempt, name = stream
    return _columns.execution_id == execution_id, _columns.attempt == attempt, _columns.stream == name


def replace_outputs(connection: Connection, files: Mapping[int, Sequence[OutputFile]]) -> None:
    """Store the files that an attempt of each execution left, in place of those of earlier attempts."""
    if not files:
        return
    connection.execute(delete(execution_outputs).where(execution_outputs.c.execution_id.in_(list(files))))
    rows = [
        {"execution_id": execution_id, **output._asdict()}
        for execution_id, outputs in files.items()
        for output in outputs
    ]
    connection.execute(insert(execution_outputs), rows)
    for attempt in {row["attempt"] for row in rows} - {1}:
        ids = [row["execution_id"] for row in rows if row["attempt"] == attempt]
        is_earlier = (_columns.execution_id.in_(ids), _columns.attempt < attempt)
        connection.execute(delete(execution_logs).where(*is_earlier, _columns.stream.startswith(OUTPUT)))


_SELECT_OUTPUT = select(*(execution_outputs.c[name] for name in OutputFile._fields))


class StoredOutput(NamedTuple):
    """A file that an execution left, and how many bytes of it are stored."""

    file: OutputFile
    kept: int


def outputs(connection: Connection, execution_id: int) -> list[StoredOutput]:
    """The files that an execution left, by path."""
    query = _SELECT_OUTPUT.where(execution_outputs.c.execution_id == execution_id).order_by(execution_outputs.c.path)
    files = list(map(OutputFile._make, connection.execute(query)))
    key = (_columns.attempt, _columns.stream)
    is_output = (_columns.execution_id == execution_id, _columns.stream.startswith(OUTPUT))
    sums = select(*key, func.sum(_columns.end - _columns.start)).where(*is_output).group_by(*key)
    in_pieces = {(attempt, stream): int(kept) for attempt, stream, kept in connection.execute(sums)}
    return [
        StoredOutput(file, len(file.content) or in_pieces.get((file.attempt, OUTPUT + file.path), 0)) for file in files
    ]
