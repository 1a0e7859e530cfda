"""A worker process of granian that hands requests over when their heads have arrived.

granian's interface for asynchronous applications, RSGI, receives bodies without a thread, but calls the application in
an event loop, which costs four times as much as its WSGI interface. Here the application is called in the thread
that would have called the loop, and so is what waits for a body. This needs four names that granian does not document
(`CallbackScheduler`, `RSGIWorker`, `WorkerSignal`, `WorkerProcess.wrap_target`), which is why setup.cfg fixes its
version.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from granian._granian import CallbackScheduler, RSGIWorker, WorkerSignal
from granian.server.common import WORKERS_METHODS
from granian.server.mp import WorkerProcess

_Worker: Any = RSGIWorker  # granian's stub of it is out of date
#: How long a signal may go unnoticed that arrives just before the main thread begins to wait.
_NOTICE_SECONDS = 0.1


class _Scheduler(CallbackScheduler):
    """Calls a function with each request, in a thread of the pool."""

    def __init__(self, _loop: object, handle: Callable[[Any], None], *_: object) -> None:
        super().__init__()
        self._schedule_fn = handle


class _Loop:
    """Stands where granian expects an event loop: calls at once, in the same thread, what it is given."""

    def call_soon(self, callback: Callable[..., object], *arguments: object, context: object = None) -> None:
        callback(*arguments)

    call_soon_threadsafe = call_soon


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]
def serve_worker(
    worker_id: int,
    handle: Callable[[Any], None],
    listener: Any,
    ipc: Any,
    _loop: Any,
    runtime_mode: Any,
    runtime_threads: int,
    runtime_blocking_threads: int,
    threads: int,
    threads_idle_timeout: int,
    backpressure: int,
    _task_impl: Any,
    http_mode: Any,
    http1_settings: Any,
    http2_settings: Any,
    _websockets: bool,
    _static_path: Any,
    _log_access_format: Any,
    ssl_context: tuple[Any, ...],
    _scope_options: Any,
    metrics: Any,
) -> None:
    """Serve until the process gets SIGTERM; the parameters are those that granian gives."""
    stop = WorkerSignal()
    stop_once(stop.set)
    stopped = threading.Event()
    stop.add_cb(stopped.set)
    worker = _Worker(
        worker_id,
        _limit_unread(listener, http1_settings.header_read_timeout),
        ipc,
        runtime_threads,
        runtime_blocking_threads,
        threads,
        threads_idle_timeout,
        backpressure,
        http_mode,
        http1_settings,
        http2_settings,
        False,  # no websockets
        None,  # no static files
        *ssl_context,
        metrics,
    )
    loop = _Loop()
    serve = getattr(worker, WORKERS_METHODS[runtime_mode][False])
    serve(_Scheduler(loop, handle, None, None, None), loop, stop)
    while not stopped.wait(_NOTICE_SECONDS):  # without a limit Python might never call the handler of a signal
        pass


def stop_once(stop: Callable[[], None]) -> None:
    """Call a function on the first SIGTERM; granian's would block the whole process when called a third time."""
    unused = threading.Lock()

    def handle(*_: object) -> None:
        if unused.acquire(blocking=False):
            stop()

    signal.signal(signal.SIGTERM, handle)


def _limit_unread(listener: Any, milliseconds: int) -> Any:
    """The listener with a limit, inherited by its connections, on how long the client may take nothing of an answer."""
    if sys.platform != "linux":
        return listener
    holder = listener[0].build()
    with socket.socket(fileno=os.dup(holder.get_fd())) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return None, holder
