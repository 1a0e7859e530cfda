"""Temporary databases: an SQLite file, and a PostgreSQL of our own. Both are durable, as in real use."""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from sqlalchemy import Engine, event

from tests.support.postgresql import binaries, running_postgresql


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A kind of database that makes new ones."""

    name: str
    create: Callable[[], str]  #: answers the URL of an empty database


@contextmanager
def sqlite() -> Iterator[Backend]:
    """SQLite, in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as directory:
        yield Backend(name="sqlite", create=lambda: f"sqlite:///{Path(directory) / secrets.token_hex(6)}.db")


@contextmanager
def postgresql() -> Iterator[Backend]:
    """A PostgreSQL with default settings, except the usual ones: memory, size of its log, and connections."""
    with running_postgresql("-c shared_buffers=1GB -c max_wal_size=4GB -c max_connections=300") as url:

        def create() -> str:
            name = f"bench_{secrets.token_hex(6)}"
            engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            engine.dispose()
            return url.rsplit("/", 1)[0] + f"/{name}"

        yield Backend(name="postgresql", create=create)


def has_postgresql() -> bool:
    """Whether PostgreSQL can be started."""
    return binaries() is not None


def plain_engine(url: str) -> Engine:
    """A plain engine: SQLite with a write-ahead log, every commit on disk."""
    engine = sqlalchemy.create_engine(url, pool_size=10, max_overflow=10, pool_timeout=30)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up)
    return engine


def _set_up(connection: sqlite3.Connection, _record: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}").close()
