"""Memory and processor time of an admin's processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.admins import RunningAdmin


def largest_worker(admin: RunningAdmin) -> float:
    """Resident MiB of the largest worker, pages that it shares with others included."""
    return max(_resident(pid) for pid in _workers(admin))


def processor_seconds(admin: RunningAdmin) -> float:
    """Processor time that all of them have used so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    processes = [admin.process.pid, *_workers(admin)]
    stats = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in processes]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / ticks


def _workers(admin: RunningAdmin) -> list[int]:
    listed = (path.read_text() for path in Path(f"/proc/{admin.process.pid}/task").glob("*/children"))
    return [int(child) for text in listed for child in text.split()]


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024
