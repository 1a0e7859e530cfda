"""Clock checks: a clock that jumps is not trusted until it is right again, has run on, or somebody says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from admin.core.clock_checks import ClockCheck
from admin.core.provenance import Actor

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def check() -> ClockCheck:
    return ClockCheck(trusted_at=NOON, seen_at=NOON)


def test_who_accepted_a_clock_is_kept_while_it_goes_on() -> None:
    now = NOON + 400 * DAY
    accepted = check().after(now, 0).accept(now, Actor(claimed_by="ops"), "a long weekend")
    assert accepted == ClockCheck(
        trusted_at=now, seen_at=now, accepted_at=now, accepted_by="ops", accepted_reason="a long weekend"
    )
    assert accepted.after(now + MINUTE, 60) == replace(accepted, trusted_at=now + MINUTE, seen_at=now + MINUTE)


def test_a_clock_that_goes_on_is_trusted() -> None:
    assert check().after(NOON + MINUTE, 60) == ClockCheck(trusted_at=NOON + MINUTE, seen_at=NOON + MINUTE)
    assert check().after(NOON + DAY, 0).trusts(NOON + DAY)
    assert check().problem(NOON + DAY) is None


def test_a_clock_that_jumps_is_not_trusted_and_one_that_comes_back_is() -> None:
    jumped = check().after(NOON + 400 * DAY, 6)
    assert jumped.trusted_at == NOON
    problem = jumped.problem(NOON + 400 * DAY)
    assert problem is not None
    assert "2027-04-05T12:00:00+00:00" in problem
    assert "--acceptClock" in problem
    assert jumped.problem(NOON + MINUTE) is None
    assert jumped.after(NOON + MINUTE, 60) == ClockCheck(trusted_at=NOON + MINUTE, seen_at=NOON + MINUTE)


def test_a_small_step_back_does_not_make_a_jump_trusted() -> None:
    jumped = check().after(NOON + 400 * DAY, 0)
    assert not jumped.trusts(NOON + 400 * DAY - MINUTE)


def test_a_clock_that_jumped_is_trusted_after_a_day_in_which_it_ran_on() -> None:
    now, jumped = NOON + 400 * DAY, check()
    for _ in range(24 * 60):  # the first look finds the jump, and every other one that a minute has passed
        jumped = jumped.after(now, 60)
        assert jumped.trusted_at == NOON
        now += MINUTE
    assert jumped.after(now, 60).trusted_at == now


def test_a_second_jump_begins_the_day_anew() -> None:
    now = NOON + 400 * DAY
    jumped = check().after(now, 0).after(now + DAY / 2, DAY.total_seconds() / 2)
    assert jumped.steady_seconds == DAY.total_seconds() / 2
    assert jumped.after(now + 300 * DAY, 3600).steady_seconds == 0


def test_a_clock_that_went_back_is_trusted_and_watched_from_there() -> None:
    back = check().after(NOON - 300 * DAY, 60)
    assert back.trusts(NOON - 300 * DAY)
    assert not back.trusts(NOON)
