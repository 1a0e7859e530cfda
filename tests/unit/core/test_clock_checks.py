"""Clock checks: a clock that leaps is not believed until it is right again, has run on, or somebody says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from admin.core.clock_checks import ClockCheck

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def check() -> ClockCheck:
    return ClockCheck(believed_at=NOON, seen_at=NOON)


def test_a_clock_that_goes_on_is_believed() -> None:
    assert check().after(NOON + MINUTE, 60) == ClockCheck(believed_at=NOON + MINUTE, seen_at=NOON + MINUTE)
    assert check().after(NOON + DAY, 0).believes(NOON + DAY)
    assert check().problem(NOON + DAY) is None


def test_a_clock_that_leaps_is_not_believed_and_one_that_comes_back_is() -> None:
    leapt = check().after(NOON + 400 * DAY, 6)
    assert leapt.believed_at == NOON
    problem = leapt.problem(NOON + 400 * DAY)
    assert problem is not None
    assert "2027-04-05T12:00:00+00:00" in problem
    assert "--acceptClock" in problem
    assert leapt.problem(NOON + MINUTE) is None
    assert leapt.after(NOON + MINUTE, 60) == ClockCheck(believed_at=NOON + MINUTE, seen_at=NOON + MINUTE)


def test_a_small_step_back_does_not_make_a_leap_believable() -> None:
    leapt = check().after(NOON + 400 * DAY, 0)
    assert not leapt.believes(NOON + 400 * DAY - MINUTE)


def test_a_clock_that_leapt_is_believed_after_a_day_in_which_it_ran_on() -> None:
    now, leapt = NOON + 400 * DAY, check()
    for _ in range(24 * 60):  # the first look finds the leap, and every other one that a minute has passed
        leapt = leapt.after(now, 60)
        assert leapt.believed_at == NOON
        now += MINUTE
    assert leapt.after(now, 60).believed_at == now


def test_a_second_leap_begins_the_day_anew() -> None:
    now = NOON + 400 * DAY
    leapt = check().after(now, 0).after(now + DAY / 2, DAY.total_seconds() / 2)
    assert leapt.steady_seconds == DAY.total_seconds() / 2
    assert leapt.after(now + 300 * DAY, 3600).steady_seconds == 0


def test_a_clock_that_went_back_is_believed_and_watched_from_there() -> None:
    back = check().after(NOON - 300 * DAY, 60)
    assert back.believes(NOON - 300 * DAY)
    assert not back.believes(NOON)
