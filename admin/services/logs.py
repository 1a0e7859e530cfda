"""Logs of executions, stored, read and followed, and their output files.

Of a stream that is longer than the limit the beginning and the end are kept: what is between them is deleted as the
stream grows. Offsets count the bytes of the complete stream; a line says how many bytes are missing.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.configuration.settings import Agents as AgentSettings
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import is_same
from admin.core.problems import closest, did_you_mean, shorten
from admin.errors import OutputNotFound
from admin.services.context import Context
from admin.services.executions import beyond_last, find_execution
from admin.services.retention import is_log_past
from admin.services.waiting import Wait
from admin.store import leases, logs
from admin.store.executions import ExecutionId
from admin.store.leases import CurrentAttempt, LeasedExecution
from admin.store.logs import StoredOutput, Stream

_POLL_SECONDS = 0.3
_LONGEST_CHARACTER = 4  # in bytes: with a smaller limit a reader might never advance
_ENDLESS = 2**62
#: How many output files of an attempt are stored; an agent sends no more.
MOST_OUTPUTS = 100
#: Of a large output, what the list of outputs has of it.
_BEGINNING_BYTES = 65_536
_MISSING = (
    "\nrainbow: {} missing here: agents.logLimitBytes of the admin and engineOptions.logLimitBytes of the "
    "agent say how many are kept\n"
)


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of an execution's log, or of an output file."""

    id: ExecutionId
    attempt: int
    stream: str
    offset: int
    data: bytes
    uid: str = ""  #: of the execution; "" from an agent that sends none
    after: int | None = None  #: where the piece before it ended, if what is between the two is not sent


def store_pieces(
    connection: Connection,
    pieces: Sequence[LogPiece],
    leased: Mapping[ExecutionId, LeasedExecution],
    cluster: str,
    settings: AgentSettings,
    now: datetime,
) -> list[tuple[LogPiece, int, bool]]:
    """Store the pieces of a cluster, each if it continues its stream.

    Returns with each how far its stream goes, and whether no more of it is stored.
    """
    others = leases.current_attempts(connection, {piece.id for piece in pieces} - leased.keys())
    current: dict[ExecutionId, CurrentAttempt | LeasedExecution] = {**others, **leased}
    ends = logs.ends(connection, {attempt.id for attempt in current.values()})
    offsets, new = [], []
    for piece in pieces:
        attempt = current.get(piece.id)
        is_ours = attempt is not None and attempt.cluster == cluster and is_same(piece.uid, attempt.uid)
        if attempt is None or not is_ours or attempt.attempt != piece.attempt:
            offsets.append((piece, piece.offset + len(piece.data), True))  # the agent may drop it
            continue
        stream = (attempt.id, piece.attempt, piece.stream)
        if _is_one_too_many(stream, ends):
            offsets.append((piece, piece.offset + len(piece.data), True))
            continue
        most = _most_bytes(piece.stream, settings)
        start, data = _new_part(piece, ends.get(stream, 0))
        data = data[: max(0, most - start)]
        if data:
            new.append((stream, start, data))
            ends[stream] = start + len(data)
        end = ends.get(stream, 0)
        offsets.append((piece, end, end >= most))
    head = settings.log_limit_bytes - settings.log_tail_bytes
    logs.append(connection, [part for piece in new for part in _split(*piece, head)], now)
    for stream in {stream for stream, _, _ in new}:
        if not stream[2].startswith(logs.OUTPUT) and ends[stream] > settings.log_limit_bytes:
            logs.drop(connection, stream, head, ends[stream] - settings.log_tail_bytes)
    return offsets


def _is_one_too_many(stream: Stream, streams: Iterable[Stream]) -> bool:
    """Whether a stream is a new output file of an attempt that has as many as are stored."""
    if not stream[2].startswith(logs.OUTPUT):
        return False
    outputs = {other for other in streams if other[:2] == stream[:2] and other[2].startswith(logs.OUTPUT)}
    return stream not in outputs and len(outputs) >= MOST_OUTPUTS


def _most_bytes(stream: str, settings: AgentSettings) -> int:
    """Up to where bytes of a stream are stored: of a log any, because it loses others."""
    if stream.startswith(logs.OUTPUT):
        return settings.output_limit_bytes
    return _ENDLESS if settings.log_limit_bytes else 0


def _split(stream: Stream, start: int, data: bytes, place: int) -> list[tuple[Stream, int, bytes]]:
    """A piece, or its two parts if a place is within it."""
    size = place - start
    if not 0 < size < len(data):
        return [(stream, start, data)]
    return [(stream, start, data[:size]), (stream, place, data[size:])]


def _new_part(piece: LogPiece, end: int) -> tuple[int, bytes]:
    """Where what is new of a piece begins, and its bytes; none where bytes before it have not come."""
    if piece.offset > end:
        return piece.offset, piece.data if piece.after == end else b""
    return end, piece.data[end - piece.offset :]


@dataclass(frozen=True, kw_only=True)
class LogText:
    """Some text of a stream, and where it goes on."""

    attempt: int
    stream: str
    offset: int
    data: str
    next_offset: int
    complete: bool
    truncated: bool
    end: int  #: where what is stored of the stream ends
    content: bytes | None = None  #: what `data` is the text of, if that was asked for
    pruned: bool | None = None  #: whether its log was pruned, None if not


