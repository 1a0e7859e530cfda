"""Steadiness: whether a clock may be trusted to say that a lease is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

#: The clock has jumped if it differs so much from the monotonic one between two looks. A lease is taken for over only
#: so long after its deadline, for a smaller jump is not noticed.
JUMP_SECONDS = 1.0


@dataclass(kw_only=True)
class Steadiness:
    """Compares a clock with a monotonic one: for how long the two have gone together."""

    _last: tuple[datetime, float] | None = None
    since: float = 0  #: on the monotonic clock, since when the two have gone together

    def look(self, now: datetime, monotonic: float) -> float:
        """For how many seconds the clock has been steady; a lease is over only if all of it fell into them."""
        last, self._last = self._last, (now, monotonic)
        if last is None or abs((now - last[0]).total_seconds() - (monotonic - last[1])) > JUMP_SECONDS:
            self.since = monotonic
        return monotonic - self.since
