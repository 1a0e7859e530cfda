"""Ports for the servers of tests."""

from __future__ import annotations

import os
import socket

#: Below the ports that the system gives to connections.
_FIRST, _PER_WORKER, _WORKERS = 20_000, 1_500, 8
_next = os.getpid() % _PER_WORKER


def free_port() -> int:
    """A port on loopback that nobody has, and that no other worker of these tests takes before a server listens there.

    A program that starts slowly would else be taken for one of another test, which the system gave the same port.
    """
    global _next
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    for _ in range(_PER_WORKER):
        _next = (_next + 1) % _PER_WORKER
        port = _FIRST + worker * _PER_WORKER + _next
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("every port is taken")
