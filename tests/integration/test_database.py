"""Connections to a server: those that it has closed, those that need no check, and statements sent together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, TextClause, text
from sqlalchemy.exc import OperationalError

from admin.store.database import Database
from admin.store.dialects import TimeLimits
from admin.store.dialects.postgresql import AHEAD
from tests.support.waiting import wait_until

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


def test_a_statement_sees_what_was_committed_while_the_sql_ahead_of_it_waited(engine: Engine) -> None:
    database = Database(engine)
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE numbers (number INTEGER)"))
        connection.execute(text("INSERT INTO numbers VALUES (1)"))
    count = text("SELECT count(*) FROM numbers").execution_options(**{AHEAD: "SELECT number FROM numbers FOR UPDATE"})
    with ThreadPoolExecutor(1) as pool:
        with database.writing() as first:
            first.execute(text("UPDATE numbers SET number = 2"))
            first.execute(text("INSERT INTO numbers VALUES (3)"))
            counted = pool.submit(lambda: count_in(database, count))
            wait_until(lambda: is_anyone_waiting(database))
        assert counted.result(30) == 2


def test_an_error_of_the_sql_ahead_ends_the_transaction_and_not_the_connection(engine: Engine) -> None:
    database = Database(engine, limits=TimeLimits(lock=0.2))
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE numbers AS SELECT 1 AS number"))
    number = text("SELECT pg_backend_pid()").execution_options(**{AHEAD: "SELECT number FROM numbers FOR UPDATE"})
    with database.writing() as first:
        first.execute(text("SELECT number FROM numbers FOR UPDATE"))
        with database.engine.connect() as second:
            backend = second.scalar(text("SELECT pg_backend_pid()"))
            with pytest.raises(OperationalError) as caught:
                second.execute(number)
            second.rollback()
            assert second.scalar(text("SELECT pg_backend_pid()")) == backend
    assert not caught.value.connection_invalidated
    assert getattr(caught.value.orig, "sqlstate", "") == "55P03"
    assert count_in(database, number) > 0


def count_in(database: Database, query: TextClause) -> int:
    with database.writing() as connection:
        number: int = connection.execute(query).scalar_one()
        return number


def is_anyone_waiting(database: Database) -> bool:
    with database.autocommit() as connection:
        return bool(connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))
