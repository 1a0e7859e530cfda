"""Back-off: growing pauses with jitter, so that a thousand agents do not come back at the same instant."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0


class Backoff:
    """The pauses between attempts to reach the admin."""

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """It answered."""
        self._failures = 0

    def next_seconds(self, at_most: float = _LONGEST_SECONDS, asked: float | None = None) -> float:
        """How long to wait after another failure: what the admin asks for, else doubling."""
        doubled = _FIRST_SECONDS * float(2 ** min(self._failures, 10))
        self._failures += 1
        if asked is not None:
            return min(asked, _LONGEST_SECONDS) * random.uniform(1.0, 1.2)
        return min(doubled, at_most, _LONGEST_SECONDS) * random.uniform(0.5, 1.0)
