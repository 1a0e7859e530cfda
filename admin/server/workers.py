"""Workers: the processes that answer requests, and how each of them ends."""

from __future__ import annotations

import gc
import logging.config
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from admin import metrics
from admin.app import create_app
from admin.configuration import load_settings
from admin.logs import log_configuration
from admin.loops.background import start_background
from admin.server.receiver import Receiver
from admin.shared_values import memory_file


@dataclass(frozen=True, kw_only=True)
class SharedMemory:
    """Descriptors of the memory that the workers of one admin share."""

    counter: int
    rates: int
    metrics: tuple[int, ...]  #: a segment for each worker, and for each that ends while its successor starts

    @staticmethod
    def allocate(workers: int) -> SharedMemory:
        metrics = tuple(memory_file("rainbow-metrics") for _ in range(2 * workers))
        return SharedMemory(counter=memory_file("rainbow-counter"), rates=memory_file("rainbow-rates"), metrics=metrics)


#: How long a thread that only calculates, as for a plan, keeps others waiting. A creation waits so long after each of
#: its statements, while it holds the turn of all writers: Python's default of 5 ms slows creation beside a plan much.
_SWITCH_SECONDS = 0.001
#: How long a worker whose main process has ended may take to finish its requests.
_LAST_SECONDS = 5


def create_worker(
    server: Any, parent: int, shared: SharedMemory, config_file: str | None, overrides: Mapping[str, Mapping[str, Any]]
) -> Receiver:
    """Set up a worker process, and return what receives its requests."""
    metrics.share(shared.metrics)
    _end_on_signal(server)
    _end_with_parent(parent)
    settings = load_settings(config_file, os.environ, overrides)
    logging.config.dictConfig(log_configuration(settings.log_level, settings.log_format))
    app = create_app(settings, counter_file=shared.counter, rates_file=shared.rates)
    context = app.extensions["rainbow"]
    context.index.start()
    gc.collect()
    gc.freeze()  # what is loaded by now stays; collecting it again and again would delay requests
    gc.set_threshold(10_000, 20, 20)
    sys.setswitchinterval(_SWITCH_SECONDS)
    leader = start_background(context)
    receiver = Receiver(app.extensions["rainbow-front"], settings.server.receive_seconds)
    _on_stop(receiver.close, context.close, leader.close)
    return receiver


def _end_on_signal(server: Any) -> None:
    """End at once on a signal that arrives while the worker starts.

    Until the server handles signals itself, a worker has the handlers of the main process, which do not end it. An
    interrupt from the keyboard also reaches the main process, which tells its workers.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if server.interrupt_signal:  # set by one of those handlers
        os._exit(0)


def _on_stop(*callbacks: Callable[[], None]) -> None:
    """Run callbacks as soon as this worker gets a signal to stop, so that waiting requests are answered at once.

    The server replaces the signal handlers, but not the descriptor that Python writes signal numbers to.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        sockets = reader, writer  # kept open: a second signal may still be written
        while signal.SIGTERM not in sockets[0].recv(64):
            pass
        for callback in callbacks:
            callback()
        threading.Event().wait()

    threading.Thread(target=watch, name="stop", daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """End this worker when its main process was killed.

    A signal on the parent's death alone would not do: for moments while a worker starts, nothing handles it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LAST_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
