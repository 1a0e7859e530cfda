"""The programs as processes: rainbow-admin, rainbow-agent and rainbowctl, forked where tests keep a fork server."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from tests.support.fork_server import REQUEST_BYTES

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]

#: Variables that Python reads at its start; a process with other values cannot be forked from the fork server.
_OF_PYTHON = ("PYTHON", "LANG", "LC_")
_SECONDS = 60

_is_warm = False
_fork_server: tuple[subprocess.Popen[bytes], socket.socket] | None = None
_starting = threading.Lock()  #: so that threads that start the first programs share one fork server


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without anything that would configure Rainbow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAINBOW_")}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


@contextmanager
def kept_warm() -> Iterator[None]:
    """Fork programs from a fork server within this context; those still running at its end are killed."""
    global _is_warm, _fork_server
    _is_warm = True
    try:
        yield
    finally:
        _is_warm = False
        if _fork_server is not None:
            process, requests = _fork_server
            _fork_server = None
            requests.close()
            process.wait(timeout=_SECONDS)


class Process(Protocol):
    """The part of subprocess.Popen that tests use."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class WarmProcess:
    """A process that the fork server forked."""

    def __init__(self, pid: int, report: IO[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a process of the fork server's", timeout or 0)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            watch = select.poll()
            watch.register(self._report, select.POLLIN)
            if watch.poll(None if seconds is None else seconds * 1000):
                self.returncode = int(self._report.readline())
                self._report.close()
        return self.returncode


def start(
    program: str,
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
    is_cold: bool = False,
) -> Process:
    """Start a program; a cold one starts as users start it."""
    variables = clean_environment(TMPDIR=str(cwd or tempfile.gettempdir())) if env is None else dict(env)
    streams: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    if is_cold or not _is_warm or _is_for_python(variables):
        return subprocess.Popen([str(BIN / program), *arguments], cwd=cwd, env=variables, **streams)
    request = {"program": program, "arguments": arguments, "cwd": str(cwd or Path.cwd()), "environment": variables}
    return _forked(request, list(streams.values()))


def run(
    program: str,
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end."""
    with _in_memory(stdin) as input_file, _in_memory() as out, _in_memory() as err:
        process = start(program, *arguments, cwd=cwd, env=env, stdin=input_file.fileno(), stdout=out, stderr=err)
        try:
            status = process.wait(timeout=_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess([program, *arguments], status, out.read(), err.read())


def _is_for_python(variables: Mapping[str, str]) -> bool:
    def mine(environment: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in environment.items() if name.startswith(_OF_PYTHON)}

    return mine(variables) != mine(os.environ)


def _in_memory(content: bytes = b"") -> IO[bytes]:
    file = os.fdopen(os.memfd_create("stream"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def _forked(request: Mapping[str, Any], streams: Sequence[int | IO[Any]]) -> WarmProcess:
    global _fork_server
    with _starting:
        if _fork_server is None:
            _fork_server = _start_fork_server()
    data = json.dumps(request).encode()
    assert len(data) <= REQUEST_BYTES
    read_end, write_end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
    try:
        descriptors = [nothing if number == subprocess.DEVNULL else number for number in numbers]
        socket.send_fds(_fork_server[1], [data], [*descriptors, write_end])
    finally:
        os.close(write_end)
        os.close(nothing)
    answer = os.fdopen(read_end)
    return WarmProcess(int(answer.readline()), answer)


def _start_fork_server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_BYTES)
    with theirs:
        command = [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), pass_fds=[theirs.fileno()])
    return process, ours
