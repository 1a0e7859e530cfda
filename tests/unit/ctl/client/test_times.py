from __future__ import annotations

from datetime import UTC, datetime

import pytest

from admin.core.times import show_duration
from ctl.client.errors import InvalidInput
from ctl.client.times import format_duration, parse_duration, parse_time, to_second

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("24h", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"),
        ("30m", "2026-03-02T11:30:00Z", "2026-03-02T11:30:00Z"),
        ("2w", "2026-02-16T12:00:00Z", "2026-02-16T12:00:00Z"),
        ("1y", "2025-03-02T12:00:00Z", "2025-03-02T12:00:00Z"),
        ("1d12h", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        ("100y", "1926-03-27T12:00:00Z", "1926-03-27T12:00:00Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("2026-03-01T10:30", "2026-03-01T10:30:00Z", "2026-03-01T10:30:00Z"),
        ("2026-03-01T10:30:00+02:00", "2026-03-01T08:30:00Z", "2026-03-01T08:30:00Z"),
    ],
)
def test_times_are_spans_days_or_moments(text: str, start: str, end: str) -> None:
    assert parse_time(text, "--since", now=NOW) == start
    assert parse_time(text, "--until", now=NOW, is_end=True) == end


@pytest.mark.parametrize("text", ["", "yesterday", "24", "h", "-3h", "2026-13-01", "9999-12-31", "1e3h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--until must be a span such as"):
        parse_time(text, "--until", now=NOW, is_end=True)


@pytest.mark.parametrize("span", ["999999w", "10000y", "9999999999y"])
def test_a_span_longer_than_time_is_refused(span: str) -> None:
    with pytest.raises(InvalidInput, match=f"--since {span} is too long ago"):
        parse_time(span, "--since", now=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2w", 1209600), ("90", 90), ("1.5", 1.5), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("0", 0)],
)
def test_durations_are_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5m", "5m!", "m", "1h 30m", "1x"])
def test_any_other_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--timeout must be a duration such as 90s"):
        parse_duration(text, "--timeout")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (59.9, "59 s"),
        (190, "3 min 10 s"),
        (3600, "1 h"),
        (7505, "2 h 5 min"),
        (90000, "1 d 1 h"),
        (86405, "1 d"),
        (364 * 86400, "364 d"),
        (365 * 86400, "1 year"),
        (400 * 86400, "1 year 35 d"),
        (36500 * 86400 + 7, "100 years"),
    ],
)
def test_how_long_is_said_in_the_two_largest_units(seconds: float, words: str) -> None:
    assert format_duration(seconds) == show_duration(seconds) == words


def test_moments_are_shown_to_the_second_in_utc() -> None:
    assert to_second("2026-03-01T12:00:00.123456+02:00") == "2026-03-01 10:00:00Z"
    assert to_second("whenever") == "whenever"
