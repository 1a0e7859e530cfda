"""PostgreSQL: connections that may have been closed, advisory locks, and rows sent as one JSON document."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
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