@dataclass(frozen=True, kw_only=True)
class LogRequest:
    """Which part of which log to read, and how long to wait for it.

    With `tail` or `since` it begins with its last lines, or with what was stored since then, whichever is later.
    """

    stream: str
    limit: int  #: in bytes
    wait_seconds: float  #: while there is nothing to read and may be more
    attempt: int | None = None  #: the last one, if none is given
    offset: int = 0
    tail: int | None = None
    since: datetime | None = None
    with_bytes: bool = False  #: whether the bytes are asked for too, which may be no text


def read_log(context: Context, key: ExecutionId, request: LogRequest) -> LogText:
    """The log of an attempt from an offset on; waits while there is none and may be more."""
    deadline = context.monotonic() + request.wait_seconds
    limit = max(request.limit, _LONGEST_CHARACTER)
    start: int | None = None
    with context.wait_limiter.slot(Wait.LOG) as slot:
        while True:
            with context.database.reading() as connection:
                execution = find_execution(context, connection, key)
                number = request.attempt or execution.attempt
                if number > execution.attempt:
                    raise beyond_last("attempt", execution, execution.attempt)
                log = (execution.id, number, request.stream)
                if start is None:
                    start = _start(connection, log, request)
                extent = logs.extent(connection, log, start)
                is_pruned = start < extent.first or (extent.end == 0 and is_log_past(context, execution))
                data = b"" if is_pruned else logs.read(connection, log, extent.next, limit)
            is_over = number < execution.attempt or Phase(execution.phase).is_finished
            is_at_end = extent.next + len(data) >= extent.end
            text, used = _text(data, is_last=is_over if is_at_end else len(data) < limit)
            if used or is_over or context.monotonic() >= deadline or context.cluster_wakeups.is_closing:
                break
            slot.require()
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - context.monotonic())))
    next_offset = start if is_pruned else extent.next + used
    missing = 0 if is_pruned else extent.next - start
    gap = _MISSING.format("1 byte is" if missing == 1 else f"{missing} bytes are") if missing else ""
    return LogText(
        attempt=number,
        stream=request.stream,
        offset=start,
        data=gap + text,
        content=gap.encode() + data[:used] if request.with_bytes else None,
        next_offset=next_offset,
        complete=is_over and (is_pruned or next_offset >= extent.end),
        truncated=extent.kept < extent.end,
        end=extent.end,
        pruned=is_pruned or None,
    )


def _start(connection: Connection, log: Stream, request: LogRequest) -> int:
    """Where to begin; at 0 if the beginning of the log was pruned, so that no more of it is shown."""
    tail, since = request.tail, request.since
    if tail is None and since is None:
        return request.offset
    extent = logs.extent(connection, log)
    if extent.first > 0:
        return 0
    lines = 0 if tail is None else logs.start_of_last_lines(connection, log, tail) if tail else extent.end
    times = 0 if since is None else logs.start_since(connection, log, since)
    return max(lines, extent.end if times is None else times)


def _text(data: bytes, *, is_last: bool) -> tuple[str, int]:
    """Bytes as text, and how many of them; a character that is cut off at the end is left for the next read."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=is_last)
    return text, len(data) - len(decoder.getstate()[0])


def read_outputs(context: Context, key: ExecutionId) -> tuple[list[StoredOutput], bool]:
    """The output files of an execution, and whether they were pruned."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        outputs = [
            _with_beginning(connection, execution.id, output) for output in logs.outputs(connection, execution.id)
        ]
    return outputs, not outputs and is_log_past(context, execution)


def _with_beginning(connection: Connection, execution_id: int, output: StoredOutput) -> StoredOutput:
    """An output with the first bytes of a file that is stored in pieces, for clients that do not ask for them."""
    file, kept = output
    if file.content or not kept:
        return output
    stream = (execution_id, file.attempt, logs.OUTPUT + file.path)
    return StoredOutput(file._replace(content=logs.read(connection, stream, 0, _BEGINNING_BYTES)), kept)


@dataclass(frozen=True, kw_only=True)
class OutputPiece:
    """Some bytes of an output file, and where it goes on."""

    path: str
    attempt: int
    size: int
    kept: int
    offset: int
    content: bytes
    next_offset: int
    complete: bool  #: whether there is no more of it


def read_output(context: Context, key: ExecutionId, *, path: str, offset: int, limit: int) -> OutputPiece:
    """Bytes of an output file from an offset on."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        stored = {stored.file.path: stored for stored in logs.outputs(connection, execution.id)}
        if path not in stored:
            near = closest(path, stored)
            raise OutputNotFound(
                f"Execution '{shorten(key.name)}' left no output '{shorten(path)}'.{did_you_mean(near)} "
                f"`rainbowctl get output {key.project}/{key.domain}/{key.name}` lists what it left.",
                details=[{"field": "path", "reason": "is unknown.", "closest": list(near)}],
            )
        file, kept = stored[path]
        content = file.content[offset : offset + limit]
        if not file.content:
            content = logs.read(connection, (execution.id, file.attempt, logs.OUTPUT + path), offset, limit)
    end = offset + len(content)
    return OutputPiece(
        path=path,
        attempt=file.attempt,
        size=file.size,
        kept=kept,
        offset=offset,
        content=content,
        next_offset=end,
        complete=end >= kept or not content,
    )
