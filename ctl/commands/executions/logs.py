"""`logs`: what executions printed; with --follow until they are finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from queue import Queue
from threading import Lock, Thread

import click

from ctl.cli.groups import command
from ctl.cli.options import Option, WholeNumber, domain_option, project_option, text_option
from ctl.cli.session import Session
from ctl.cli.watching import Backoff
from ctl.client.client import Client
from ctl.client.errors import ClientError, InvalidInput, InvalidRequest, NotFound
from ctl.client.executions import Execution, ExecutionId
from ctl.client.logs import STREAMS, Stream
from ctl.client.times import is_duration, parse_time
from ctl.commands.executions.options import execution_id, name_argument, raise_failures

_BOTH = "both"
_WAIT_SECONDS = 30
#: After an answer without anything new: the admin may be about to stop, or hold half a character.
_PAUSE_SECONDS = 0.3
#: Pieces that were read and are not printed yet, at most.
_MOST_PIECES = 16
#: Executions that are followed at once, at most: each takes two of the places at which the admin lets clients wait.
_MOST_FOLLOWED = 8

_HELP = f"""Show the output of executions: their stdout on stdout, their stderr on stderr.

Shows the last attempt, or the one that --attempt names. With several executions each line begins with the name of its
own, in brackets, and they are shown one after the other; an error at the end names those that cannot be shown. -f
follows the output until the executions are finished, including further attempts; with --attempt, until that attempt is
finished. It follows at most {_MOST_FOLLOWED} at once, whose lines are mixed as they come.

