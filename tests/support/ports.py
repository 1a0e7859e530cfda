"""Ports for the servers of tests."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import BinaryIO

#: Below the ports that the system gives to connections.
_FIRST, _PER_WORKER, _WORKERS = 20_000, 1_500, 8
_next = os.getpid() % _PER_WORKER


def free_port() -> int:
    """A port on loopback that nobody has, and that no other process of tests takes before a server listens there.

    A program that starts slowly would else be taken for one of another test, which the system gave the same port.
    """
    global _next
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    for _ in range(_PER_WORKER):
        _next = (_next + 1) % _PER_WORKER
        port = _FIRST + worker * _PER_WORKER + _next
        with socket.socket() as probe:
            try:
                fcntl.lockf(_taken_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("every port is taken")


@cache
def _taken_ports() -> BinaryIO:
    """A file of which every process that runs tests locks the byte of each of its ports until it ends."""
    return Path(tempfile.gettempdir(), f"rainbow-test-ports-{os.getuid()}").open("ab")
