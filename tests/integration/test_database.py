"""Connections to a database server: those that it has closed, and those that need no check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, text

from admin.store.database import Database

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = sqlalchemy.create_engine(database_url, pool_size=3)
    yield engine
    engine.dispose()


def test_connections_that_the_server_has_closed_fail_no_request(engine: Engine, database_url: str) -> None:
    database = Database(engine, fresh_seconds=0)
    with database.reading() as first, database.reading() as second:
        closed = {connection.scalar(text("SELECT pg_backend_pid()")) for connection in (first, second)}
    server = sqlalchemy.create_engine(database_url)
    with server.connect() as connection:
        for number in closed:
            connection.scalar(text("SELECT pg_terminate_backend(:number)"), {"number": number})
    server.dispose()
    with database.reading() as first, database.autocommit() as second:
        assert closed.isdisjoint(connection.scalar(text("SELECT pg_backend_pid()")) for connection in (first, second))


def test_only_an_idle_connection_is_checked_before_it_is_used(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    database = Database(engine, fresh_seconds=60, clock=lambda: now[0])
    pings = 0
    ping = engine.dialect.do_ping

    def count_ping(connection: Any) -> bool:
        nonlocal pings
        pings += 1
        return ping(connection)

    monkeypatch.setattr(engine.dialect, "do_ping", count_ping)

    def read() -> None:
        with database.reading() as connection:
            connection.scalar(text("SELECT 1"))

    for _ in range(3):
        read()
    assert pings == 0
    now[0] += 61
    read()
    assert pings == 1


def test_the_server_compiles_no_query(engine: Engine) -> None:
    with Database(engine).reading() as connection:
        assert connection.scalar(text("SHOW jit")) == "off"
