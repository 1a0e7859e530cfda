"""Times as messages show them."""

from __future__ import annotations

from datetime import datetime


def show_time(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
