"""Times as people type and read them: a span back from now, a day, a moment; how long something took."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ctl.client.errors import InvalidInput

_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,9})?)(ms|[smhdwy])")
#: Of units that people type; a year has 365 days.
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
#: Units of what is shown.
_UNITS = (("year", 31536000), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


#: Spans that an error gives as examples.
SPANS = "30m, 24h or 7d"


def parse_time(
    text: str, flag: str, *, now: datetime, is_end: bool = False, is_ahead: bool = False, spans: str = SPANS
) -> str:
    """
    A time in RFC 3339 for `24h`, `7d`, `1y`, `2026-03-01`, or `2026-03-01T12:00`.

    Without a time zone it is UTC, as all times that are shown. A day as an end includes that day. With `is_ahead` a
    span lies ahead, and has a plus before it. An error gives `spans` as examples.
    """
    span = text.removeprefix("+") if is_ahead else text
    if is_duration(span):
        try:
            distance = timedelta(seconds=parse_duration(span, flag))
            return _written(now + distance if is_ahead else now - distance)
        except OverflowError:
            raise InvalidInput(f"{flag} {text} is too {'far ahead' if is_ahead else 'long ago'}.") from None
    try:
        moment = datetime.fromisoformat(text.strip())
        is_day = re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text.strip()) is not None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return _written(moment + timedelta(days=1) if is_day and is_end else moment)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{flag} must be a span such as {spans}, or a time such as 2026-03-01 or 2026-03-01T12:00, got {text!r}."
        ) from None


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def is_duration(text: str) -> bool:
    """Whether a text is a duration in units: `90s`, `5m`, `1h30m` or `7d`."""
    return re.fullmatch(f"({_PART.pattern})+", text.strip()) is not None


def parse_duration(text: str, flag: str) -> float:
    """Seconds for `90`, `90s`, `5m`, `1h30m`, `7d`, `2w` or `1y`."""
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", stripped):
        return float(stripped)
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise InvalidInput(f"{flag} must be a duration such as 90s, 5m or 1h30m, got {text!r}.")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def to_second(text: str) -> str:
    """A timestamp of the admin to the second, in UTC: `2026-03-01 12:00:05Z`; `-o json` has the full precision."""
    moment = parse_timestamp(text)
    return text if moment is None else _written(moment.astimezone(UTC).replace(microsecond=0)).replace("T", " ")


def parse_since(text: str, flag: str, *, now: datetime) -> str:
    """The time from which on something is asked for, which must not be to come."""
    time = parse_time(text, flag, now=now)
    if (parse_timestamp(time) or now) > now:
        raise InvalidInput(f"{flag} {text} is still to come: give a time that has passed, or a span such as 24h.")
    return time


def parse_timestamp(text: str | None) -> datetime | None:
    """The time of an RFC 3339 text; None if it is not one."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def is_earlier(first: str, second: str) -> bool:
    """Whether a timestamp of the admin is before another one."""
    earlier, later = parse_timestamp(first), parse_timestamp(second)
    return earlier is not None and later is not None and earlier < later


def format_duration(seconds: float) -> str:
    """How long, in its two largest units, as the admin writes it: `0 s`, `3 min 10 s`, `2 h 5 min`, `4 d`."""
    rest = max(0, int(seconds))
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        if rest >= size:
            number, part = rest // size, rest % size // smaller_size
            plural = "s" if unit == "year" and number > 1 else ""
            return f"{number} {unit}{plural}{f' {part} {smaller}' if part else ''}"
    return f"{rest} s"


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago something was: `3 min 5 s ago`; empty where that is not known."""
    time = parse_timestamp(moment)
    return f"{format_duration(((now or datetime.now(UTC)) - time).total_seconds())} ago" if time else ""


def due(moment: str) -> str:
    """When something is to happen: `in 20 s`, or any moment, and since when it is overdue."""
    away = distance(moment)
    if away.startswith("in "):
        return away
    return "any moment now" if away in ("", "0 s ago", "1 s ago") else f"any moment now, overdue since {away}"


def distance(moment: str, now: datetime | None = None) -> str:
    """How far from now something is that may be to come: `in 20 s`, else its age."""
    time, now = parse_timestamp(moment), now or datetime.now(UTC)
    seconds = (time - now).total_seconds() if time else 0.0
    return f"in {format_duration(seconds)}" if seconds > 0 else age(moment, now)
