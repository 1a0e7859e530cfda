"""The fork server: a process that has imported the programs, and forks one for each request.

Starting Python and importing takes longer than most commands do. A forked process has its own standard streams,
directory, environment and exit status; only its start is quicker. `tests.support.programs` sends the requests.
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

from tests.support.apps import opened_app

PROGRAMS = {
    "rainbow-admin": "admin.main:main",
    "rainbow-agent": "agent.main:main",
    "rainbowctl": "ctl.main:main",
}
#: A request's size, environment included.
REQUEST_BYTES = 2**18


def preload() -> None:
    """Import every module of the programs, except those that act on import; make an app, which fills its caches."""
    for package in ("admin", "agent", "ctl"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if "migrations" not in module.name and not module.name.endswith("__main__"):
                with suppress(Exception):  # an import error shows when the module is needed
                    importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as directory, opened_app(f"sqlite:///{directory}/rainbow.db"):
        pass
    assert threading.active_count() == 1, "a thread does not survive a fork"


class ForkServer:
    """Forks programs, and reports how each of them ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, int] = {}  #: where to report how a process ended, by its id
        self._signals, self._wakeup = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(self._wakeup, False)

    def serve(self) -> Callable[[], None] | None:
        """Fork until the requests end; in each new process, return its entry point."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run ends on Ctrl-C, and this process with it
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
        *streams, report = descriptors
        child = os.fork()
        if child == 0:
            self._leave()
            os.close(report)
            return _become(request, streams)
        self._children[child] = report
        os.write(report, f"{child}\n".encode())
        for stream in streams:
            os.close(stream)
        return None

    def _leave(self) -> None:
        """Give up everything of the fork server in a new process."""
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
            report = self._children.pop(child)
            with suppress(BrokenPipeError):
                os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(report)

    def _end_all(self) -> None:
        """Kill the children when the test run is over."""
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _become(request: dict[str, Any], streams: list[int]) -> Callable[[], None]:
    """Make this process the requested one, and return its entry point."""
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
    """Exit as the interpreter does, without tearing down the imported modules, which takes long."""
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
    preload()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        act = ForkServer(requests).serve()
    if act is not None:
        _end_after(act)


if __name__ == "__main__":
    main()
