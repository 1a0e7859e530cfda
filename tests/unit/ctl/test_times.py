from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ctl.errors import InvalidInput
from ctl.times import parse_time

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("24h", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"),
        ("30m", "2026-03-02T11:30:00Z", "2026-03-02T11:30:00Z"),
        ("2w", "2026-02-16T12:00:00Z", "2026-02-16T12:00:00Z"),
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


def test_a_span_longer_than_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too long ago"):
        parse_time("999999w", "--since", now=NOW)
