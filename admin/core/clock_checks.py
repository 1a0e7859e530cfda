"""Clock checks: whether the clock may be trusted when something is deleted or given up by it for good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from admin.core.provenance import Actor

#: How far the clock may be ahead of where it was last trusted; and how long it must run on to be trusted again.
JUMP = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class ClockCheck:
    """What is stored of the clock: when it was trusted last, when it was seen last, and how long it has run since."""

    trusted_at: datetime
    seen_at: datetime
    steady_seconds: float = 0  #: for which admins have watched it run on since it jumped
    accepted_at: datetime | None = None  #: when an operator last said that it is right
    accepted_by: str | None = None  #: who said so: the claimed name, or the proven author where none was claimed
    accepted_author: str | None = None  #: proven; None for nobody known
    accepted_reason: str | None = None

    def trusts(self, now: datetime) -> bool:
        """Whether the clock may be trusted: one that has gone back makes nothing old."""
        return now <= self.trusted_at + JUMP

    def after(self, now: datetime, seconds: float) -> ClockCheck:
        """The check after the clock was watched for some seconds."""
        steady_seconds = self.steady_seconds + seconds if abs(now - self.seen_at) <= JUMP else 0.0
        if self.trusts(now) or steady_seconds >= JUMP.total_seconds():
            return replace(self, trusted_at=now, seen_at=now, steady_seconds=0.0)
        return replace(self, seen_at=now, steady_seconds=steady_seconds)

    def accept(self, now: datetime, by: Actor, reason: str | None) -> ClockCheck:
        """The check after an operator has said that the clock is right."""
        return ClockCheck(
            trusted_at=now,
            seen_at=now,
            accepted_at=now,
            accepted_by=by.claimed_by or by.proven_author,
            accepted_author=by.proven_author,
            accepted_reason=reason,
        )

    def problem(self, now: datetime) -> str | None:
        """Why nothing is pruned or given up, if that is so."""
        if self.trusts(now):
            return None
        return (
            f"The clock says {_text(now)}, but was last trusted at {_text(self.trusted_at)}: nothing is pruned or "
            "given up until it is set right or has run on for a day. If it is right, run `rainbowctl accept clock` "
            "or `rainbow-admin prune --acceptClock`."
        )


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
