"""The database: one engine, and the ways to read and write by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, TypeVar

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import BigInteger, Column, Connection, DateTime, Dialect, Engine, Integer, MetaData, Table
from sqlalchemy.dialects import postgresql as postgresql_sql
from sqlalchemy.dialects import sqlite as sqlite_sql
from sqlalchemy.types import TypeDecorator

from admin.core.json_text import json_string, json_value
from admin.store.dialects import TimeLimits, is_sqlite, postgresql, sqlite
from admin.store.group_commit import GroupCommit

#: Constraint names are fixed, so that migrations can name them on every database.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
db = SQLAlchemy(metadata=metadata)

#: A number that the database assigns; SQLite does so only for its own INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")


def head_table(name: str, *others: Column[int]) -> Table:
    """A table with one row, whose number every change of something increments; `others` count something else."""
    number = Column("number", BigInteger, nullable=False)
    return Table(name, metadata, Column("id", Integer, primary_key=True), number, *others)


#: Items that are written in one transaction: the more of them, the longer other writers wait.
_MAX_ITEMS = 16

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Writes several items in one transaction, and returns the result of each.
Write = Callable[[Connection, list[Item]], list[Result]]


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC, also on databases that store no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        try:
            return value if value is None else value.astimezone(UTC)
        except OverflowError:  # within a day of the first or the last time there is
            return value and value.replace(tzinfo=UTC)

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], object] | None:
        if not is_sqlite(dialect):
            return super().bind_processor(dialect)
        return lambda value: sqlite.format_time(self.process_bind_param(value, dialect))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[str | None], datetime | None] | None:
        return sqlite.parse_time if is_sqlite(dialect) else None


class Database:
    """Transactions on one engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        fresh_seconds: float = postgresql.FRESH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        limits: TimeLimits | None = None,
    ) -> None:
        limits = limits or TimeLimits()
        self.engine = engine
        self.write_lock: AbstractContextManager[object] = nullcontext()  #: held by every writer
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)  #: the same for every admin of this database
        if is_sqlite(engine):
            self.write_lock = sqlite.WriteLock(engine.url.database, limits.lock)
            sqlite.set_up(engine, limits)
        else:
            postgresql.set_up(engine, fresh_seconds, clock, limits)
            self.clock = postgresql.ServerClock(engine)
        # Any, for one queue serves writes of every type of item.
        self._group_commit: GroupCommit[tuple[Write[Any, Any], Any], Any] = GroupCommit(
            self._write_all, _MAX_ITEMS, self.write_lock
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent snapshot of the whole database."""
        options = {} if is_sqlite(self.engine) else {"isolation_level": "REPEATABLE READ"}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """For single statements, each of which is a transaction of its own and costs one round trip."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed as a whole, or not at all."""
        with (
            self.write_lock,
            self.engine.connect().execution_options(**{sqlite.WRITES: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def transaction(self, *, dry_run: bool) -> AbstractContextManager[Connection]:
        """A transaction that writes; for a dry run one that only reads."""
        return self.reading() if dry_run else self.writing()

    def write(self, write: Write[Item, Result], item: Item) -> Result:
        """Write an item in one transaction, and one call, with those that other threads write at the same time.

        A write may be called twice: if it fails for several items, it is tried again for each.
        """
        result: Result = self._group_commit.submit([(write, item)])[0]
        return result

    def _write_all(self, submitted: list[tuple[Write[Any, Any], Any]]) -> list[Any]:
        items: dict[Write[Any, Any], list[Any]] = {}
        for write, item in submitted:
            items.setdefault(write, []).append(item)
        with self.writing() as connection:
            results = {write: iter(write(connection, batch)) for write, batch in items.items()}
        return [next(results[write]) for write, _ in submitted]


def is_writing(connection: Connection) -> bool:
    """Whether a transaction may write."""
    return bool(connection.get_execution_options().get(sqlite.WRITES, False))


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> int:
    """Insert the rows whose keys are not taken, and leave the others as they are; returns how many were new."""
    if not rows:
        return 0
    dialect = sqlite_sql if is_sqlite(connection) else postgresql_sql
    # Counted by the rows returned: a driver may not know how many rows were left out.
    insert = dialect.insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len(connection.execute(insert, rows).all())


def engine_options(pool_size: int, limits: TimeLimits) -> dict[str, object]:
    """How Flask-SQLAlchemy should build the engine."""
    return {
        "pool_size": pool_size,
        "max_overflow": pool_size,
        "pool_timeout": limits.lock,
        "hide_parameters": True,  # errors are logged, and parameters hold what users sent
        "json_serializer": json_string,
        "json_deserializer": json_value,
    }
