"""PostgreSQL's planner statistics. It gathers them by itself, but up to a minute late where an empty table grows."""

from __future__ import annotations

from sqlalchemy import Connection, text

from admin.store.dialects import is_postgresql

#: Tables of more bytes than this are analyzed; a smaller one is quick by any plan.
_LARGE = 500_000

_NEVER_ANALYZED = text(
    "SELECT relname FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'"
    f" AND reltuples <= 0 AND pg_relation_size(oid) > {_LARGE} ORDER BY relname"
)


def tables_without_statistics(connection: Connection) -> list[str]:
    """Tables that have grown and were never analyzed."""
    if not is_postgresql(connection):
        return []
    return list(connection.execute(_NEVER_ANALYZED).scalars())


def analyze(connection: Connection, table: str) -> None:
    """Analyze a table."""
    quoted = connection.dialect.identifier_preparer.quote(table)
    connection.exec_driver_sql(f"ANALYZE {quoted}")
