"""Workers that end are started again, whatever else happens at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admin.server.respawning import RespawningServer


class Worker:
    """As much of a process as Granian asks for."""

    def __init__(self, *, is_alive: bool = True) -> None:
        self.birth = time.monotonic()
        self.is_alive = lambda: is_alive

    def start(self) -> None: ...

    def terminate(self) -> None: ...

    def join(self, _timeout: float | None) -> None: ...


class Server(RespawningServer):
    """A server whose worker 0 has ended again and again, and whose worker 1 is well."""

    def __init__(self) -> None:
        super().__init__("nothing", workers=2)
        self.wrks = [Worker(is_alive=False), Worker()]
        self._deaths[0] = 10
        self.started = threading.Event()  #: when worker 1 is

    def _spawn_worker(self, idx: int, **_: Any) -> Worker:
        if idx == 1:
            self.started.set()
        return Worker()

    def respawn(self, *workers: int) -> None:
        self._respawn_workers(list(workers), len, len)


@contextmanager
def pausing(server: Server) -> Iterator[Callable[[], bool]]:
    """A server within the pause for worker 0; yields what waits for its end and tells whether it came."""
    thread = threading.Thread(target=server.respawn, args=(0,), daemon=True)
    thread.start()

    def is_over() -> bool:
        thread.join(10)
        return not thread.is_alive()

    yield is_over
    server.signal_handler_interrupt()
    thread.join()


def test_a_worker_that_ends_is_not_held_up_by_the_pause_of_another() -> None:
    server = Server()
    with pausing(server):
        server.wrks[1] = Worker(is_alive=False)
        server.interrupt_children.append(1)
        assert server.started.wait(10)
    assert server.interrupt_children == []


def test_a_reload_is_not_held_up_by_the_pause_of_a_worker() -> None:
    server = Server()
    with pausing(server) as is_over:
        server.signal_handler_reload()
        assert is_over()
        assert server.main_loop_interrupt.is_set(), "the signal is lost"


def test_reloads_are_no_deaths(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    for _ in range(8):
        server.respawn(1)
    assert not caplog.records, "no worker has ended"


def test_a_signal_to_end_is_not_lost_beside_a_worker_that_ends() -> None:
    server = Server()
    server.signal_handler_interrupt()
    server.main_loop_interrupt.clear()  # as Granian does before it starts workers
    server.respawn(0)
    assert server.main_loop_interrupt.is_set()
