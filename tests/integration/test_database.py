"""Connections to a database server: those that it has ended, and those that are sure to stand."""

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


def test_connections_that_the_server_has_ended_cost_no_request(
    engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(engine)
    with database.reading() as one, database.reading() as other:
        ended = {connection.scalar(text("SELECT pg_backend_pid()")) for connection in (one, other)}
    server = sqlalchemy.create_engine(database_url)
    with server.connect() as connection:
        for number in ended:
            connection.scalar(text("SELECT pg_terminate_backend(:number)"), {"number": number})
    server.dispose()
    monkeypatch.setattr("admin.store.database._FRESH_SECONDS", 0)
    with database.reading() as one, database.autocommit() as other:
        assert ended.isdisjoint(connection.scalar(text("SELECT pg_backend_pid()")) for connection in (one, other))


def test_only_a_connection_that_was_idle_is_asked_whether_it_stands(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(engine)
    asked: list[int] = []
    ping = engine.dialect.do_ping

    def counted_ping(connection: Any) -> bool:
        asked.append(1)
        return ping(connection)

    monkeypatch.setattr(engine.dialect, "do_ping", counted_ping)

    def read() -> None:
        with database.reading() as connection:
            connection.scalar(text("SELECT 1"))

    monkeypatch.setattr("admin.store.database._FRESH_SECONDS", 60)
    for _ in range(3):
        read()
    assert asked == []
    monkeypatch.setattr("admin.store.database._FRESH_SECONDS", 0)
    read()
    assert asked == [1]
