"""PostgreSQL: its clock, connections that may have been closed, advisory locks, rows sent as one JSON document."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from admin.store.dialects import is_postgresql
from admin.store.sql_types import TableColumn

_USED_AT = "rainbow_used_at"
#: A connection that was used within so many seconds is not checked before it is used again.
FRESH_SECONDS = 0.2
#: How often the server is asked for its time, and how far the machine's clock may move before it is asked again.
_CLOCK_SECONDS = 10.0
_CLOCK_STEP = 1.0


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

    def _on_checkout(self, connection: Any, _record: ConnectionPoolEntry, _proxy: object) -> None:
        """Ask the server for its time if that is due; the connection is the driver's."""
        begun_at = self._monotonic()
        machine_offset = self._machine_clock() - begun_at
        is_fresh = begun_at < self._measured_at + _CLOCK_SECONDS
        if self._offset is not None and is_fresh and abs(machine_offset - self._machine_offset) < _CLOCK_STEP:
            return
        try:
            with connection.cursor() as cursor:
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


def set_up(engine: Engine, fresh_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Check connections that were idle, so that a restarted database fails no request."""
    event.listen(engine, "checkin", partial(_note_use, clock))
    event.listen(engine, "checkout", partial(_check, engine.dialect, fresh_seconds, clock))


def _note_use(clock: Callable[[], float], _connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = clock()


def _check(
    dialect: Dialect,
    fresh_seconds: float,
    clock: Callable[[], float],
    connection: Any,  # the driver's, as SQLAlchemy's ping takes it
    record: ConnectionPoolEntry,
    _proxy: object,
) -> None:
    used_at = record.info.get(_USED_AT)
    if used_at is None or clock() < used_at + fresh_seconds:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def advisory_lock(key: int, *, shared: bool = False) -> str:
    """The SQL call that takes an advisory lock until the transaction ends."""
    return f"pg_advisory_xact_lock{'_shared' if shared else ''}({key})"


def take_advisory_lock(connection: Connection, key: int, *, shared: bool = False) -> None:
    """Take an advisory lock until the transaction ends; nothing on other databases."""
    if is_postgresql(connection):
        connection.exec_driver_sql(f"SELECT {advisory_lock(key, shared=shared)}")


def typed_columns(columns: Iterable[TableColumn], dialect: Dialect | None = None) -> str:
    """Columns with their types, as json_to_recordset takes them."""
    target = dialect or postgresql.dialect()  # type: ignore[no-untyped-call]
    quote = target.identifier_preparer.quote
    return ", ".join(f"{quote(column.name)} {column.type.compile(target)}" for column in columns)
