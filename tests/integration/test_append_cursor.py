"""The end of a table that grows: each row is told of once, in whatever order they are committed."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, delete, insert

from admin.services.context import Context
from admin.store.cache import append_cursor as tails
from admin.store.cache.append_cursor import AppendCursor
from admin.store.fleet import cluster_events


def add(connection: Connection, context: Context, cluster: str, number: int | None = None) -> None:
    values = {"cluster": cluster, "at": context.clock(), "type": "READY"}
    connection.execute(insert(cluster_events).values(**values, **({} if number is None else {"number": number})))


def written(context: Context, cluster: str, number: int | None = None) -> None:
    with context.database.writing() as connection:
        add(connection, context, cluster, number)


def read(context: Context, tail: AppendCursor) -> set[str]:
    with context.database.reading() as connection:
        return tail.read(connection)


@pytest.fixture
def tail() -> AppendCursor:
    return AppendCursor(cluster_events.c.number, cluster_events.c.cluster)


def test_each_row_is_told_of_once_and_none_that_was_there_before(context: Context, tail: AppendCursor) -> None:
    written(context, "before")
    assert read(context, tail) == set()
    assert read(context, tail) == set()
    written(context, "a")
    written(context, "b")
    assert read(context, tail) == {"a", "b"}
    assert read(context, tail) == set()
    written(context, "a")
    assert read(context, tail) == {"a"}


def test_a_row_that_is_committed_after_a_higher_one_is_not_missed(context: Context, tail: AppendCursor) -> None:
    written(context, "first", 100)
    assert read(context, tail) == set()
    written(context, "high", 105)
    assert read(context, tail) == {"high"}
    written(context, "low", 102)
    assert read(context, tail) == {"low"}
    written(context, "lower", 101)
    written(context, "higher", 106)
    assert read(context, tail) == {"lower", "higher"}
    assert read(context, tail) == set()


def test_transactions_that_commit_out_of_order_are_all_told_of(context: Context, tail: AppendCursor) -> None:
    if context.database.engine.dialect.name == "sqlite":
        return  # one writer at a time commits in order
    with context.database.writing() as earlier:
        add(earlier, context, "began before the first look")
        written(context, "x")
        assert read(context, tail) == set()
    assert read(context, tail) == {"began before the first look"}
    with context.database.writing() as late:
        add(late, context, "late")
        written(context, "early")
        assert read(context, tail) == {"early"}
        assert read(context, tail) == set()
    assert read(context, tail) == {"late"}


def test_numbers_that_nobody_uses_are_not_looked_for_for_ever(
    context: Context, tail: AppendCursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(context, "first", 1)
    read(context, tail)
    written(context, "far", 50_000)
    assert read(context, tail) == {"far"}
    assert len(tail._missing) < 10_001
    monkeypatch.setattr(tails, "_LATE_SECONDS", 0.0)
    assert read(context, tail) == set()
    assert tail._missing == {}


def test_numbers_that_are_given_again_are_told_of_again(context: Context, tail: AppendCursor) -> None:
    for name in ("a", "b", "c"):
        written(context, name)
    assert read(context, tail) == set()
    with context.database.reading() as connection:
        assert not tail.is_cut(connection)
    with context.database.writing() as connection:
        connection.execute(delete(cluster_events))
    with context.database.reading() as connection:
        assert tail.is_cut(connection)
        assert not tail.is_cut(connection)
    written(context, "again", 1)
    assert read(context, tail) == {"again"}
