"""`run-with-token`: run a command while holding tokens of a pool, as flock does with a lock."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ctl.cli.groups import RunCommand, command
from ctl.cli.options import (
    Argument,
    Option,
    WholeNumber,
    definition_completer,
    domain_option,
    project_option,
    text_option,
)
from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, RainbowError, TokensExhausted
from ctl.client.times import parse_duration

if TYPE_CHECKING:
    from ctl.client.tokens import HeldTokens

#: Statuses as of `timeout`, `env` and `nice`, so that they differ from most of a command's own.
EXIT_NOT_GRANTED, EXIT_FAILED = 124, 125

_HELP = """Run a command while holding tokens of a token pool, as flock does with a lock.

Waits in line until the tokens are granted, runs the command after --, renews the tokens while it runs, and gives them
back when it ends. -p and -d say whose tokens they are, so that the caps of that project and domain count.

Signals are passed on to the command. When the lease is lost, because the admin could not be reached for that long or an
operator took the tokens away, others may get them: the command gets SIGTERM, and SIGKILL 10 seconds later. If
rainbowctl itself is killed, the command gets SIGTERM, and the tokens are free when the lease is over. The command
finds the number of its grant, which is larger than that of every earlier holder, as RAINBOW_GRANT_NUMBER.

\b
Exit status: that of the command, 128 and the number of the signal that ended it, or
  124  the tokens were not granted within --timeout; the command was not run
  125  rainbowctl failed, or the lease was lost
  126  the command cannot be run
  127  the command was not found
"""


class _OwnStatuses(RunCommand):
    """A command whose errors must not be taken for those of the command that it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.ensure_object(Session).error_status = EXIT_FAILED
        rest = super().parse_args(ctx, args)
        if not ctx.params["command"] and not ctx.resilient_parsing:
            raise click.UsageError("There is no command: write it after --.", ctx)
        return rest


@command(
    cls=_OwnStatuses,
    help=_HELP,
    params=[
        Argument(
            "pool",
            metavar="POOL",
            explanation="Token pool.",
            shell_complete=definition_completer("token-pool"),
        ),
        Option(["--amount"], metavar="N", type=WholeNumber(min=1), default=1, help="How many tokens; 1 by default."),
        project_option("Project whose tokens they are."),
        domain_option("Domain of that project."),
        text_option("execution", metavar="NAME", help="Execution that they are for, by which its cap counts."),
        text_option(
            "timeout",
            parameter="limit",
            metavar="DURATION",
            help="How long to wait in line: 90s, 5m; 0 for not at all; without limit by default.",
        ),
        text_option(
            "lease",
            metavar="DURATION",
            help="For how long they are held if rainbowctl is killed or cut off: 60s by default.",
        ),
        Option(["--priority"], metavar="N", type=int, help="The larger is served first."),
    ],
    examples=[
        "rainbowctl run-with-token hive -- beeline -f report.sql",
        "rainbowctl run-with-token hive --amount 2 -p flytesnacks -d development --timeout 5m -- ./load.sh",
        "rainbowctl run-with-token hive --timeout 0 -- ./report.sh || echo 'no token free'",
    ],
)
def run_with_token(session: Session, pool: str, **flags: Any) -> None:
    from ctl.client.calls.token_pools import LEASE_SECONDS

    seconds = None if flags["limit"] is None else parse_duration(flags["limit"], "--timeout")
    lease = LEASE_SECONDS if flags["lease"] is None else parse_duration(flags["lease"], "--lease")
    scope = resolve_scope(session, {})
    held = session.client.tokens(
        pool,
        flags["amount"],
        project=scope.project,
        domain=scope.domain,
        execution=flags["execution"],
        timeout=seconds,
        lease=lease,
        priority=flags["priority"],
        on_wait=_waiting_note(session, pool),
    )
    with _ended_by_signals():
        try:
            held.acquire()
        except TokensExhausted:
            session.error_status = EXIT_NOT_GRANTED
            raise
    raise click.exceptions.Exit(_run(session, held, flags["command"]))


def _run(session: Session, held: HeldTokens, words: tuple[str, ...]) -> int:
    from ctl.cli.children import EXIT_NOT_FOUND, EXIT_NOT_RUN, Child

    try:
        child = Child(words, {"RAINBOW_GRANT_NUMBER": str(held.number)})
    except OSError as error:
        held.release()
        session.error_status = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_RUN
        raise InvalidInput(f"{words[0]}: {error.strerror}.") from None

    def end(message: str) -> None:
        session.printer.warning(f"{message} The command is ended.")
        child.end()

    held.when_lost(end)
    held.keep()
    status = child.wait()
    held.release()
    if held.lost.is_set():
        raise RainbowError(f"The lease was lost; the command ended with status {status}.")
    return status


def _waiting_note(session: Session, pool: str) -> Callable[[Document], None]:
    """Says once what is waited for."""
    from ctl.client.tokens import full_text

    told: list[Document] = []

    def note(answer: Document) -> None:
        if not told:
            reasons = [full_text(entry) for entry in answer.get("full") or []] or [answer.get("reason") or ""]
            place = f"place {answer['place']} of {answer['waiting']} in line" if answer.get("place") else "waiting"
            session.printer.note(f"Waiting for {pool}, {place}: {'; '.join(reasons)}")
        told.append(answer)

    return note


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the waiting as Ctrl-C does, so that the line is left."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise click.exceptions.Exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
