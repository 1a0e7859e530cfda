"""Migrations, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine

from admin.store import attributes, decisions, executions, fleet, loop_leases, projects, registrations, revisions
from admin.store.database import metadata
from admin.store.schema import SchemaState, current_revision, latest_revision, migrate, schema_state

#: Imported, so that the metadata is complete.
TABLES = (attributes, decisions, executions, fleet, loop_leases, projects, registrations, revisions)


@pytest.fixture
def engine(database_url: str) -> Any:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def test_migrations_make_exactly_the_tables_that_the_code_uses(engine: Engine) -> None:
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrations_go_up_down_and_up_again(engine: Engine) -> None:
    assert schema_state(engine) is SchemaState.EMPTY
    migrate(engine)
    assert (schema_state(engine), current_revision(engine)) == (SchemaState.CURRENT, latest_revision())
    migrate(engine)
    migrate(engine, "base")
    assert current_revision(engine) is None
    migrate(engine)
    assert schema_state(engine) is SchemaState.CURRENT


def test_a_schema_of_another_version_is_not_taken_for_ours(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert schema_state(engine) is SchemaState.UNKNOWN


def test_tables_that_are_not_ours_are_left_alone(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE cats (name TEXT)")
    assert schema_state(engine) is SchemaState.UNKNOWN
