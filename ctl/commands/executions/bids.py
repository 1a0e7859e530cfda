"""Bids: which clusters were asked about an execution, and what each answered."""

from __future__ import annotations

from collections.abc import Sequence

from ctl.cli.output import Columns, Printer
from ctl.client.answers import Document
from ctl.client.times import format_duration
from ctl.client.words import count

#: What became of a round, by its outcome.
_OUTCOMES = {
    "nobody": "no cluster said yes",
    "never": "no cluster can run it",
    "stays": "it stays where it waits",
    "withdrawn": "not needed any more",
}


def show_rounds(printer: Printer, rounds: Sequence[Document]) -> None:
    """The last round in which clusters were asked; in wide output all that the admin tells of."""
    shown = rounds if printer.is_wide else rounds[-1:]
    for round_ in shown:
        printer.line()
        printer.sentence(_describe(printer, round_))
        printer.rows(round_["bids"], _COLUMNS)
    if len(shown) < len(rounds):
        printer.line(f"{count(len(rounds) - len(shown), 'earlier round')}; `-o wide` shows them.")


def _describe(printer: Printer, round_: Document) -> str:
    asked = f"Round {round_['number']} of bids, asked {printer.when(round_['asked_at'])}: "
    if round_.get("outcome") == "chosen":
        seconds = round_.get("promised_seconds")
        start = f", to start in {format_duration(seconds)}" if seconds else ", to start at once"
        result = f"{round_['cluster']} is chosen{'' if seconds is None else start}"
    else:
        result = _OUTCOMES.get(round_.get("outcome") or "", f"answers until {printer.when(round_['deadline'])}")
    again = round_.get("ask_again_at")
    return f"{asked}{result}{f'; asked again {printer.when(again, is_ahead=True)}' if again else ''}."


def _start(bid: Document) -> str:
    seconds = bid.get("start_seconds")
    return "" if seconds is None else "at once" if seconds < 1 else f"in {format_duration(seconds)}"


_COLUMNS: Columns = {
    "ASKED": "cluster",
    "ANSWER": lambda bid: bid.get("answer") or "none yet",
    "START": _start,
    "COST": "cost",
    "REASON": "reason",
}
