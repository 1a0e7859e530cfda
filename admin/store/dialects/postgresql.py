"""PostgreSQL: its clock, connections and their time limits, advisory locks, rows sent as one JSON document."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from admin.store.dialects import TimeLimits, is_postgresql
from admin.store.sql_types import TableColumn

#: Any, because the driver is an extra, which need not be installed, or another than psycopg.
DriverConnection = Any
DriverCursor = Any

_USED_AT = "rainbow_used_at"
#: A connection that was used within so many seconds is not checked before it is used again.
FRESH_SECONDS = 0.2
#: How often the server is asked for its time, and how far the machine's clock may move before it is asked again.
_CLOCK_SECONDS = 10.0
_CLOCK_STEP = 1.0
#: How much longer than the server's own limit an answer is waited for.
_GRACE_SECONDS = 5
_READ_ONLY = "25006"
#: An execution option of a statement: SQL that is sent ahead of it in the same message. The statement sees everything
#: that was committed before the SQL ahead was done.
AHEAD = "rainbow_ahead"


class ServerClock:
    """The server's time: one clock for all admins of a database, whatever the clocks of their machines say.

    It is measured when a connection is taken from the pool, at most every ten seconds unless the machine's clock moved
    against the monotonic one, and runs on by the monotonic clock in between, also while the server is away.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        machine_clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._machine_clock = machine_clock
        self._offset: float | None = None  #: the server's time less the monotonic clock, once it was measured
        self._measured_at = 0.0
        self._machine_offset = 0.0  #: the machine's time less the monotonic clock at the measurement
        event.listen(engine, "checkout", self._on_checkout)

    def __call__(self) -> datetime:
        if self._offset is None:
            with self._engine.connect():  # which measures it
                pass
        assert self._offset is not None
        return datetime.fromtimestamp(self._monotonic() + self._offset, UTC)

    def _on_checkout(self, connection: DriverConnection, _record: ConnectionPoolEntry, _proxy: object) -> None:
        """Ask the server for its time if that is due; the connection is the driver's."""
        begun_at = self._monotonic()
        machine_offset = self._machine_clock() - begun_at
        is_fresh = begun_at < self._measured_at + _CLOCK_SECONDS
        if self._offset is not None and is_fresh and abs(machine_offset - self._machine_offset) < _CLOCK_STEP:
            return
        try:
            with _soon(connection), connection.cursor() as cursor:
                cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
                [seconds] = cursor.fetchone()
            connection.rollback()  # ends the transaction that the driver began
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error
        ended_at = self._monotonic()
        earliest, latest = seconds - ended_at, seconds - begun_at
        if self._offset is None or not earliest <= self._offset <= latest:  # else it is as exact as the new one
            self._offset = (earliest + latest) / 2
        self._measured_at, self._machine_offset = ended_at, machine_offset


def set_up(
    engine: Engine, fresh_seconds: float, clock: Callable[[], float] = time.monotonic, limits: TimeLimits | None = None
) -> None:
    """Limit what takes time, and check connections that were idle, so that a restarted database fails no request."""
    limits = limits or TimeLimits()
    event.listen(engine, "do_connect", partial(_connect, limits))
    event.listen(engine, "connect", partial(_limit, limits))
    event.listen(engine, "checkin", partial(_note_use, clock))
    event.listen(engine, "checkout", partial(_check, engine.dialect, fresh_seconds, clock))
    event.listen(engine, "handle_error", _leave_standby)
    event.listen(engine, "do_execute", _execute_after)


def _connect(
    limits: TimeLimits,
    dialect: Dialect,
    _record: ConnectionPoolEntry,
    arguments: Iterable[str],
    parameters: dict[str, object],
) -> DriverConnection | None:
    parameters.setdefault("connect_timeout", int(limits.connect))
    if dialect.driver != "psycopg":
        return None  # the driver connects by itself
    connection = _timed_connection().connect(*arguments, **parameters)
    connection.answer_seconds = limits.statement + _GRACE_SECONDS
    connection.soon_seconds = limits.connect
    return connection


