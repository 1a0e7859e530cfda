"""Databases for tests: empty ones, and migrated ones, which are copies of a template."""

from __future__ import annotations

import secrets
import shutil
from functools import cached_property
from pathlib import Path

import sqlalchemy

from admin.store.database import Database
from admin.store.schema import migrate


class SqliteDatabases:
    """SQLite files; the template lies in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def empty(self, directory: Path) -> str:
        return f"sqlite:///{directory / 'rainbow.db'}"

    def set_up(self, directory: Path) -> str:
        shutil.copy(self._template, directory / "rainbow.db")
        return self.empty(directory)

    @cached_property
    def _template(self) -> Path:
        _migrate(self.empty(self._directory))
        return self._directory / "rainbow.db"


class PostgresqlDatabases:
    """Databases of one server."""

    def __init__(self, server: str) -> None:
        self._server = server.rsplit("/", 1)[0]
        self._engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)

    def empty(self) -> str:
        return self._create("template1")

    def set_up(self) -> str:
        return self._create(self._template)

    @cached_property
    def _template(self) -> str:
        url = self.empty()
        _migrate(url)
        return url.rsplit("/", 1)[1]

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        with self._engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"{self._server}/{name}"


def _migrate(url: str) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    migrate(Database(engine).engine)
    engine.dispose()
