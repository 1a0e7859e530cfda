"""Clocks: one that only goes forward, for leases, and the wall clock, for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path


def steady() -> float:
    """Seconds since this machine was started, sleep included; setting the wall clock does not move it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Identifies the current boot of this machine; the steady clock starts again at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def now_text() -> str:
    """The wall clock, in RFC 3339."""
    return as_text(datetime.now(UTC))


def as_text(moment: datetime) -> str:
    """A moment in RFC 3339."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
