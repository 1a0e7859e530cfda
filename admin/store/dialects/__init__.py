"""What is special to each database: `sqlite`, embedded, and `postgresql`."""

from __future__ import annotations

from sqlalchemy import Connection, Dialect, Engine


def is_sqlite(bind: Engine | Connection | Dialect) -> bool:
    """Whether statements go to SQLite."""
    return _dialect(bind).name == "sqlite"


def is_postgresql(bind: Engine | Connection | Dialect) -> bool:
    """Whether statements go to PostgreSQL."""
    return _dialect(bind).name == "postgresql"


def _dialect(bind: Engine | Connection | Dialect) -> Dialect:
    return bind if isinstance(bind, Dialect) else bind.dialect
