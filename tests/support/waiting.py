"""Waiting for a condition that other threads or processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Far longer than anything takes on a busy machine, so that only what never happens fails.
_SECONDS = 60.0


def wait_until(
    condition: Callable[[], T],
    seconds: float = _SECONDS,
    interval: float = 0.02,
    explain: Callable[[], str] = lambda: "the condition never became true",
) -> T:
    """Return what a condition gives once that is true; fails with an explanation if it never is.

    For the state of real processes and threads only: time itself is a clock that a test moves.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"after {seconds:g} s: {explain()}"
        time.sleep(interval)
    return value
