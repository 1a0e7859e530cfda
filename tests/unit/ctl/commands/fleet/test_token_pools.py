"""Token pools as they are shown on the command line."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import pytest

from ctl.cli.output import cell_text
from ctl.cli.session import Session
from ctl.client import Client
from ctl.commands.fleet.token_pools import _aligned, _watch


def pool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "at": "2026-03-01T12:00:00Z", "capacity": 5, "used": 0, "waiting": 0, **fields}


def cells(shown: list[dict[str, Any]], widths: dict[str, int]) -> list[list[str]]:
    columns = _aligned(shown, widths)
    return [[cell_text(row, column) for column in columns.values()] for row in shown]  # type: ignore[arg-type]


def test_lines_of_a_watch_stand_below_those_before() -> None:
    widths: dict[str, int] = {}
    [first] = cells([pool("licences.of.matlab", used=2, free=3)], widths)
    [second] = cells([pool("hive", used=1, free=4, holders=[{"token": "etl-1"}], holder_count=3)], widths)
    assert [len(cell) for cell in first[:-1]] == [len(cell) for cell in second[:-1]]
    assert [len(cell) for cell in first] >= [len(title) for title in ("WHEN", "NAME", "CAPACITY", "USED", "FREE")]
    assert (first[-1].strip(), second[-1].strip()) == ("-", "etl-1 and 2 more")


class Pools:
    """An admin with many pools, one of which changes after each list, before it is read by itself."""

    def __init__(self) -> None:
        self.lists = 0
        self.asked: list[str] = []

    def definitions(self, noun: str) -> list[dict[str, Any]]:
        self.lists += 1
        return [pool(f"pool-{number:02}", used=1, free=4, version=min(self.lists, 2)) for number in range(30)]

    def definition(self, noun: str, name: str) -> dict[str, Any]:
        self.asked.append(name)
        holders = {"holders": [{"token": "etl-1"}], "holder_count": 1, "waiters": [], "refusals": {"pool": 1}}
        return pool(name, used=1, free=4, version=2, **holders)


def test_a_change_that_was_told_is_not_told_again_and_few_holders_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pools, rounds = Pools(), iter(range(2))

    def sleep(_seconds: float) -> None:
        if next(rounds, None) is None:
            raise KeyboardInterrupt

    session = Session(cast(Client, pools), sleep=sleep)
    with pytest.raises(KeyboardInterrupt):
        _watch(session, None, defaultdict(lambda: None, watch=True))
    lines = capsys.readouterr().out.splitlines()
    assert pools.asked == [f"pool-{number:02}" for number in range(30)]  # of 20 in the first round
    assert len([line for line in lines if "pool-19" in line]) == 1
    assert len([line for line in lines if "pool-29" in line]) == 2  # it had changed by the second list
