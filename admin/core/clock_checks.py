"""Clock checks: whether the clock may be believed when something is deleted or given up by it for good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

#: How far the clock may be ahead of where it was last believed; and how long it must run on to be believed again.
LEAP = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class ClockCheck:
    """What is stored of the clock: when it was believed last, when it was seen last, and how long it has run since."""

    believed_at: datetime
    seen_at: datetime
    steady_seconds: float = 0  #: for which admins have watched it run on since it leapt

    def believes(self, now: datetime) -> bool:
        """Whether the clock may be believed: one that has gone back makes nothing old."""
        return now <= self.believed_at + LEAP

    def after(self, now: datetime, seconds: float) -> ClockCheck:
        """The check after somebody has watched the clock for some seconds."""
        steady_seconds = self.steady_seconds + seconds if abs(now - self.seen_at) <= LEAP else 0.0
        if self.believes(now) or steady_seconds >= LEAP.total_seconds():
            return ClockCheck(believed_at=now, seen_at=now)
        return replace(self, seen_at=now, steady_seconds=steady_seconds)

    def problem(self, now: datetime) -> str | None:
        """Why nothing is pruned or given up, if that is so."""
        if self.believes(now):
            return None
        return (
            f"The clock says {_text(now)}, but was last seen right at {_text(self.believed_at)}: nothing is pruned "
            "or given up until it is set right or has run on for a day. If it is right, run `rainbowctl accept clock` "
            "or `rainbow-admin prune --acceptClock`."
        )


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
