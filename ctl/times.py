"""Times as people type them: a span back from now, a day, or a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ctl.errors import InvalidInput

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")


def parse_time(text: str, flag: str, *, now: datetime, is_end: bool = False) -> str:
    """
    A time in RFC 3339 for `24h`, `2026-03-01`, or `2026-03-01T12:00`.

    Without a time zone it is UTC, as all times that are shown. A day as an end includes that day.
    """
    if found := _SPAN.fullmatch(text.strip()):
        return _written(_back(now, int(found[1]), _UNITS[found[2]], flag, text))
    try:
        moment = datetime.fromisoformat(text.strip())
        is_day = re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text.strip()) is not None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return _written(moment + timedelta(days=1) if is_day and is_end else moment)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{flag} must be a span such as 30m, 24h or 7d, or a time such as 2026-03-01 or 2026-03-01T12:00, "
            f"got {text!r}."
        ) from None


def _back(now: datetime, number: int, unit: str, flag: str, text: str) -> datetime:
    try:
        return now - timedelta(**{unit: number})
    except OverflowError:
        raise InvalidInput(f"{flag} {text} is too long ago.") from None


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
