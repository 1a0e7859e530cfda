"""Servers that tests start beside themselves: none of them, and nothing of theirs, outlives a run that is killed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Server = TypeVar("Server", bound=socketserver.BaseServer)
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ended_with_us(number: signal.Signals) -> Callable[[], None]:
    """For Popen's preexec_fn: the process gets a signal when this one is gone."""
    return lambda: _libc.prctl(_PR_SET_PDEATHSIG, number)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """A server that answers in a thread of its own; it is closed at the end."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def owned_directory(name: str) -> Iterator[Path]:
    """A new directory that carries our process id; those of processes that are gone are removed."""
    place = Path(tempfile.gettempdir())
    for other in place.glob(f"{name}-[0-9]*-*"):
        if not Path("/proc", other.name.removeprefix(f"{name}-").partition("-")[0]).exists():
            shutil.rmtree(other, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
