"""What a failure of the database means to the caller."""

from __future__ import annotations

from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    InterfaceError,
    InternalError,
    InvalidRequestError,
    OperationalError,
    PendingRollbackError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeout

from admin.errors import (
    Conflict,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReadOnly,
    InvalidRequest,
    RainbowError,
    Unavailable,
)

#: By the beginning of PostgreSQL's SQLSTATE or of the name of SQLite's error; the first that fits counts.
_BY_CODE: tuple[tuple[str, type[RainbowError]], ...] = (
    ("25006", DatabaseReadOnly),
    ("25", DatabaseBusy),  # a transaction that the server has ended
    ("40", DatabaseBusy),  # deadlocks and other conflicts of transactions
    ("53100", DatabaseFull),
    ("53", DatabaseBusy),  # memory, connections
    ("55P03", DatabaseBusy),  # a lock
    ("57014", DatabaseBusy),  # a statement
    ("0A000", DatabaseBusy),  # a prepared statement from before a migration
    ("26000", DatabaseBusy),
    ("3D000", DatabaseDamaged),  # there is no such database, schema, table or column
    ("3F000", DatabaseDamaged),
    ("42P01", DatabaseDamaged),
    ("42703", DatabaseDamaged),
    ("42501", DatabaseDamaged),  # rights
    ("XX", DatabaseDamaged),
    ("SQLITE_READONLY", DatabaseReadOnly),
    ("SQLITE_FULL", DatabaseFull),
    ("SQLITE_CANTOPEN", DatabaseDamaged),  # the file is gone, or may not be opened
    ("SQLITE_IOERR_WRITE", DatabaseReadOnly),  # the file may only be read since it was opened
    ("SQLITE_IOERR", DatabaseDamaged),
    ("SQLITE_CORRUPT", DatabaseDamaged),
    ("SQLITE_NOTADB", DatabaseDamaged),
    ("SQLITE_BUSY", DatabaseBusy),
    ("SQLITE_LOCKED", DatabaseBusy),
    ("SQLITE_TOOBIG", InvalidRequest),
    ("SQLITE_ERROR", DatabaseDamaged),  # there is no such table or column: the file is not the one that it was
)
_BY_TYPE: tuple[tuple[type[SQLAlchemyError], type[RainbowError]], ...] = (
    (IntegrityError, Conflict),
    (DataError, InvalidRequest),
    (SQLAlchemyTimeout, DatabaseBusy),
    (OperationalError, Unavailable),
    (InterfaceError, Unavailable),
    (InternalError, Unavailable),
    (DisconnectionError, Unavailable),
    (PendingRollbackError, Unavailable),
)
_MESSAGES: dict[type[RainbowError], str] = {
    Conflict: "Something else was changed at the same time. Try again.",
    InvalidRequest: "The database cannot store a value. Check the request for control characters and huge values.",
}


def explain(failure: SQLAlchemyError) -> RainbowError | None:
    """The error that answers a failure of the database; None for one that is a mistake in the admin itself."""
    kind = _kind(failure)
    return None if kind is None else kind(_MESSAGES.get(kind, ""))


def _kind(failure: SQLAlchemyError) -> type[RainbowError] | None:
    cause = failure.orig if isinstance(failure, DBAPIError) else None
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
    for beginning, kind in _BY_CODE:
        if code.startswith(beginning):
            return kind
    for failure_type, kind in _BY_TYPE:
        if isinstance(failure, failure_type):
            return kind
    if type(failure) in (DatabaseError, InvalidRequestError):  # a class for errors without one; no connection worked
        return Unavailable
    return None
