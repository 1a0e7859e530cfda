"""Questions at a terminal, and --strict."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ctl.client.errors import Declined, InvalidInput, WarningsFound
from ctl.client.formats import printable_lines
from ctl.client.words import count

if sys.platform != "win32":
    import termios

#: How long a terminal must be quiet before a question: pasted text arrives faster than an answer.
_QUIET_SECONDS = 0.05


def is_terminal() -> bool:
    """Whether someone is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def asks(flags: Mapping[str, Any]) -> bool:
    """Whether a change is asked about: at a terminal, unless --force or --dryRun is given."""
    return is_terminal() and not flags["force"] and not flags["dry_run"]


def confirm_write() -> None:
    confirm("Write this?", "Not confirmed: nothing was written.")


def confirm_many(flags: Mapping[str, Any], summary: str, question: str, done: str, show: Callable[[], None]) -> None:
    """Show what a selector matched and ask, unless --force is given; without a terminal that is needed."""
    if flags["force"]:
        return
    if not is_terminal():
        raise InvalidInput(f"{summary} There is no terminal to ask at: use --force. Nothing was {done}.")
    show()
    confirm(f"{summary} {question}", f"Not confirmed: nothing was {done}.")


def confirm(question: str, refusal: str) -> None:
    """Ask on stderr, so that piped output stays clean; anything but yes is a Declined."""
    if sys.platform != "win32" and _discard_typed_ahead():
        print("Discarded what was typed before this question. With --force nothing is asked.", file=sys.stderr)
    print(f"{printable_lines(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
    if answer.strip().lower() not in {"y", "yes"}:
        raise Declined(refusal)


def _discard_typed_ahead() -> bool:
    """Discard what the terminal already holds, such as the rest of a pasted block: it is no answer to a question."""
    is_discarded = False
    with suppress(termios.error):  # of a terminal that hung up; there is no answer then, which is a no
        while select.select([sys.stdin], [], [], _QUIET_SECONDS)[0]:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            is_discarded = True
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # of a line without its end
    return is_discarded


def check_strict(flags: Mapping[str, Any], warnings: Sequence[Any], outcome: str) -> None:
    """Fail on warnings where --strict is given; `outcome` says what became of the change."""
    if flags["strict"] and warnings:
        raise WarningsFound(f"{count(len(warnings), 'warning')} under --strict; {outcome}.")
