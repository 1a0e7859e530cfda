"""Waiting for a condition that other threads or processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 30, interval: float = 0.005) -> None:
    """Return when a condition holds; fails if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(interval)
