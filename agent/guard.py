"""The lease guard: how long each execution may go on without an answer from the admin."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Work is ended before its lease is over, by this part of the lease …
_MARGIN = 1 / 3
#: … and by no less than the time that ending it takes, if the lease is long enough for that.
_ENDING_SECONDS = 7.0


@dataclass
class LeaseGuard:
    """When each lease was last renewed: the time at which the request that renewed it was sent."""

    lease_seconds: float = 60.0
    _renewed: dict[str, float] = field(default_factory=dict)

    @property
    def margin_seconds(self) -> float:
        """How long before the end of its lease work is ended."""
        return max(self.lease_seconds * _MARGIN, min(self.lease_seconds / 2, _ENDING_SECONDS))

    @property
    def longest_silence_seconds(self) -> float:
        """How long work goes on after its lease was last renewed."""
        return self.lease_seconds - self.margin_seconds

    @property
    def interval_seconds(self) -> float:
        """How long a call that renews leases may wait, and again how long it may take, so that there is time for
        another if it fails."""
        return self.longest_silence_seconds / 4

    def renew(self, key: str, sent_at: float) -> None:
        """Record that a request sent at that time renewed a lease."""
        self._renewed[key] = max(sent_at, self._renewed.get(key, sent_at))

    def forget(self, key: str) -> None:
        """Stop watching a lease."""
        self._renewed.pop(key, None)

    def seconds_left(self, key: str, now: float) -> float:
        """How long work may go on; below zero it must end, as must work whose lease was never renewed."""
        if key not in self._renewed:
            return -1.0
        return self._renewed[key] + self.longest_silence_seconds - now
