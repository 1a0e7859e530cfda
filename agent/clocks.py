"""Clocks: a steady one for leases and time limits, and the wall clock for times that people read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Clock:
    """The clocks of this machine; `agent.testing.FakeClock` has the same methods for tests."""

    def steady(self) -> float:
        """Seconds since boot, suspension included; setting the wall clock does not change it."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        time.sleep(seconds)

    def wait_for(self, queue: SimpleQueue[T], seconds: float) -> T | None:
        """The next item of a queue; None if none arrives within so many seconds."""
        try:
            return queue.get(timeout=seconds) if seconds > 0 else queue.get_nowait()
        except Empty:
            return None


#: The clock that everything uses unless a test passes another.
SYSTEM_CLOCK = Clock()


def boot_id() -> str:
    """Identifies the current boot of this machine; the steady clock starts again at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def format_time(moment: datetime) -> str:
    """A moment in RFC 3339."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
