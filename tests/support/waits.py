"""Waiting for something that a test cannot be told about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T], seconds: float = 120.0, message: str | Callable[[], str] = "the condition was not met"
) -> T:
    """Wait until a condition holds; returns what it returned. The deadline is only for tests that would hang."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, message() if callable(message) else message
        time.sleep(0.02)
    return result
