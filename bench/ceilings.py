"""Ceilings: the rates of the same server and databases with next to no work per request."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Engine, bindparam, update

from bench import stock
from bench.ceilings_app import inserter, items, metadata, row_of
from bench.databases import plain_engine
from bench.load import CONNECTIONS, Call, Measure, Rate, rate_of
from tests.support.ports import free_port

EMPTY = "empty route"
INSERT = "route: validate, insert a row, commit"
DIRECT = "insert a row, commit, no HTTP"
DIRECT_MANY = "insert 100 rows, commit, no HTTP"
LIFE = "insert 50 rows, update them three times, no HTTP"

_SPEC = {"job": stock.JOB}


@contextmanager
def running_ceilings(database: str) -> Iterator[int]:
    """The port of a server that does next to nothing; its table is created in the database."""
    engine = plain_engine(database)
    metadata.create_all(engine)
    engine.dispose()
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.ceilings_app", str(port), database])
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the server of the ceilings did not start")


def empty_call(port: int) -> Call:
    """A route that only answers."""
    return Call(port=port, path="/empty")


def insert_call(port: int) -> Call:
    """A route that checks a body and stores one row durably."""
    body = {"project": "team-<project>", "domain": "development", "name": "e<unique>", "spec": _SPEC}
    return Call(port=port, path="/items", method="POST", body=json.dumps(body), draws={"project": 1000})


class Direct:
    """The same rows without HTTP and without checks, by one process; SQLite is quickest with one writer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = 1 if engine.dialect.name == "sqlite" else CONNECTIONS

    def insert(self, count: int) -> Measure:
        """Insert `count` rows and commit."""
        store = inserter(self._engine)
        return partial(in_threads, lambda: store([_row() for _ in range(count)]), threads=self._threads, times=count)

    def live(self, count: int) -> Measure:
        """Insert `count` rows, then change their state three times, with a commit each time."""
        store = inserter(self._engine)
        change = update(items).values(state=bindparam("new"))

        def act() -> None:
            rows = [_row() for _ in range(count)]
            store(rows)
            statement = change.where(items.c.name.in_([row["name"] for row in rows]))
            for state in ("LEASED", "RUNNING", "SUCCEEDED"):
                with self._engine.begin() as connection:
                    connection.execute(statement, {"new": state})

        return partial(in_threads, act, threads=self._threads, times=count)


@contextmanager
def without_http(database: str) -> Iterator[Direct]:
    """Clients of a database in which the table has been created."""
    engine = plain_engine(database)
    metadata.create_all(engine)
    try:
        yield Direct(engine)
    finally:
        engine.dispose()


def _row() -> dict[str, Any]:
    return row_of({"project": "team-1", "domain": "development", "name": secrets.token_hex(10), "spec": _SPEC})


def in_threads(act: Callable[[], object], seconds: int, *, threads: int = CONNECTIONS, times: int = 1) -> Rate:
    """The rate at which threads of this process call a function."""
    taken: list[float] = []
    end = time.monotonic() + seconds

    def work() -> None:
        while (begin := time.monotonic()) < end:
            act()
            taken.append(time.monotonic() - begin)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    begin = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return rate_of(taken, time.monotonic() - begin, times=times)
