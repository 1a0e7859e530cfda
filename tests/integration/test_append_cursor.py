"""Append cursors: each new row is reported once, in whatever order rows are committed."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, delete, insert

from admin.services.context import Context
from admin.store.cache.append_cursor import AppendCursor
from admin.store.fleet_tables import cluster_events


def add(connection: Connection, context: Context, cluster: str, number: int | None = None) -> None:
    values = {"cluster": cluster, "at": context.clock(), "type": "READY"}
    connection.execute(insert(cluster_events).values(**values, **({} if number is None else {"number": number})))


def write(context: Context, cluster: str, number: int | None = None) -> None:
    with context.database.writing() as connection:
        add(connection, context, cluster, number)


def read(context: Context, cursor: AppendCursor) -> set[str]:
    with context.database.reading() as connection:
        return cursor.read(connection)


@pytest.fixture
def cursor() -> AppendCursor:
    return AppendCursor(cluster_events.c.number, cluster_events.c.cluster)


def test_each_new_row_is_reported_once(context: Context, cursor: AppendCursor) -> None:
    write(context, "before")
    assert read(context, cursor) == set()
    assert read(context, cursor) == set()
    write(context, "a")
    write(context, "b")
    assert read(context, cursor) == {"a", "b"}
    assert read(context, cursor) == set()
    write(context, "a")
    assert read(context, cursor) == {"a"}


def test_a_row_that_is_committed_after_a_higher_one_is_not_missed(context: Context, cursor: AppendCursor) -> None:
    write(context, "first", 100)
    assert read(context, cursor) == set()
    write(context, "high", 105)
    assert read(context, cursor) == {"high"}
    write(context, "low", 102)
    assert read(context, cursor) == {"low"}
    write(context, "lower", 101)
    write(context, "higher", 106)
    assert read(context, cursor) == {"lower", "higher"}
    assert read(context, cursor) == set()


def test_transactions_that_commit_out_of_order_are_all_reported(context: Context, cursor: AppendCursor) -> None:
    if context.database.engine.dialect.name == "sqlite":
        return  # one writer at a time commits in order
    with context.database.writing() as earlier:
        add(earlier, context, "began before the first look")
        write(context, "x")
        assert read(context, cursor) == set()
    assert read(context, cursor) == {"began before the first look"}
    with context.database.writing() as late:
        add(late, context, "late")
        write(context, "early")
        assert read(context, cursor) == {"early"}
        assert read(context, cursor) == set()
    assert read(context, cursor) == {"late"}


def test_skipped_numbers_are_looked_for_only_for_some_time(context: Context) -> None:
    now = [100.0]
    cursor = AppendCursor(cluster_events.c.number, cluster_events.c.cluster, late_seconds=10, clock=lambda: now[0])
    write(context, "first", 1)
    read(context, cursor)
    write(context, "far", 50_000)
    assert read(context, cursor) == {"far"}
    assert 0 < cursor.missing < 10_001
    now[0] += 9
    read(context, cursor)
    assert cursor.missing > 0
    now[0] += 1
    assert read(context, cursor) == set()
    assert cursor.missing == 0


def test_numbers_that_are_assigned_again_are_reported_again(context: Context, cursor: AppendCursor) -> None:
    for name in ("a", "b", "c"):
        write(context, name)
    assert read(context, cursor) == set()
    with context.database.reading() as connection:
        assert not cursor.is_cut(connection)
    with context.database.writing() as connection:
        connection.execute(delete(cluster_events))
    with context.database.reading() as connection:
        assert cursor.is_cut(connection)
        assert not cursor.is_cut(connection)
    write(context, "again", 1)
    assert read(context, cursor) == {"again"}
