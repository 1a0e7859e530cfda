"""Times as messages show them."""

from __future__ import annotations

import itertools
from datetime import datetime

#: A year has 365 days.
_UNITS = (("year", 31536000), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def show_time(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


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
