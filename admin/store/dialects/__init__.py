"""What is special to each database: `sqlite`, embedded, and `postgresql`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Dialect, Engine


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """How many seconds something of the database may take."""

    connect: float = 5
    statement: float = 30
    lock: float = 10  #: the wait for a lock, or for a free connection


def is_sqlite(bind: Engine | Connection | Dialect) -> bool:
    """Whether statements go to SQLite."""
    return _dialect(bind).name == "sqlite"


def is_postgresql(bind: Engine | Connection | Dialect) -> bool:
    """Whether statements go to PostgreSQL."""
    return _dialect(bind).name == "postgresql"


def _dialect(bind: Engine | Connection | Dialect) -> Dialect:
    return bind if isinstance(bind, Dialect) else bind.dialect
