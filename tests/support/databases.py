"""Databases for tests: empty ones, and migrated ones, which are copies of a template."""

from __future__ import annotations

import secrets
from functools import cached_property
from pathlib import Path

import sqlalchemy

from admin.store.database import Database
from admin.store.schema import migrate
from admin.testing import migrated_database


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

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        with self._engine.connect() as connection:
            # Copying files takes half the time of the default, and is what servers before PostgreSQL 15 do.
            strategy = "STRATEGY FILE_COPY" if (connection.dialect.server_version_info or ()) >= (15,) else ""
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")
        return f"{self._server}/{name}"
