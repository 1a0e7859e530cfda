"""Stolen time: what the hypervisor gives to other machines, during which a measurement says nothing of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: A measurement counts if no more of the processor time that it wanted went to other machines.
_MOST = 0.03
#: How long a run may spend on measurements that do not count; after that all of them count.
_PATIENCE_SECONDS = 1800.0


def processor_times() -> tuple[int, int]:
    """The time that all processors were wanted since the system started, and the stolen part of it, in ticks."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return user + nice + system + interrupts + soft_interrupts + stolen, stolen


@dataclass
class StolenTime:
    """What was stolen in one run."""

    times: Callable[[], tuple[int, int]] = processor_times
    wanted: int = 0
    stolen: int = 0
    repeated: int = 0
    repeated_seconds: float = 0

    def measure(self, measure: Callable[[], T]) -> T:
        """Measure, and again while too much of the time is stolen."""
        while True:
            begin, before = time.monotonic(), self.times()
            measured = measure()
            wanted, stolen = (after - at_first for after, at_first in zip(self.times(), before, strict=True))
            if stolen <= _MOST * wanted or self.repeated_seconds > _PATIENCE_SECONDS:
                self.wanted += wanted
                self.stolen += stolen
                return measured
            self.repeated += 1
            self.repeated_seconds += time.monotonic() - begin

    def __str__(self) -> str:
        share = self.stolen / self.wanted if self.wanted else 0
        return f"{share:.1%} of the measured processor time, {self.repeated} measurements repeated"


#: That of this run.
STOLEN = StolenTime()
