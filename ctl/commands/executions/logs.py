"""`logs`: what an execution printed; with --follow until it is finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from queue import Queue
from threading import Thread

import click

from ctl.cli.groups import command
from ctl.cli.options import Option
from ctl.cli.session import Session
from ctl.cli.watching import Backoff
from ctl.client.client import Client
from ctl.client.errors import InvalidInput
from ctl.client.executions import Execution, ExecutionId
from ctl.client.logs import STREAMS, Stream, last_lines
from ctl.commands.executions.options import EXECUTION_PARAMETERS, execution_id

_BOTH = "both"
_WAIT_SECONDS = 30
#: After an answer without anything new: the admin may be about to stop, or hold half a character.
_PAUSE_SECONDS = 0.3
#: Pieces that were read and are not printed yet, at most.
_MOST_PIECES = 16

_HELP = """Show the output of an execution: its stdout on stdout, its stderr on stderr.

Shows the last attempt, or the one that --attempt names. -f follows the output until the execution is finished,
including further attempts; with --attempt, until that attempt is finished. The admin keeps the first part of the
output, up to a limit; a warning says if the rest is missing.
"""


@command(
    help=_HELP,
    params=[
        *EXECUTION_PARAMETERS,
        Option(["-f", "--follow", "is_followed"], is_flag=True, help="Follow the output until it is finished."),
        Option(["--attempt"], metavar="N", type=click.IntRange(min=1), help="Attempt to show; the last one."),
        Option(
            ["--stream"],
            metavar="|".join([*STREAMS, _BOTH]),
            type=click.Choice([*STREAMS, _BOTH], case_sensitive=False),
            default=_BOTH,
            show_default=True,
            help="Stream to show.",
        ),
        Option(["--tail"], metavar="N", type=click.IntRange(min=0), help="Only the last lines of each stream."),
    ],
    examples=[
        "rainbowctl logs nightly -p flytesnacks -d development",
        "rainbowctl logs nightly -p flytesnacks -d development -f --tail 20",
        "rainbowctl logs flytesnacks/development/nightly --attempt 1 --stream stderr 2> first-try.log",
    ],
)
def logs(session: Session, name: str, is_followed: bool, attempt: int | None, stream: str, tail: int | None) -> None:
    if session.typed.get("output") not in (None, "table"):
        raise InvalidInput("logs prints the output of the execution unchanged: leave out -o.")
    id = execution_id(session, name)
    streams = STREAMS if stream == _BOTH else (stream,)
    if is_followed:
        follow_logs(session, id, streams, attempt=attempt, tail=tail)
    else:
        _show(session, id, streams, attempt, tail)


def _show(session: Session, id: ExecutionId, names: Sequence[str], attempt: int | None, tail: int | None) -> None:
    execution = Execution.from_document(session.client.execution(id))
    streams = [Stream(session.client, id, name, attempt or execution.attempt) for name in names]
    has_text = False
    for stream in streams:
        pieces = stream.available() if tail is None else [last_lines(stream.available(), tail)]
        for text in pieces:
            has_text = has_text or bool(text)
            _write(stream.name, text)
    _tell_missing(session, streams)
    if not has_text and tail != 0 and not any(stream.is_pruned for stream in streams):
        yet = "" if all(stream.is_complete for stream in streams) else " yet"
        session.printer.note(f"Execution {id} has printed nothing{yet}: it is {execution.summary()}.")


def follow_logs(
    session: Session,
    id: ExecutionId,
    names: Sequence[str] = STREAMS,
    *,
    attempt: int | None = None,
    start: int | None = None,
    tail: int | None = None,
) -> Execution:
    """
    Print what an execution prints until it is finished, and answer the execution as it is then.

    Parameters
    ----------
    attempt
        Only this one, until it is over.
    start
        The attempt to begin with; the last one by default.
    """
    execution = Execution.from_document(session.client.execution(id))
    number = attempt or start or execution.attempt
    if execution.phase == "QUEUED":
        session.printer.note(f"Execution {id} is {execution.summary()}.")
    while True:
        _follow_attempt(session, id, names, number, tail)
        execution = _read_again(session, id)
        if attempt is not None or (execution.is_finished and execution.attempt <= number):
            return execution
        if execution.attempt > number:
            number, tail = number + 1, None
            session.printer.note(f"Attempt {number}:")


def _follow_attempt(session: Session, id: ExecutionId, names: Sequence[str], number: int, tail: int | None) -> None:
    """Print the streams of one attempt side by side; each has a connection of its own to wait at."""
    pieces: Queue[tuple[str, str] | Exception | None] = Queue(_MOST_PIECES)
    backoff = Backoff(session)
    with ExitStack() as clients:
        streams = [
            Stream(clients.enter_context(Client.from_settings(session.settings)), id, name, number) for name in names
        ]
        for stream in streams:
            Thread(target=_pour, args=(stream, tail, pieces, backoff), daemon=True).start()
        unfinished = len(streams)
        while unfinished:
            piece = pieces.get()
            if piece is None:
                unfinished -= 1
            elif isinstance(piece, Exception):
                raise piece
            else:
                _write(*piece)
        _tell_missing(session, streams)


def _pour(
    stream: Stream, tail: int | None, pieces: Queue[tuple[str, str] | Exception | None], backoff: Backoff
) -> None:
    """Put a stream into the queue piece by piece, and None at its end; retry while the admin does not answer."""
    try:
        if tail is not None:
            pieces.put((stream.name, last_lines(stream.available(), tail)))
        while not stream.is_complete:
            text = backoff.call(lambda: stream.read(_WAIT_SECONDS))
            if text:
                pieces.put((stream.name, text))
            elif text is not None and not stream.is_complete:
                time.sleep(_PAUSE_SECONDS)
    except Exception as error:  # it is raised where it is read
        pieces.put(error)
    else:
        pieces.put(None)


def _read_again(session: Session, id: ExecutionId) -> Execution:
    backoff = Backoff(session)
    document = None
    while document is None:
        document = backoff.call(lambda: session.client.execution(id))
    return Execution.from_document(document)


def _write(stream: str, text: str) -> None:
    file = sys.stdout if stream == "stdout" else sys.stderr
    file.write(text)
    file.flush()


def _tell_missing(session: Session, streams: Sequence[Stream]) -> None:
    for stream in streams:
        if stream.is_truncated:
            session.printer.warning(
                f"The output is longer than the admin keeps: the end of its {stream.name} is missing."
            )
        if stream.is_pruned:
            session.printer.warning(f"The admin no longer keeps logs of this age: its {stream.name} was deleted.")
