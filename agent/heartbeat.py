"""A heartbeat: a file whose time says that a process works, for the probes of whatever keeps it running."""

from __future__ import annotations

import contextlib
from pathlib import Path

from agent.clocks import Clock

_INTERVAL_SECONDS = 5.0


class Heartbeat:
    """Touches a file every few seconds; nothing without one."""

    def __init__(self, path: str | None, clock: Clock) -> None:
        self._path = Path(path) if path else None
        self._clock = clock
        self._due_at = 0.0

    def beat(self) -> None:
        """Note that the process works, if it is time."""
        now = self._clock.steady()
        if self._path is not None and now >= self._due_at:
            self._due_at = now + _INTERVAL_SECONDS
            with contextlib.suppress(OSError):  # a full disk or a directory that is gone is no reason to end
                self._path.touch()