@cache
def _timed_connection() -> type[DriverConnection]:
    """The driver's connection, which gives up a server that has fallen silent; the driver may not be installed."""
    import psycopg

    class TimedConnection(psycopg.Connection[Any]):
        answer_seconds: float | None = None
        soon_seconds: float | None = None  #: for what takes a server that is well no time
        has_pipeline = psycopg.Pipeline.is_supported()  #: whether several statements can be sent in one message

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # as psycopg has it
            try:
                return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)
            except psycopg.OperationalError as error:
                is_active = self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE
                if is_active and error.sqlstate is None:  # the answer is still to come
                    self.close()
                raise

    return TimedConnection


def _limit(limits: TimeLimits, connection: DriverConnection, _record: ConnectionPoolEntry) -> None:
    """Set the server's limits; it also ends a transaction whose client has stopped in the middle of it.

    No query here takes as long as the server would take to compile one, which it does where it expects much work.
    """
    statement, lock = (int(seconds * 1000) for seconds in (limits.statement, limits.lock))
    try:
        connection.autocommit = True  # what a transaction sets goes with it when it is rolled back
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT set_config('statement_timeout', '{statement}', false),"
                f" set_config('idle_in_transaction_session_timeout', '{statement}', false),"
                f" set_config('lock_timeout', '{lock}', false), set_config('jit', 'off', false)"
            )
        connection.autocommit = False
    except BaseException:
        connection.close()  # SQLAlchemy does not close what it cannot set up
        raise


@contextmanager
def unlimited(connection: Connection) -> Iterator[None]:
    """Let a transaction take as long as it needs; nothing on other databases."""
    if not is_postgresql(connection):
        yield
        return
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {name} = 0")
    with _answering(connection.connection.driver_connection, None):
        yield


@contextmanager
def answering_soon(connection: Connection) -> Iterator[None]:
    """Wait for each answer no longer than connecting may take; nothing on other databases."""
    with _soon(connection.connection.driver_connection) if is_postgresql(connection) else nullcontext():
        yield


def _soon(connection: DriverConnection) -> AbstractContextManager[None]:
    return _answering(connection, getattr(connection, "soon_seconds", None))


@contextmanager
def _answering(connection: DriverConnection, seconds: float | None) -> Iterator[None]:
    """Wait for each answer so many seconds at most; the connection is the driver's, and other drivers have no limit."""
    if not hasattr(connection, "answer_seconds"):
        yield
        return
    before, connection.answer_seconds = connection.answer_seconds, seconds
    try:
        yield
    finally:
        connection.answer_seconds = before


def _execute_after(
    cursor: DriverCursor, statement: str, parameters: object, context: ExecutionContext | None
) -> bool | None:
    """Execute a statement together with the SQL ahead of it; None where there is none."""
    ahead = context and context.execution_options.get(AHEAD)
    if ahead is None:
        return None
    connection = cursor.connection
    has_pipeline = getattr(connection, "has_pipeline", False)
    with connection.pipeline() if has_pipeline else nullcontext(), connection.cursor() as first:
        first.execute(ahead)
        cursor.execute(statement, parameters)
    return True


def _leave_standby(context: ExceptionContext) -> None:
    """Connect again after a server has become a standby: the one that can be written may be another."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _note_use(clock: Callable[[], float], _connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = clock()


def _check(
    dialect: Dialect,
    fresh_seconds: float,
    clock: Callable[[], float],
    connection: DriverConnection,
    record: ConnectionPoolEntry,
    _proxy: object,
) -> None:
    used_at = record.info.get(_USED_AT)
    if used_at is None or clock() < used_at + fresh_seconds:
        return
    try:
        with _soon(connection):
            dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def advisory_lock(key: int, *, shared: bool = False) -> str:
    """The SQL call that takes an advisory lock until the transaction ends."""
    return f"pg_advisory_xact_lock{'_shared' if shared else ''}({key})"


def take_advisory_lock(connection: Connection, key: int) -> None:
    """Take an advisory lock until the transaction ends; nothing on other databases."""
    if is_postgresql(connection):
        connection.exec_driver_sql(f"SELECT {advisory_lock(key)}")


def typed_columns(columns: Iterable[TableColumn], dialect: Dialect | None = None) -> str:
    """Columns with their types, as json_to_recordset takes them."""
    target = dialect or postgresql.dialect()  # type: ignore[no-untyped-call]
    quote = target.identifier_preparer.quote
    return ", ".join(f"{quote(column.name)} {column.type.compile(target)}" for column in columns)