The admin keeps the first quarter and the last three of its limit, agents.logLimitBytes: a line in the output says how
many bytes are missing between them, and so does a warning. --since goes by when the admin stored the output, which is
about a second after it was printed.
"""


@dataclass(frozen=True, kw_only=True)
class _Selection:
    """What is shown of the log of an execution."""

    streams: Sequence[str] = STREAMS
    attempt: int | None = None  #: the only one
    tail: int | None = None
    since: str | None = None
    prefix: str = ""  #: before each line

    def open(self, client: Client, id: ExecutionId, name: str, attempt: int) -> Stream:
        return Stream(client, id, name, attempt, tail=self.tail, since=self.since)


@command(
    help=_HELP,
    params=[
        name_argument(parameter="names", required=True, nargs=-1, metavar="NAME …"),
        project_option(),
        domain_option(),
        Option(["-f", "--follow", "is_followed"], is_flag=True, help="Follow the output until it is finished."),
        Option(["--attempt"], metavar="N", type=WholeNumber(min=1), help="Attempt to show; the last one."),
        Option(
            ["--stream"],
            metavar="|".join([*STREAMS, _BOTH]),
            type=click.Choice([*STREAMS, _BOTH], case_sensitive=False),
            default=_BOTH,
            show_default=True,
            help="Stream to show.",
        ),
        Option(["--tail"], metavar="N", type=WholeNumber(min=0), help="Only the last lines of each stream."),
        text_option("since", metavar="TIME", help="Only what is newer: 5m, 1h30m, 2026-03-01T12:00."),
    ],
    examples=[
        "rainbowctl logs nightly -p flytesnacks -d development",
        "rainbowctl logs nightly -p flytesnacks -d development -f --tail 20",
        "rainbowctl logs train-1 train-2 train-3 -p flytesnacks -d development --since 10m",
        "rainbowctl logs flytesnacks/development/nightly --attempt 1 --stream stderr 2> first-try.log",
    ],
)
def logs(
    session: Session,
    names: tuple[str, ...],
    is_followed: bool,
    attempt: int | None,
    stream: str,
    tail: int | None,
    since: str | None,
) -> None:
    if session.typed.get("output") not in (None, "table"):
        raise InvalidInput("logs prints the output of the execution unchanged: leave out -o.")
    if since is not None and not is_duration(since):
        since = parse_time(since, "--since", now=datetime.now(UTC))
    ids = [execution_id(session, name) for name in dict.fromkeys(names)]
    streams = STREAMS if stream == _BOTH else (stream,)
    selection = _Selection(streams=streams, attempt=attempt, tail=tail, since=since)
    chosen = {id: replace(selection, prefix=prefix) for id, prefix in zip(ids, _prefixes(ids), strict=True)}
    if is_followed:
        _follow_all(session, chosen)
        return
    errors: list[tuple[ExecutionId, ClientError]] = []
    for id, selection in chosen.items():
        try:
            _show(session, Execution.from_document(session.client.execution(id)), selection)
        except (NotFound, InvalidRequest) as error:
            errors.append((id, error))
    raise_failures(errors, len(chosen), "shown")


def _prefixes(ids: Sequence[ExecutionId]) -> list[str]:
    """What the lines of each execution begin with: its name, or all of its id where projects or domains differ."""
    if len(ids) == 1:
        return [""]
    is_one_scope = len({(id.project, id.domain) for id in ids}) == 1
    return [f"[{id.name if is_one_scope else id}] " for id in ids]


def _show(session: Session, execution: Execution, selection: _Selection) -> None:
    id, number = execution.id, _lease_number(session, execution, selection.attempt) or execution.attempt
    streams = [selection.open(session.client, id, name, number) for name in selection.streams]
    has_text = False
    for stream in streams:
        writer = _Writer(stream=stream.name, prefix=selection.prefix)
        for text in stream.available():
            has_text = has_text or bool(text)
            writer.write(text)
        writer.finish()
    _tell_missing(session, streams, selection.prefix)
    if not has_text and selection.tail != 0 and not any(stream.is_pruned for stream in streams):
        yet = "" if all(stream.is_complete for stream in streams) else " yet"
        since = f" since {selection.since}" if selection.since else ""
        if number < execution.attempt:
            attempt = f"Attempt {selection.attempt} of execution {id}"
            session.printer.note(f"{attempt} has printed nothing{since}, and is over.")
            return
        before = (execution.document.get("last_failure") or {}).get("attempt_number")
        if execution.phase == "QUEUED" and before:
            session.printer.note(
                f"The next attempt of execution {id} has printed nothing{since or yet}: it is {execution.summary()}. "
                f"`rainbowctl logs {id} --attempt {before}` shows what attempt {before} printed."
            )
            return
        session.printer.note(f"Execution {id} has printed nothing{since or yet}: it is {execution.summary()}.")


def _lease_number(session: Session, execution: Execution, attempt: int | None) -> int | None:
    """
    The lease of an attempt, by which logs are stored; None where no attempt is named.

    The two differ where leases never started.
    """
    leases_before = execution.attempt - execution.attempt_number
    if attempt is None or not leases_before:
        return attempt
    leases = _attempt_numbers(session, execution)
    if attempt == execution.attempt_number + 1 and execution.attempt not in leases:
        return execution.attempt  # the next attempt, which has not begun
    numbers = {number: lease for lease, number in leases.items()}
    return numbers.get(attempt, attempt + leases_before)


def _attempt_numbers(session: Session, execution: Execution) -> dict[int, int | None]:
    """The attempts of an execution by the numbers of their leases; None for a lease that came to nothing."""
    attempts = session.client.explain_execution(execution.id).get("attempts") or []
    return {int(entry["number"]): entry.get("attempt_number") for entry in attempts}


def _follow_all(session: Session, chosen: dict[ExecutionId, _Selection]) -> None:
    """Follow several executions at once, each in a thread of its own; those that cannot be are named at the end."""
    if len(chosen) > _MOST_FOLLOWED:
        raise InvalidInput(f"-f follows at most {_MOST_FOLLOWED} executions at once: name fewer, or leave out -f.")
    results: Queue[tuple[ExecutionId, Exception | None]] = Queue()

    def follow(id: ExecutionId, selection: _Selection) -> None:
        try:
            _follow(session, id, selection)
        except Exception as error:  # it is raised where it is read
            results.put((id, error))
        else:
            results.put((id, None))

    for id, selection in chosen.items():
        Thread(target=follow, args=(id, selection), daemon=True).start()
    errors: list[tuple[ExecutionId, ClientError]] = []
    for _ in chosen:
        id, error = results.get()
        if isinstance(error, (NotFound, InvalidRequest)):
            errors.append((id, error))
        elif error is not None:
            raise error
    raise_failures(errors, len(chosen), "followed")


def follow_logs(session: Session, id: ExecutionId, *, start: int | None = None) -> Execution:
    """
    Print what an execution prints until it is finished, and answer the execution as it is then.

    `start` is the attempt to begin with; the last one by default.
    """
    return _follow(session, id, _Selection(), start)


def _follow(session: Session, id: ExecutionId, selection: _Selection, start: int | None = None) -> Execution:
    execution = Execution.from_document(session.client.execution(id))
    number = _lease_number(session, execution, selection.attempt) or start or execution.attempt
    if execution.phase == "QUEUED":
        session.printer.note(f"{selection.prefix}Execution {id} is {execution.summary()}.")
    while True:
        _follow_attempt(session, id, selection, number)
        execution = _read_again(session, id)
        if selection.attempt is not None or (execution.is_finished and execution.attempt <= number):
            return execution
        if execution.attempt > number:
            number, shown = _next_attempt(session, execution, number)
            selection = replace(selection, tail=None, since=None)
            session.printer.note(f"{selection.prefix}Attempt {shown}:")


def _next_attempt(session: Session, execution: Execution, lease: int) -> tuple[int, int]:
    """The lease of the next attempt that began after another lease, and which attempt it is."""
    if execution.attempt == execution.attempt_number:
        return lease + 1, lease + 1
    leases = _attempt_numbers(session, execution)
    for later, number in sorted(leases.items()):
        if lease < later < execution.attempt and number is not None:
            return later, number
    # `attempt_number` does not count an attempt that has not begun, which may not be listed either.
    following = max([execution.attempt_number, *(number + 1 for number in leases.values() if number is not None)])
    return execution.attempt, leases.get(execution.attempt) or following


def _follow_attempt(session: Session, id: ExecutionId, selection: _Selection, number: int) -> None:
    """Print the streams of one attempt side by side; each has a connection of its own to wait at."""
    pieces: Queue[tuple[str, str] | Exception | None] = Queue(_MOST_PIECES)
    backoff = Backoff(session)
    writers = {name: _Writer(stream=name, prefix=selection.prefix) for name in selection.streams}
    with ExitStack() as clients:
        streams = [
            selection.open(clients.enter_context(Client.from_settings(session.settings)), id, name, number)
            for name in selection.streams
        ]
        for stream in streams:
            Thread(target=_pour, args=(stream, pieces, backoff), daemon=True).start()
        unfinished = len(streams)
        while unfinished:
            piece = pieces.get()
            if piece is None:
                unfinished -= 1
            elif isinstance(piece, Exception):
                raise piece
            else:
                name, text = piece
                writers[name].write(text)
        for writer in writers.values():
            writer.finish()
        _tell_missing(session, streams, selection.prefix)


def _pour(stream: Stream, pieces: Queue[tuple[str, str] | Exception | None], backoff: Backoff) -> None:
    """Put a stream into the queue piece by piece, and None at its end; retry while the admin does not answer."""
    try:
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


#: So that lines of several executions do not mix.
_writing = Lock()


@dataclass(kw_only=True)
class _Writer:
    """Prints a stream: as it comes, or line by line with a prefix."""

    stream: str
    prefix: str = ""
    _line: str = field(default="", init=False)  #: one that has not ended yet

    def write(self, text: str) -> None:
        if self.prefix:
            *lines, self._line = (self._line + text).split("\n")
            text = "".join(f"{self.prefix}{line}\n" for line in lines)
        file = sys.stdout if self.stream == "stdout" else sys.stderr
        with _writing:
            file.write(text)
            file.flush()

    def finish(self) -> None:
        """Print a last line that never ended."""
        if self._line:
            self.write("\n")


def _tell_missing(session: Session, streams: Sequence[Stream], prefix: str) -> None:
    for stream in streams:
        if stream.is_truncated:
            session.printer.warning(
                f"{prefix}The output is longer than is kept: the middle of its {stream.name} is missing. "
                "More is kept with a larger agents.logLimitBytes of the admin."
            )
        if stream.is_pruned:
            session.printer.warning(
                f"{prefix}The admin no longer keeps logs of this age: its {stream.name} was deleted."
            )
