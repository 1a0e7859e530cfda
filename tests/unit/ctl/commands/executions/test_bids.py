"""Rounds of bids as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.commands.executions.bids import show_rounds


def at(seconds: float) -> str:
    """A time so far from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "it is decided in 9 s at the latest."),
        ({"outcome": "chosen", "cluster": "a", "promised_seconds": 0.0}, "a is chosen, to start at once."),
        ({"outcome": "chosen", "cluster": "a", "promised_seconds": 90.0}, "a is chosen, to start in 1 min 30 s."),
        ({"outcome": "chosen", "cluster": "a"}, "a is chosen."),
        ({"outcome": "nobody", "ask_again_at": 59.9}, "no cluster said yes; asked again in 59 s."),
        ({"outcome": "withdrawn"}, "not needed any more."),
    ],
)
def test_a_round_says_what_becomes_of_it(
    fields: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bids = [{"cluster": "a", "answer": "yes", "start_seconds": 0.4}, {"cluster": "b"}]
    if "ask_again_at" in fields:
        fields = {**fields, "ask_again_at": at(fields["ask_again_at"])}
    show_rounds(Printer(), [{"number": 1, "asked_at": at(-1), "deadline": at(9.9), "bids": bids, **fields}])
    shown = capsys.readouterr().out
    assert f"Round 1 of bids, asked 1 s ago: {words}" in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [
        ["a", "yes", "at", "once", "-", "-"],
        ["b", "none", "yet", "-", "-", "-"],
    ]
