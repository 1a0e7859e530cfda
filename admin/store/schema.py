"""The state of the schema, and its migrations."""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

from admin.store.dialects.postgresql import take_advisory_lock, unlimited
from admin.store.dialects.sqlite import WAITS, WRITES

#: The advisory lock of migrations: one admin migrates, the others wait.
_LOCK = 727_001
#: Where Alembic keeps the schema revision of a database.
_VERSION_TABLE = "alembic_version"
_VERSION = text(f"SELECT version_num FROM {_VERSION_TABLE}")


class SchemaState(Enum):
    """What an admin finds when it opens a database."""

    EMPTY = "empty"  # no tables at all
    CURRENT = "current"  # what this version works with
    BEHIND = "behind"  # made by an older version
    UNKNOWN = "unknown"  # made by a newer version, or by something else


@cache
def latest_revision() -> str:
    """The schema revision that this version works with."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def known_revisions() -> list[str]:
    """Every schema revision that this version knows, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def current_revision(engine: Engine) -> str | None:
    """The schema revision that a database is at."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def schema_state(engine: Engine) -> SchemaState:
    """Whether this version can work with a database as it is."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        # Alembic's own look at the version takes ten times as long as the query.
        current = connection.execute(_VERSION).scalar() if _VERSION_TABLE in tables else None
    if current is None:
        return SchemaState.UNKNOWN if tables else SchemaState.EMPTY
    if current == latest_revision():
        return SchemaState.CURRENT
    return SchemaState.BEHIND if current in known_revisions() else SchemaState.UNKNOWN


def migrate(engine: Engine, to: str = "head") -> None:
    """Migrate a database to a schema revision, up or down; one admin at a time."""
    with (
        engine.connect().execution_options(**{WRITES: True, WAITS: True}) as connection,
        connection.begin() as transaction,
        unlimited(connection),
    ):
        take_advisory_lock(connection, _LOCK)
        config = _config()
        config.attributes["connection"] = connection
        scripts = ScriptDirectory.from_config(config)
        current = MigrationContext.configure(connection).get_current_revision()
        target = scripts.get_current_head() if to == "head" else to
        older = {script.revision for script in scripts.iterate_revisions(current, "base")} if current else set()
        is_downgrade = to == "base" or (target in older and target != current)
        (command.downgrade if is_downgrade else command.upgrade)(config, to)
        transaction.commit()  # without a time limit either


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
