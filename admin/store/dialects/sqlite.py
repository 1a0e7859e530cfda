"""SQLite: how connections are set up, how transactions begin, and how writers take turns."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection as DriverConnection

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.pool import ConnectionPoolEntry

from admin.core.json_text import json_string

#: How values are bound, whichever file the database is.
DIALECT: Dialect = sqlite.dialect(json_serializer=json_string)
#: An execution option of connections that write: their transactions take the lock at once.
WRITES = "rainbow_writes"

#: Pages in the write-ahead log before they are copied into the database, which delays a writer; 4 KiB each.
_WAL_PAGES = 8000
#: Page cache of a connection: large enough that a large write finds all its pages there.
_CACHE_KIB = 8192
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "busy_timeout=30000",
    "foreign_keys=ON",
    f"wal_autocheckpoint={_WAL_PAGES}",
    f"cache_size=-{_CACHE_KIB}",
)


def set_up(engine: Engine) -> None:
    """Configure every new connection of an engine, and let it begin transactions as their purpose needs."""
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)


def _configure(connection: DriverConnection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions are begun by _begin, not by the driver
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: a transaction that begins as a reader may fail to become a writer."""
    is_writing = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


class WriteLock:
    """Admits one writer at a time, over all threads and processes, in about the order they came; it is reentrant.

    SQLite itself waits for its lock by trying again later, which can starve a writer.
    """

    def __init__(self, database: str | None) -> None:
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._path = f"{database}.turn" if database and database != ":memory:" else None
        self._file: int | None = None

    def __enter__(self) -> None:
        self._thread_lock.acquire()
        self._depth += 1
        if self._depth == 1 and self._path is not None:
            with suppress(OSError):  # without a file, writers are merely served out of order
                self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)  # which releases the lock
            self._file = None
        self._thread_lock.release()


def format_time(time: datetime | None) -> str | None:
    """A time in UTC as SQLite stores it; formatted here, for every row has several."""
    return None if time is None else time.replace(tzinfo=None).isoformat(" ", "microseconds")


def parse_time(text: str | None) -> datetime | None:
    """A stored time, in UTC."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def prepare_file(url: str) -> None:
    """Create the file of an embedded database, and its directory, for their owner alone."""
    parsed = make_url(url)
    name = parsed.database or ":memory:"
    if parsed.get_backend_name() != "sqlite" or name == ":memory:" or name.startswith("file:"):
        return
    path = Path(name).absolute()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # SQLite gives its other files the mode of this one
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
