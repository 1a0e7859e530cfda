"""Back-off: growing pauses with jitter, so that many agents do not return to the admin at the same instant."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0


class Backoff:
    """The pauses between attempts to reach the admin."""

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """Start with the shortest pause again, after a success."""
        self._failures = 0

    def next_seconds(self, at_most: float = _LONGEST_SECONDS, retry_after: float | None = None) -> float:
        """How long to wait after another failure: what the admin asked for, else twice as long as the last time."""
        doubled = _FIRST_SECONDS * float(2 ** min(self._failures, 10))
        self._failures += 1
        if retry_after is not None:
            return min(retry_after, _LONGEST_SECONDS) * random.uniform(1.0, 1.2)
        return min(doubled, at_most, _LONGEST_SECONDS) * random.uniform(0.5, 1.0)
