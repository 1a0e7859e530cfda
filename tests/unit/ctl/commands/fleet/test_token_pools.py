"""Token pools as they are shown on the command line."""

from __future__ import annotations

from typing import Any

from ctl.cli.output import cell_text
from ctl.commands.fleet.token_pools import _aligned


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
