"""Databases for tests: empty ones, and migrated ones, which are copies of a template."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy

from admin.store.database import Database
from admin.store.schema import migrate
from admin.testing import migrated_database

_TABLES = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
#: Tells whether tables, columns, indexes, triggers or settings were added or removed.
_STRUCTURE = """
    SELECT concat_ws(',', (SELECT count(*) FROM pg_class WHERE relpersistence <> 't'),
                     (SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped),
                     (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_proc),
                     (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_db_role_setting))
"""


class SqliteDatabases:
    """SQLite files, one in each directory."""

    def empty(self, directory: Path) -> str:
        return f"sqlite:///{directory / 'rainbow.db'}"

    def set_up(self, directory: Path) -> str:
        path = directory / "rainbow.db"
        path.touch(mode=0o600)
        path.write_bytes(migrated_database())
        return self.empty(directory)


class PostgresqlDatabases:
    """Databases of one server."""

    def __init__(self, server: str) -> None:
        self._server = server.rsplit("/", 1)[0]
        self._engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
        self._unused: list[str] = []  #: as the template is

    @contextmanager
    def borrowed(self) -> Iterator[str]:
        """A migrated database, emptied for the next one to borrow it: that costs a tenth of a new copy."""
        url = self._unused.pop() if self._unused else self.set_up()
        yield url
        if self._emptied(url):
            self._unused.append(url)

    def empty(self) -> str:
        return self._create("template1")

    def set_up(self) -> str:
        return self._create(self._template)

    def copy(self, url: str) -> str:
        """A copy of one of its databases, its statistics included; nobody may be connected to that."""
        return self._create(url.rsplit("/", 1)[1])

    @cached_property
    def _template(self) -> str:
        url = self.empty()
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        migrate(Database(engine).engine)
        engine.dispose()
        return url.rsplit("/", 1)[1]

    @cached_property
    def _emptying(self) -> str:
        """The statements that make the rows of a database those of the template."""
        rows = "SELECT coalesce(json_agg({0}), '[]')::text FROM {0}"
        with self._connected(f"{self._server}/{self._template}") as connection:
            tables = [table for (table,) in connection.execute(_TABLES)]
            filled = {table: _value(connection, rows.format(table)) for table in tables}
        insert = "INSERT INTO {0} SELECT * FROM json_populate_recordset(NULL::{0}, $rows${1}$rows$)"
        return ";".join(
            [
                # Rows that others refer to are deleted in any order.
                "SET session_replication_role = replica; SET lock_timeout = '1s'",
                *(f"DELETE FROM {table}" for table in tables),
                *(insert.format(table, rows) for table, rows in filled.items() if rows != "[]"),
                "SELECT setval(quote_ident(sequencename)::regclass, start_value, false) FROM pg_sequences",
            ]
        )

    @cached_property
    def _structure(self) -> str:
        with self._connected(f"{self._server}/{self._template}") as connection:
            return _value(connection, _STRUCTURE)

    def _emptied(self, url: str) -> bool:
        """Whether a database is as the template again; one that was changed otherwise than in its rows is not."""
        try:
            with self._connected(url) as connection:
                if _value(connection, _STRUCTURE) != self._structure:
                    return False
                connection.execute(self._emptying)
        except psycopg.Error:
            return False
        return True

    @contextmanager
    def _connected(self, url: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            yield connection

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        with self._engine.connect() as connection:
            # Copying files takes half the time of the default, and is what servers before PostgreSQL 15 do.
            strategy = "STRATEGY FILE_COPY" if (connection.dialect.server_version_info or ()) >= (15,) else ""
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")
        return f"{self._server}/{name}"


def _value(connection: psycopg.Connection[Any], query: str) -> str:
    """The one text that a query answers."""
    [(value,)] = connection.execute(query)
    return str(value)
