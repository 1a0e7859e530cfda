"""The database: one engine, two ways to use it, and what SQLite needs to behave."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import BigInteger, Connection, DateTime, Dialect, Engine, Integer, MetaData, Table, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.types import TypeDecorator

from admin.core.json_text import json_text, json_value
from admin.store.group_commit import GroupCommit

#: Constraint names are fixed, so that migrations can name them on every database.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
db = SQLAlchemy(metadata=metadata)

#: A number that the database gives; SQLite counts only in its own INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")


def json_column(value: Any) -> str:
    """A value as columns of JSON take it."""
    return json_text(value).decode()


#: How values are bound on SQLite, whichever file it is.
SQLITE: Dialect = sqlite.dialect(json_serializer=json_column)

_WRITES = "rainbow_writes"
_USED = "rainbow_used"
#: Changes in one transaction: the more of them, the longer everybody else waits.
_MOST_TOGETHER = 16

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Does something to several items at once, and answers what became of each.
Act = Callable[[Connection, list[Item]], list[Result]]


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC, on databases that forget the zone as well."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        try:
            return value if value is None else value.astimezone(UTC)
        except OverflowError:  # within a day of the first or the last time there is
            return value and value.replace(tzinfo=UTC)

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        if dialect.name != "sqlite":
            return super().bind_processor(dialect)

        def text(value: datetime | None) -> str | None:
            """A time as SQLite keeps it; written by hand, for there are several in every row."""
            utc = self.process_bind_param(value, dialect)
            return None if utc is None else utc.replace(tzinfo=None).isoformat(" ", "microseconds")

        return text

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[str | None], datetime | None] | None:
        """SQLite keeps texts that name no zone; others answer with times as they are, which many rows have many of."""
        return _from_sqlite if dialect.name == "sqlite" else None


def _from_sqlite(text: str | None) -> datetime | None:
    if text is None:
        return None
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


class Database:
    """Transactions on one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.write_lock: AbstractContextManager[object] = nullcontext()  #: to write, for as long as others must not
        if engine.dialect.name == "sqlite":
            self.write_lock = _WriteLock(engine.url.database)
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            event.listen(engine, "checkin", _note_use)
            event.listen(engine, "checkout", partial(_check, engine.dialect))
        self._together: GroupCommit[tuple[Act[Any, Any], Any], Any] = GroupCommit(
            self._write_all, _MOST_TOGETHER, self.write_lock
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent picture of the whole database."""
        options = {} if self.engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """For single statements, each of which is a transaction of its own and costs one round trip."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A change that is committed as a whole, or not at all."""
        with (
            self.write_lock,
            self.engine.connect().execution_options(**{_WRITES: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def write(self, act: Act[Item, Result], item: Item) -> Result:
        """Act on something, in one transaction and one call with all that others want to have done at the same time.

        The act may be done twice: what fails for all of them is tried again for each.
        """
        found: Result = self._together.submit([(act, item)])[0]
        return found

    def _write_all(self, wanted: list[tuple[Act[Any, Any], Any]]) -> list[Any]:
        items: dict[Act[Any, Any], list[Any]] = {}
        for act, item in wanted:
            items.setdefault(act, []).append(item)
        with self.writing() as connection:
            found = {act: iter(act(connection, some)) for act, some in items.items()}
        return [next(found[act]) for act, _ in wanted]


def is_writing(connection: Connection) -> bool:
    """Whether a transaction may change something."""
    return bool(connection.get_execution_options().get(_WRITES, False))


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    """Store the rows whose keys are not taken, and leave the others as they are; answers how many were new."""
    if not rows:
        return 0
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    # Counted by what comes back: a driver may not know how many rows an insert has left out.
    insert = dialect.insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len(connection.execute(insert, rows).all())


class _WriteLock:
    """One writer at a time, of all threads and processes, in about the order they came; who has it may take it again.

    SQLite's own way of waiting for its lock is to try again later, which lets unlucky writers starve.
    """

    def __init__(self, database: str | None) -> None:
        self._among_threads = threading.RLock()
        self._depth = 0
        self._path = f"{database}.turn" if database and database != ":memory:" else None
        self._held: int | None = None

    def __enter__(self) -> None:
        self._among_threads.acquire()
        self._depth += 1
        if self._depth == 1 and self._path is not None:
            with suppress(OSError):  # where there can be no file, writers are merely served out of turn
                self._held = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._held, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._held is not None:
            os.close(self._held)  # which gives the lock up
            self._held = None
        self._among_threads.release()


#: Pages in the write-ahead log before they are copied into the database, which holds a writer up; 4 KiB each.
_LOGGED_PAGES = 8000
#: So much of the database does a connection keep at hand that a large write finds all its pages there.
_CACHE_KIB = 8192


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite, not by the driver
    pragmas = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON")
    for pragma in (*pragmas, f"wal_autocheckpoint={_LOGGED_PAGES}", f"cache_size=-{_CACHE_KIB}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the lock at once: one that starts as a reader may find that it cannot become a writer."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing(connection) else "BEGIN")


#: A connection that was in use so many seconds ago need not be asked whether it still stands.
_FRESH_SECONDS = 0.2


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info[_USED] = time.monotonic()


def _check(dialect: Dialect, connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """A database that was restarted costs no request, and one that was not hardly ever a round trip."""
    used = record.info.get(_USED)
    if used is None or time.monotonic() < used + _FRESH_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def prepare_directory(url: str) -> None:
    """The directory of an embedded database, for its owner alone."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        Path(parsed.database).absolute().parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def engine_options(pool_size: int) -> dict[str, Any]:
    """How Flask-SQLAlchemy should build the engine."""
    return {
        "pool_size": pool_size,
        "max_overflow": pool_size,
        "pool_timeout": 30,
        "json_serializer": json_column,
        "json_deserializer": json_value,
    }
