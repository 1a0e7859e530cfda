"""Statistics that PostgreSQL plans by. It gathers them itself, but a minute late where a table grows from nothing."""

from __future__ import annotations

from sqlalchemy import Connection, text

#: A table of so many bytes is worth a look; whatever plan a database has for a smaller one, it is quick.
_LARGE = 500_000

_UNKNOWN = text(
    "SELECT relname FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'"
    f" AND reltuples <= 0 AND pg_relation_size(oid) > {_LARGE} ORDER BY relname"
)


def unknown_tables(connection: Connection) -> list[str]:
    """Tables that have grown, and of which the database knows nothing yet."""
    if connection.dialect.name != "postgresql":
        return []
    return list(connection.execute(_UNKNOWN).scalars())


def gather(connection: Connection, table: str) -> None:
    """Let the database look at a table."""
    quoted = connection.dialect.identifier_preparer.quote(table)
    connection.exec_driver_sql(f"ANALYZE {quoted}")
