"""Times as messages show them, and windows between two."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

from admin.core.problems import invalid

#: What is due so soon has come when the answer is read.
_IMMINENT = timedelta(seconds=2)
#: A year has 365 days.
_UNITS = (("year", 31536000), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def show_time(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def show_due(time: datetime, now: datetime) -> str:
    """When something is to happen: `at 2026-03-01T12:00:05Z`, or any moment, and since when it is overdue."""
    if time > now + _IMMINENT:
        return f"at {show_time(time)}"
    return f"any moment now, overdue since {show_time(time)}" if is_past(time, now) else "any moment now"


def is_past(time: datetime, now: datetime) -> bool:
    """Whether something that was to happen at a time is late."""
    return time < now - _IMMINENT


def show_duration(seconds: float) -> str:
    """How long, in its two largest units, as `rainbowctl` shows it too: `0 s`, `4 min 10 s`, `2 h 5 min`, `3 d`."""
    rest = max(0, int(seconds))
    for (unit, size), (smaller, smaller_size) in itertools.pairwise(_UNITS):
        if rest >= size:
            number, remainder = divmod(rest, size)
            part = remainder // smaller_size
            plural = "s" if unit == "year" and number > 1 else ""
            return f"{number} {unit}{plural} {part} {smaller}" if part else f"{number} {unit}{plural}"
    return f"{rest} s"


def check_window(after: datetime, before: datetime) -> None:
    """Invalid for a window of time that ends before it begins."""
    if after >= before:
        raise invalid("after", "is not before the end of the window: give an earlier time.")
