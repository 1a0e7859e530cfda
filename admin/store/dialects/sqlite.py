"""SQLite: how connections are set up, how transactions begin, and how writers take turns."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from sqlite3 import Connection as DriverConnection

from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from admin.core.json_text import json_string
from admin.store.dialects import TimeLimits

#: How values are bound, whichever file the database is.
DIALECT: Dialect = sqlite.dialect(json_serializer=json_string)
#: An execution option of connections that write: their transactions take the lock at once.
WRITES = "rainbow_writes"
#: An execution option of connections whose transactions wait for the lock however long that takes.
WAITS = "rainbow_waits"

#: Pages in the write-ahead log before they are copied into the database, which delays a writer; 4 KiB each.
_WAL_PAGES = 8000
#: Page cache of a connection: large enough that a large write finds all its pages there.
_CACHE_KIB = 8192
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    f"wal_autocheckpoint={_WAL_PAGES}",
    f"cache_size=-{_CACHE_KIB}",
)


_FILE = "rainbow_file"
#: Errors after which a connection stays unusable when the cause has gone: it may hold the file as it was.
_LASTING = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")


def set_up(engine: Engine, limits: TimeLimits | None = None) -> None:
    """Configure every new connection of an engine, and let it begin transactions as their purpose needs."""
    event.listen(engine, "connect", partial(_configure, limits or TimeLimits()))
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", _open_again)
    if engine.url.database and not engine.url.database.startswith((":memory:", "file:")):
        path = Path(engine.url.database).absolute()
        prepare_file(path)
        event.listen(engine, "do_connect", partial(_open_existing, path))
        event.listen(engine, "connect", partial(_note_file, path))
        event.listen(engine, "checkout", partial(_check_file, path))


def _open_existing(
    path: Path, _dialect: Dialect, _record: object, arguments: list[str], options: dict[str, object]
) -> None:
    """Open the file without creating it: a removed file would be created again, world-readable."""
    arguments[0], options["uri"] = f"{path.as_uri()}?mode=rw", True


def _note_file(path: Path, _connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_FILE] = _identity(path)


def _check_file(path: Path, _connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Leave a file that was removed or replaced: what would be written to it is lost."""
    if record.info.get(_FILE) != _identity(path):
        raise InvalidatePoolError


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open_again(context: ExceptionContext) -> None:
    """Open the file again after an error that may be over by then."""
    if getattr(context.original_exception, "sqlite_errorname", "").startswith(_LASTING):
        context.is_disconnect = True


def _configure(limits: TimeLimits, connection: DriverConnection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions are begun by _begin, not by the driver
    for pragma in (f"busy_timeout={int(limits.lock * 1000)}", *_PRAGMAS):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: a transaction that begins as a reader may fail to become a writer."""
    options = connection.get_execution_options()
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(WRITES, False) else "BEGIN")
            return
        except OperationalError as error:  # tried again, for a wait of SQLite's own cannot be interrupted
            if not options.get(WAITS) or not getattr(error.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                raise


class LockTimeout(SQLAlchemyTimeout):
    """Other writers have had the lock for too long."""


class WriteLock:
    """Admits one writer at a time, over all threads and processes, roughly first come, first served; it is reentrant.

    SQLite itself waits for its lock by trying again later, which can starve a writer.
    """

    def __init__(self, database: str | None, seconds: float = TimeLimits.lock) -> None:
        self._seconds = seconds
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._path = f"{database}.turn" if database and database != ":memory:" else None
        self._file: int | None = None
        self._queued: _QueuedLock | None = None

    def __enter__(self) -> None:
        """LockTimeout where it takes too long."""
        deadline = time.monotonic() + self._seconds
        if not self._thread_lock.acquire(timeout=self._seconds):
            raise self._timeout()
        try:
            if self._depth == 0 and self._path is not None:
                self._file = self._lock_file(self._path, deadline)
            self._depth += 1
        except BaseException:
            self._thread_lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)  # which releases the lock
            self._file = None
        self._thread_lock.release()

    def _lock_file(self, path: str, deadline: float) -> int | None:
        """The locked file; None without a file, where writers are merely served out of order."""
        while self._queued is None:
            try:
                file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            except OSError:
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                self._queued = _QueuedLock(file)
            except OSError:
                os.close(file)
                return None
        locked = self._queued.wait(deadline - time.monotonic())
        if locked is None and not self._queued.is_over:
            raise self._timeout()
        self._queued = None
        return self._lock_file(path, deadline) if locked is None else locked

    def _timeout(self) -> LockTimeout:
        return LockTimeout(f"other writers have had the database for {self._seconds:g} s")


class _QueuedLock:
    """A place in the queue for a file's lock, kept by a thread of its own: a wait for a lock has no time limit."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._changed = threading.Condition()
        self._is_wanted = True
        self._is_held = False
        self.is_over = False
        threading.Thread(target=self._stay, name="turn", daemon=True).start()

    def wait(self, seconds: float) -> int | None:
        """The locked file; None where that takes longer, and where it was released because no writer waited."""
        with self._changed:
            self._is_wanted = True
            self._changed.wait_for(lambda: self.is_over, seconds)
            self._is_wanted = False
            return self._file if self._is_held else None

    def _stay(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._changed:
            self.is_over = True
            self._is_held = self._is_wanted
            if not self._is_wanted:
                os.close(self._file)
            self._changed.notify()


def format_time(time: datetime | None) -> str | None:
    """A time in UTC as SQLite stores it; formatted here, for every row has several."""
    return None if time is None else time.replace(tzinfo=None).isoformat(" ", "microseconds")


def parse_time(text: str | None) -> datetime | None:
    """A stored time, in UTC."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def prepare_file(path: Path) -> None:
    """Create the file of a database, and its directory, for their owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # SQLite gives its other files the mode of this one
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
