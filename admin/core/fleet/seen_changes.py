"""Seen changes: up to where one process has looked at what happened to the fleet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class SeenChanges:
    """The last event of a cluster and the last revision that waiting executions were decided by; None at first."""

    event: int | None = None
    revision: int | None = None

    def remember(self, newest: SeenChanges) -> None:
        self.event, self.revision = newest.event, newest.revision

    def is_new_event(self, number: int) -> bool:
        return self.event is None or number > self.event

    def is_new_revision(self, number: int) -> bool:
        return self.revision is None or number > self.revision
