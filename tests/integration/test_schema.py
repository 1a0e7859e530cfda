"""Migrations, on SQLite and on PostgreSQL."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, event

import admin.store
from admin.server import startup
from admin.store.database import Database, metadata
from admin.store.dialects import TimeLimits
from admin.store.dialects.sqlite import WRITES
from admin.store.schema import SchemaState, current_revision, latest_revision, migrate, schema_state
from tests.support.apps import opened_app
from tests.support.placing import get

for module in pkgutil.iter_modules(admin.store.__path__, "admin.store."):
    importlib.import_module(module.name)  # so that the metadata is complete


@pytest.fixture
def engine(database_url: str) -> Any:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def test_migrations_make_exactly_the_tables_that_the_code_uses(engine: Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def indexes(engine: Engine) -> set[str]:
    """The definitions of the indexes, without the quotes that SQLite adds when it copies a table."""
    is_sqlite = engine.dialect.name == "sqlite"
    table = "sqlite_master WHERE type = 'index' AND sql NOT NULL" if is_sqlite else "pg_indexes"
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"SELECT {'sql' if is_sqlite else 'indexdef'} FROM {table}").scalars()
        return {definition.replace('"', "") for definition in rows if " ix_" in definition}


def test_migrations_make_exactly_the_indexes_that_the_code_means(engine: Engine) -> None:
    migrate(engine)
    migrated = indexes(engine)
    migrate(engine, "base")
    metadata.create_all(engine)
    assert migrated == indexes(engine)


def test_migrations_go_up_down_and_up_again(engine: Engine) -> None:
    assert schema_state(engine) is SchemaState.EMPTY
    migrate(engine)
    assert (schema_state(engine), current_revision(engine)) == (SchemaState.CURRENT, latest_revision())
    migrate(engine)
    migrate(engine, "base")
    assert current_revision(engine) is None
    migrate(engine)
    assert schema_state(engine) is SchemaState.CURRENT


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_migration_waits_for_another_one_however_long_it_takes(engine: Engine) -> None:
    Database(engine, limits=TimeLimits(lock=0.1))
    assert schema_state(engine) is SchemaState.EMPTY
    with engine.connect().execution_options(**{WRITES: True}) as other, other.begin():
        thread = threading.Thread(target=migrate, args=(engine,))
        thread.start()
        thread.join(0.5)
        assert thread.is_alive(), "it gave up"
    thread.join()
    assert schema_state(engine) is SchemaState.CURRENT


def test_a_database_that_is_set_up_meanwhile_is_not_taken_for_that_of_others(engine: Engine, database_url: str) -> None:
    Database(engine)
    engine.connect().close()
    other = create_engine(database_url)

    event.listen(engine, "after_cursor_execute", lambda *_: migrate(other), once=True)
    assert schema_state(engine) in (SchemaState.EMPTY, SchemaState.CURRENT)
    assert schema_state(engine) is SchemaState.CURRENT
    other.dispose()


def test_admins_that_start_at_once_set_a_database_up_once(
    database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def migrate_together(engine: Engine) -> None:
        both.wait(60)  # each has found the database empty
        migrate(engine)

    def start(_number: int) -> list[str]:
        with opened_app(database_url) as app:
            return [project["id"] for project in get(app.test_client(), "projects")["projects"]]

    monkeypatch.setattr(startup, "migrate", migrate_together)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(start, range(2))) == [["flyteexamples", "flytesnacks"]] * 2
    assert schema_state(engine) is SchemaState.CURRENT


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_commit_of_a_migration_has_no_time_limit(engine: Engine) -> None:
    Database(engine)
    limits = []

    def note_limits(connection: Connection) -> None:
        driver_connection: Any = connection.connection.driver_connection
        limits.append(driver_connection.answer_seconds)

    event.listen(engine, "commit", note_limits)
    migrate(engine)
    with engine.begin():
        pass
    assert limits[0] is None
    assert limits[1] is not None, "other transactions are limited as before"


def test_a_schema_of_another_version_is_not_taken_for_ours(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert schema_state(engine) is SchemaState.UNKNOWN


def test_tables_that_are_not_ours_are_left_alone(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE cats (name TEXT)")
    assert schema_state(engine) is SchemaState.UNKNOWN
