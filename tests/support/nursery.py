"""The nursery: a process that has imported the programs, and forks one that runs at once for each request.

Starting Python and importing takes most commands longer than what they do. What is forked here is a process like any
other, with its own standard streams, directory, environment and exit status; only its start is quicker. See
`tests.support.programs`, which asks for them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

PROGRAMS = {
    "rainbow-admin": "admin.main:main",
    "rainbow-agent": "agent.main:main",
    "rainbowctl": "ctl.main:main",
}
#: A request's size, environment included.
REQUEST_BYTES = 2**18


def preload() -> None:
    """Import what the programs are made of, but for what acts when it is imported."""
    for package in ("admin", "agent", "ctl"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if "migrations" not in module.name and not module.name.endswith("__main__"):
                with suppress(Exception):  # who needs it finds out
                    importlib.import_module(module.name)


class Nursery:
    """Forks programs, and says how each of them ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, int] = {}  #: where to say how a process ended, by its id
        self._signals, self._wakeup = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(self._wakeup, False)

    def serve(self) -> Callable[[], None] | None:
        """Fork until nobody is left to ask; in each new process, answers what it has to do."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the keyboard; who asks will end, and we with them
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup)
        sources: list[Any] = [self._requests, self._signals]
        while True:
            readable, _, _ = select.select(sources, [], [])
            if self._signals in readable:
                with suppress(BlockingIOError):
                    os.read(self._signals, 4096)
                self._collect()
            if self._requests in readable:
                data, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, 4)
                if not data:
                    self._end_all()
                    return None
                if act := self._fork(json.loads(data), descriptors):
                    return act

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> Callable[[], None] | None:
        *streams, told = descriptors
        child = os.fork()
        if child == 0:
            self._leave()
            os.close(told)
            return _become(request, streams)
        self._children[child] = told
        os.write(told, f"{child}\n".encode())
        for stream in streams:
            os.close(stream)
        return None

    def _leave(self) -> None:
        """In a new process, have nothing of the nursery's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._requests.close()
        for descriptor in (self._signals, self._wakeup, *self._children.values()):
            os.close(descriptor)

    def _collect(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            told = self._children.pop(child)
            with suppress(BrokenPipeError):
                os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(told)

    def _end_all(self) -> None:
        """Nobody is left who would end them."""
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _become(request: dict[str, Any], streams: list[int]) -> Callable[[], None]:
    """Make this process the one that was asked for; answers its entry point."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.argv = [request["program"], *request["arguments"]]
    module, _, name = PROGRAMS[request["program"]].partition(":")
    entry: Callable[[], None] = getattr(importlib.import_module(module), name)
    return entry


def _end_after(act: Callable[[], None]) -> NoReturn:
    """Do as the interpreter does at its end, but for taking down what was imported, which takes long."""
    status = 0
    try:
        act()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter calls at its end; typeshed leaves it out
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def main() -> None:
    """Serve the socket whose descriptor is the one argument; in a forked process, be its program."""
    with tempfile.TemporaryDirectory() as counts:
        # The metrics library must find this when it is imported; each admin then names another, as its workers do.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts
        preload()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        act = Nursery(requests).serve()
    if act is not None:
        _end_after(act)


if __name__ == "__main__":
    main()
