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
        start_at = {index: self._start_at(index) for index in workers}
        while start_at and not self.interrupt_signal:
            if self.reload_signal:  # which starts all of them at once
                self._deaths.clear()
                break
            while self.interrupt_children:  # those that have ended meanwhile
                index = self.interrupt_children.pop()
                if not self.wrks[index].is_alive():
                    start_at[index] = self._start_at(index)
            due = [index for index, at in start_at.items() if at <= time.monotonic()]
            super()._respawn_workers(due, spawn_target, target_loader, delay)
            for index in due:
                del start_at[index]
            if not due:
                time.sleep(0.05)
        self.respawned_wrks.clear()  # by which Granian would find that it should end
        self.main_loop_interrupt.clear()
        if self.interrupt_signal or self.reload_signal or self.interrupt_children:
            self.main_loop_interrupt.set()

    def _start_at(self, index: int) -> float:
        """When to start a worker again: at once unless it has ended, soon after the one before it."""
        now, worker = time.monotonic(), self.wrks[index]
        if worker.is_alive():
            return now
        if now - worker.birth >= _LONG_SECONDS:
            del self._deaths[index]
        self._deaths[index] += 1
        pause = pause_after(self._deaths[index])
        _log.warning("a worker has ended and is started again", extra={"worker": index + 1, "in_seconds": pause})
        return now + pause


def pause_after(deaths: int) -> float:
    """The seconds to wait after so many deaths in a row: none after the first, then 1, 2, 4 and so on."""
    return 0.0 if deaths < 2 else float(min(_MOST_SECONDS, 2 ** min(deaths - 2, 16)))
