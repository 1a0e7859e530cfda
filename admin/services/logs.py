"""Logs of executions, stored, read and followed, and their small output files."""

from __future__ import annotations

import codecs
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.executions.attempts import is_same
from admin.core.executions.lifecycle import Phase
from admin.core.problems import Invalid, Problem
from admin.services.context import Context
from admin.services.executions import find_execution
from admin.services.retention import is_log_past
from admin.services.waiting import Wait
from admin.store import leases, logs
from admin.store.executions import ExecutionId
from admin.store.leases import CurrentAttempt, LeasedExecution
from admin.store.logs import OutputFile

_POLL_SECONDS = 0.3
_LONGEST_CHARACTER = 4  # in bytes: with a smaller limit a reader might never advance


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of an execution's log."""

    id: ExecutionId
    attempt: int
    stream: str
    offset: int
    data: bytes
    uid: str = ""  #: of the execution; "" from an agent that sends none


def store_pieces(
    connection: Connection,
    pieces: Sequence[LogPiece],
    leased: Mapping[ExecutionId, LeasedExecution],
    cluster: str,
    limit: int,
) -> list[tuple[LogPiece, int, bool]]:
    """Store the pieces of a cluster, each if it continues its stream and there is room.

    Returns with each how far its stream goes, and whether no more of it is stored.
    """
    others = leases.current_attempts(connection, {piece.id for piece in pieces} - leased.keys())
    current: dict[ExecutionId, CurrentAttempt | LeasedExecution] = {**others, **leased}
    ends = logs.lengths(connection, {attempt.id for attempt in current.values()})
    offsets, new = [], []
    for piece in pieces:
        attempt = current.get(piece.id)
        is_ours = attempt is not None and attempt.cluster == cluster and is_same(piece.uid, attempt.uid)
        if attempt is None or not is_ours or attempt.attempt != piece.attempt:
            offsets.append((piece, piece.offset + len(piece.data), True))  # the agent may drop it
            continue
        stream = (attempt.id, piece.attempt, piece.stream)
        end = ends.get(stream, 0)
        known = end - piece.offset
        if 0 <= known < len(piece.data) and end < limit:
            data = piece.data[known : known + limit - end]
            new.append((stream, end, data))
            end = ends[stream] = end + len(data)
        offsets.append((piece, end, end >= limit))
    logs.append(connection, new)
    return offsets


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
    pruned: bool | None = None  #: whether its log was pruned, None if not


def read_log(
    context: Context,
    key: ExecutionId,
    *,
    attempt: int | None = None,
    stream: str,
    offset: int,
    limit: int,
    wait_seconds: float,
) -> LogText:
    """The log of an attempt from an offset on; waits `wait_seconds` while there is none and may be more."""
    deadline = context.monotonic() + wait_seconds
    with context.waiting_room.place(Wait.LOG) as place:
        while True:
            with context.database.reading() as connection:
                execution = find_execution(context, connection, key)
                number = attempt or execution.attempt
                if number > execution.attempt:
                    reason = f"there are {execution.attempt} attempts; give 1 to {execution.attempt}."
                    raise Invalid(Problem(field="attempt", reason=reason))
                data = logs.read(connection, execution.id, number, stream, offset, max(limit, _LONGEST_CHARACTER))
                end = logs.length(connection, execution.id, number, stream)
            is_over = number < execution.attempt or Phase(execution.phase).is_finished
            is_pruned = not data and (offset < end or (end == 0 and is_log_past(context, execution)))
            text, used = _text(data, is_last=is_over and offset + len(data) >= end)
            if used or is_over or context.monotonic() >= deadline or context.cluster_wakeups.is_closing:
                break
            place.require()
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - context.monotonic())))
    return LogText(
        attempt=number,
        stream=stream,
        offset=offset,
        data=text,
        next_offset=offset + used,
        complete=is_over and (is_pruned or offset + used >= end),
        truncated=end >= context.settings.agents.log_limit_bytes,
        pruned=is_pruned or None,
    )


def _text(data: bytes, *, is_last: bool) -> tuple[str, int]:
    """Bytes as text, and how many of them; a character that is cut off at the end is left for the next read."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=is_last)
    return text, len(data) - len(decoder.getstate()[0])


def read_outputs(context: Context, key: ExecutionId) -> tuple[list[OutputFile], bool]:
    """The output files of an execution, and whether they were pruned."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        outputs = logs.outputs(connection, execution.id)
    return outputs, not outputs and is_log_past(context, execution)
