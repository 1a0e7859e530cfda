"""Work by day, from counts of executions by the days of their creation, start and end."""

from __future__ import annotations

from datetime import date
from typing import Any

from admin.console.days import days_of, heights

FIRST, TODAY = date(2026, 2, 27), date(2026, 3, 1)
F27, F28, M1 = "2026-02-27", "2026-02-28", "2026-03-01"


def group(created: str, started: str, finished: str, count: int, waited: float | None = None) -> dict[str, Any]:
    group: dict[str, Any] = {"values": [created, started, finished], "count": count}
    return group if waited is None else {**group, "started": {"count": count, "mean_seconds": waited}}


COUNTS = [
    group(F27, F27, F28, 3, waited=10),
    group(F27, M1, "", 1, waited=50),
    group(F28, "", M1, 2),  # cancelled before they started
    group(M1, "", "", 4),
]


def test_each_day_has_what_was_created_ended_and_waited() -> None:
    days = days_of({"counts": COUNTS}, FIRST, TODAY)
    assert [(day.day, day.next) for day in days] == [(F27, F28), (F28, M1), (M1, "2026-03-02")]
    assert [(day.created, day.finished, day.waiting) for day in days] == [(4, 0, 1), (2, 3, 3), (4, 2, 4)]
    assert [day.waited for day in days] == [20, None, None]
    assert all(day.is_counted and not day.is_partial for day in days)


def test_days_before_the_first_that_was_counted_are_not_known() -> None:
    days = days_of({"counts": COUNTS[2:], "token": "more"}, FIRST, TODAY)
    assert [(day.is_counted, day.is_partial) for day in days] == [(False, False), (True, True), (True, False)]


def test_bars_are_as_high_as_their_values_and_small_ones_are_seen() -> None:
    assert heights([0, None, 1, 500, 1000], 40) == [0, 0, 1, 20, 40]
    assert heights([], 40) == heights([0], 40)[1:]
