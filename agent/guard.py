"""The lease guard: knows, by a steady clock, until when work may go on without word from the admin."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Work is ended this part of a lease before its end, so that it is gone when the lease is …
_MARGIN = 1 / 3
#: … but no less than it takes to end it, where the lease is long enough for that.
_ENDING_SECONDS = 7.0


@dataclass
class LeaseGuard:
    """When each lease was last renewed, counted from when the request that did it was sent."""

    lease_seconds: float = 60.0
    _renewed: dict[str, float] = field(default_factory=dict)

    @property
    def margin_seconds(self) -> float:
        """How long before the end of its lease work is ended."""
        return max(self.lease_seconds * _MARGIN, min(self.lease_seconds / 2, _ENDING_SECONDS))

    @property
    def interval_seconds(self) -> float:
        """How long a call may wait that renews leases, and how much longer it may take: so that one that fails leaves
        time for another."""
        return (self.lease_seconds - self.margin_seconds) / 4

    def renew(self, key: str, sent_at: float) -> None:
        """A lease was renewed by a request sent at that time."""
        self._renewed[key] = max(sent_at, self._renewed.get(key, sent_at))

    def forget(self, key: str) -> None:
        """A lease is no longer watched."""
        self._renewed.pop(key, None)

    def seconds_left(self, key: str, now: float) -> float:
        """How long work may still go on; below zero it must end. None was ever renewed: it may not."""
        if key not in self._renewed:
            return -1.0
        return self._renewed[key] + self.lease_seconds - self.margin_seconds - now
