"""The admin's clock: whether it is trusted, and saying that it is right."""

from __future__ import annotations

from ctl.cli.groups import command
from ctl.cli.options import Option, force_option
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.provenance import ANONYMOUS, show_name
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.times import to_second

_GET_HELP = """Show the admin's clock, and whether anything is pruned or given up by it.

A clock that is more than a day ahead of where it was last trusted has jumped: nothing is pruned, and no silent cluster
is given up, until the clock is set right, has run on for a day, or `rainbowctl accept clock` says that it is right.
"""
_ACCEPT_HELP = """Say that the admin's clock is right, although it has jumped: pruning and giving up go on.

What is older than the retention allows by that clock is then deleted for good. Asks for confirmation on a terminal.
`get clock -o wide` shows who said so last, and why.
"""


@command(
    help=_GET_HELP,
    examples=["rainbowctl get clock", "rainbowctl get clock -o json"],
)
def get_clock(session: Session) -> None:
    clock = session.client.clock()
    session.printer.show(
        ["clock"],
        [clock],
        clock,
        {
            # Times are absolute: how far they are from now is the question.
            "TIME": lambda row: to_second(row["time"]),
            "STATE": _state,
            "TRUSTED AT": lambda row: to_second(row["trusted_at"]),
            "WHY": "message",
        },
        {
            "ACCEPTED AT": lambda row: to_second(row.get("accepted_at") or ""),
            "ACCEPTED BY": _accepted_by,
            "REASON": "accepted_reason",
        },
    )


def _accepted_by(clock: Document) -> str:
    """Who said that the clock is right."""
    author, name = clock.get("accepted_author") or ANONYMOUS, clock.get("accepted_by")
    return show_name(author, None if name == author else name) if name else ""


def _state(clock: Document) -> str:
    return "jumped" if clock["suspended"] else "ok"


@command(
    help=_ACCEPT_HELP,
    params=[Option(["--reason"], metavar="WHY", help="Why; `get clock` shows it."), force_option("Do not ask.")],
    examples=["rainbowctl accept clock --reason 'the admins were stopped for a week'"],
)
def accept_clock(session: Session, reason: str | None, force: bool) -> None:
    if is_terminal() and not force:
        clock = session.client.clock()
        if clock["suspended"]:
            confirm(f"It is {to_second(clock['time'])}: is that right?", "Not confirmed: nothing was changed.")
    answer = session.client.accept_clock(reason=reason, claimed_by=local_user())
    session.printer.machine_output(["clock"], answer)
    time = to_second(answer["clock"]["time"])
    session.printer.note(
        f"The clock is trusted: it is {time}. Pruning and giving up go on within a minute."
        if answer["changed"]
        else f"No changes: the clock was trusted already. It is {time}."
    )
