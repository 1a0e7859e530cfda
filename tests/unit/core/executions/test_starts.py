"""By when what waits in line starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from admin.core.executions.starts import MOST_AHEAD, Ahead, Start, find_start

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ahead(name: str, limit: float | None = None, started: float | None = None) -> Ahead:
    """An execution that started so many seconds before noon."""
    return Ahead(
        project="p",
        domain="d",
        name=name,
        phase="QUEUED" if started is None else "RUNNING",
        started_at=None if started is None else NOON - timedelta(seconds=started),
        time_limit_seconds=limit,
    )


def start(held: list[Ahead], waiting: list[Ahead]) -> Start:
    return find_start("birch", len(waiting) + 1, held, waiting, NOON)


def test_what_runs_ends_for_its_limit_and_the_others_run_one_after_the_other() -> None:
    started = start([ahead("a", 60, 10), ahead("b", 600, 100), ahead("c", 7)], [ahead("d", 30)])
    assert started.first_end_at == NOON + timedelta(seconds=50)
    assert started.latest_at == NOON + timedelta(seconds=500 + 7 + 30)
    assert [other.name for other in started.ahead] == ["a", "b", "c", "d"]
    assert started.message == (
        "At the latest at 2026-03-01T12:08:57Z, by the time limits of what is ahead (the agent of birch has 3, and 1 "
        "waits before it), if none of that is tried again and nothing is put before it."
    )


def test_what_is_in_back_off_is_counted_apart() -> None:
    started = find_start("birch", 1, [], [], NOON, 2)
    assert (started.position, started.waiting, started.backing_off) == (1, 0, 2)
    assert started.message == (
        "Nothing is ahead of it at birch: its agent takes it as soon as it has room for it. 2 more in back-off go "
        "before it if the back-off is over by then."
    )


def test_what_is_over_its_limit_ends_now() -> None:
    assert start([ahead("a", 60, 90)], []).latest_at == NOON


def test_without_a_time_limit_there_is_no_bound() -> None:
    started = start([ahead("a", 60, 10), ahead("b", None, 5)], [ahead("c"), ahead("d")])
    assert (started.latest_at, started.unlimited) == (None, 3)
    assert started.message == (
        "No bound: p/d/b has no time limit, nor have 2 others (the agent of birch has 2, and 2 wait before it); its "
        "agent takes it before that if it has room. The first of those that run ends at the latest at "
        "2026-03-01T12:00:50Z."
    )
    assert "p/d/b has no time limit (the agent" in start([ahead("b", None, 5)], []).message


def test_a_limit_beyond_any_date_is_no_bound() -> None:
    for held, waiting in (([ahead("a", 1e13, 1)], []), ([], [ahead("a", 1e13)])):
        started = start(held, waiting)
        assert started.latest_at is None
        assert started.message.startswith("No bound: the time limits go beyond any date")


def test_of_too_many_none_is_counted() -> None:
    started = start([], [ahead(f"e{number}", 1) for number in range(MOST_AHEAD + 1)])
    assert (started.latest_at, started.message) == (
        None,
        "No bound: more than 500 executions are ahead of it at birch.",
    )


def test_what_the_asker_may_not_see_is_counted_and_not_named() -> None:
    hidden = replace(ahead("secret", started=5), is_hidden=True)
    started = start([hidden, ahead("a", 60, 10)], [])
    assert (started.running, [other.name for other in started.ahead]) == (2, ["a"])
    assert "an execution that you may not see has no time limit" in started.message
    assert "secret" not in started.message
