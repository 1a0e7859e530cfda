"""How the time of an execution was spent, where its agent was silent and where it was not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from admin.core.executions.run_times import Times, add_up, late_by, spend

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def attempt(*, started: float | None, ended: float | None, reported: float | None, silent: float | None) -> Any:
    return SimpleNamespace(
        started_at=at(started), ended_at=at(ended), reported_at=at(reported), silent_since=at(silent)
    )


@pytest.mark.parametrize(
    ("started", "ended", "reported", "silent", "expected"),
    [
        (10, 30, 31, None, (80, 20, 0, 0)),  # of an agent that is heard
        (10, 30, 100, 20, (10, 20, 70, 0)),  # told when it returned
        (10, 5, 100, 20, (20, 0, 80, 0)),  # by a wrong clock: not before the last sync
        (10, 500, 100, 20, (10, 90, 0, 0)),  # it went on after it was given up
        (10, None, 100, 20, (10, 10, 0, 80)),  # never told
        (None, None, 100, 20, (20, 0, 0, 80)),  # not even whether it started
        (10, None, None, None, (10, 90, 0, 0)),  # it runs
    ],
)
def test_what_is_not_known_is_neither_waiting_nor_running(
    started: float | None,
    ended: float | None,
    reported: float | None,
    silent: float | None,
    expected: tuple[float, ...],
) -> None:
    over = attempt(started=started, ended=ended, reported=reported, silent=silent)
    times = add_up([spend(over, NOON + timedelta(seconds=100), None, None)], timedelta(seconds=100))
    waiting, running, unreported, unknown = expected
    assert times == Times(waiting=waiting, running=running, unreported=unreported, unknown=unknown, total=100)


def test_what_its_agent_has_measured_counts_also_beyond_the_time_at_which_it_was_given_up() -> None:
    given_up = attempt(started=10, ended=230, reported=90, silent=20)
    assert spend(given_up, NOON + timedelta(seconds=300), None, 220.0).running == timedelta(seconds=220)
    assert spend(given_up, NOON + timedelta(seconds=300), None, None).running == timedelta(seconds=80)


def test_an_end_that_its_agent_told_late_is_no_waiting() -> None:
    over = attempt(started=265, ended=912, reported=912, silent=None)
    times = add_up([spend(over, NOON + timedelta(hours=1), None, 600.0)], timedelta(seconds=912))
    assert (times.waiting, times.running, times.unreported) == (265, 600, 47)
    prompt = spend(over, NOON + timedelta(hours=1), None, 646.5)
    assert (prompt.running.total_seconds(), prompt.unreported) == (646.5, timedelta(0))


def test_what_runs_at_a_cluster_that_is_silent_now_is_not_known_since_then() -> None:
    running = attempt(started=10, ended=None, reported=None, silent=None)
    spent = spend(running, NOON + timedelta(seconds=100), at(40), None)
    assert (spent.running.total_seconds(), spent.unknown.total_seconds()) == (30, 60)


def test_only_an_end_that_was_told_after_a_silence_is_late() -> None:
    assert late_by(attempt(started=1, ended=30, reported=100, silent=20)) == timedelta(seconds=70)
    assert late_by(attempt(started=1, ended=30, reported=100, silent=None)) is None
    assert late_by(attempt(started=1, ended=None, reported=100, silent=20)) is None


def test_an_absurd_time_of_an_agent_is_bounded() -> None:
    over = attempt(started=10, ended=30, reported=31, silent=None)
    times = add_up([spend(over, NOON + timedelta(seconds=100), None, 1e300)], timedelta(seconds=100))
    assert times.running == 100
