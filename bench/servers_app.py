"""The WSGI application `bench.servers` measures, and the entry points of the embedded servers.

Each process of a server binds a datagram socket `<BENCH_DIR>/<pid>.sock`. `release` sent to it wakes every
long poll that process holds; `count` is answered with how many it holds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request

DIRECTORY = Path(os.environ.get("BENCH_DIR", "."))
THREADS = int(os.environ.get("BENCH_THREADS", "1100"))
_waiters: set[threading.Event] = set()
_local = threading.local()


def _database() -> sqlite3.Connection:
    """This thread's connection."""
    if not hasattr(_local, "database"):
        _local.database = sqlite3.connect(DIRECTORY / "bench.sqlite", timeout=10)
        _local.database.execute("PRAGMA synchronous=NORMAL")
    connection: sqlite3.Connection = _local.database
    return connection


def _control() -> None:
    """Answer the benchmark's datagrams until the process ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(DIRECTORY / f"{os.getpid()}.sock"))
        while True:
            message, sender = sock.recvfrom(64)
            if message == b"release":
                for waiter in list(_waiters):
                    waiter.set()
            else:
                sock.sendto(str(len(_waiters)).encode(), sender)


def create_app() -> Flask:
    """Build the application and start the control thread of this process."""
    app = Flask(__name__)

    @app.get("/empty")
    def empty() -> Response:
        return jsonify(ok=True)

    @app.get("/read")
    def read() -> Response:
        row = _database().execute("SELECT value FROM item WHERE id = 1").fetchone()
        return jsonify(value=row[0])

    @app.get("/write")
    def write() -> Response:
        with _database() as database:
            cursor = database.execute("INSERT INTO item (value) VALUES ('x')")
        return jsonify(id=cursor.lastrowid)

    @app.get("/poll")
    def poll() -> Response:
        waiter = threading.Event()
        _waiters.add(waiter)
        try:
            released = waiter.wait(float(request.args["wait"]))
        finally:
            _waiters.discard(waiter)
        return jsonify(released=released)

    @app.get("/slow")
    def slow() -> Response:
        time.sleep(1)
        return jsonify(ok=True)

    threading.Thread(target=_control, daemon=True).start()
    return app


def serve_granian(port: int) -> None:
    """Two worker processes; threads and accepted connections are capped per worker."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces

    Granian(
        "bench.servers_app:create_app",
        factory=True,
        port=port,
        interface=Interfaces.WSGI,
        workers=2,
        blocking_threads=THREADS,
        backlog=2048,
        backpressure=2048,
        http=HTTPModes.http1,
        log_enabled=False,
    ).serve()


def _exit(*_: Any) -> None:
    raise SystemExit(0)


def serve_waitress(port: int) -> None:
    """One process: it has no workers. poll() is needed above 1,024 descriptors."""
    import waitress  # type: ignore[import-untyped]

    signal.signal(signal.SIGTERM, _exit)
    waitress.serve(
        create_app(),
        host="127.0.0.1",
        port=port,
        threads=THREADS,
        connection_limit=2048,
        backlog=2048,
        asyncore_use_poll=True,
    )


def serve_cheroot(port: int) -> None:
    """One process: it has no workers."""
    from cheroot.wsgi import Server

    server = Server(("127.0.0.1", port), create_app(), numthreads=THREADS, request_queue_size=2048, shutdown_timeout=30)
    signal.signal(signal.SIGTERM, _exit)
    with contextlib.suppress(SystemExit):
        server.start()
    server.stop()


if __name__ == "__main__":
    {"granian": serve_granian, "waitress": serve_waitress, "cheroot": serve_cheroot}[sys.argv[1]](int(sys.argv[2]))
