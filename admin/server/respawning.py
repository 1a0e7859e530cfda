"""Workers that end are started again, however often; the main process never gives up."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from granian import Granian

_log = logging.getLogger("rainbow.server")

#: A worker that has lived so long is started again at once.
_LONG_SECONDS = 60.0
_MOST_SECONDS = 30.0

_Server: Any = Granian  # an alias chosen at run time


class RespawningServer(_Server):  # type: ignore[misc]
    """Granian, which by itself ends when a worker ends twice within seconds."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deaths: Counter[int] = Counter()  #: of each worker, one soon after the other

    def _respawn_workers(
        self, workers: list[int], spawn_target: Callable[..., Any], target_loader: Callable[..., Any], delay: float = 0
    ) -> None:
        pause = max(self._count_death(index) for index in workers)
        _log.warning("a worker has ended and is started again", extra={"workers": len(workers), "in_seconds": pause})
        start_at = time.monotonic() + pause
        while time.monotonic() < start_at:
            if self.interrupt_signal:
                return
            time.sleep(0.05)
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        self.respawned_wrks.clear()  # by which Granian would find that it should end

    def _count_death(self, index: int) -> float:
        """The seconds to wait before a worker is started again."""
        if time.monotonic() - self.wrks[index].birth >= _LONG_SECONDS:
            del self._deaths[index]
        self._deaths[index] += 1
        return pause_after(self._deaths[index])


def pause_after(deaths: int) -> float:
    """The seconds to wait after so many deaths in a row: none after the first, then 1, 2, 4 and so on."""
    return 0.0 if deaths < 2 else float(min(_MOST_SECONDS, 2 ** min(deaths - 2, 16)))
