"""Many rows in one statement: stored as if each had been stored alone; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import JSON, Boolean, Column, Connection, Float, Integer, Table, Text, insert, select

from admin.store.batches import Insertion, insert_all, update_all, write_together
from admin.store.database import RowId, UtcDateTime, metadata
from tests.support.apps import context_of

things = Table(
    "batched_things",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("text", Text),
    Column("number", Integer),
    Column("measure", Float),
    Column("flag", Boolean),
    Column("at", UtcDateTime),
    Column("document", JSON(none_as_null=True)),
    Column("by", Text),  # a word of SQL's own
    Column("other", Text, server_default="as it was"),
)
metadata.remove(things)  # no part of the schema

AT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "text": "plain", "number": 1, "measure": 1.5, "flag": True, "at": AT, "document": ["n1"], "by": "me"},
    {
        "id": 2,
        "text": "'quoted' \"twice\" \\ %s %(x)s ? :x\n\t\N{SNOWMAN}\U0001f600 null",
        "number": -(2**31),
        "measure": 7.0,
        "flag": False,
        "at": AT.astimezone(timezone(timedelta(hours=-5))),
        "document": {"a": [1, None, {"b": "\N{SNOWMAN}'"}], "c": 0.1},
        "by": "",
    },
    {
        "id": 2**40,
        "text": None,
        "number": None,
        "measure": None,
        "flag": None,
        "at": None,
        "document": None,
        "by": None,
    },
]


@pytest.fixture
def connection(shared_app: Flask) -> Iterator[Connection]:
    context = context_of(shared_app)
    things.create(context.database.engine)
    with context.database.writing() as connection:
        yield connection
    things.drop(context.database.engine)


def stored(connection: Connection) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(select(things).order_by(things.c.id))]


def test_rows_are_stored_as_if_one_by_one(connection: Connection) -> None:
    insert_all(connection, things, ROWS)
    together = stored(connection)
    connection.execute(things.delete())
    for row in ROWS:
        connection.execute(insert(things), row)
    assert together == stored(connection) == [{**row, "other": "as it was"} for row in ROWS]


@pytest.mark.parametrize("text", ["plain", "a\0b"])  # PostgreSQL takes no NUL, in whatever statement
def test_rows_of_several_insertions_are_stored_together(connection: Connection, text: str) -> None:
    later = [{**ROWS[0], "id": 7, "document": {"key": text}}]
    write_together(
        connection,
        [Insertion(table=things, rows=ROWS), Insertion(table=things, rows=[]), Insertion(table=things, rows=later)],
    )
    assert [(row["id"], row["document"]) for row in stored(connection)] == [
        (1, ROWS[0]["document"]),
        (2, ROWS[1]["document"]),
        (7, {"key": text}),
        (2**40, None),
    ]
    write_together(connection, [Insertion(table=things, rows=[{**row, "by": "new"} for row in ROWS], replaces=True)])
    assert [row["by"] for row in stored(connection)] == ["new", "new", "me", "new"]


def test_rows_are_changed_each_to_its_own_and_nothing_else_is(connection: Connection) -> None:
    connection.execute(insert(things), [{"id": row["id"]} for row in ROWS] + [{"id": 99}])
    update_all(connection, things, ROWS)
    untouched = {**dict.fromkeys(ROWS[0]), "id": 99, "other": "as it was"}
    expected = [{**row, "other": "as it was"} for row in ROWS]
    assert stored(connection) == sorted([*expected, untouched], key=lambda row: row["id"])
    update_all(connection, things, [{"other": "new", "id": 1}, {"id": 99, "other": None}, {"id": 12345, "other": "x"}])
    assert [row["other"] for row in stored(connection)] == ["new", "as it was", None, "as it was"]


def test_no_rows_are_nothing_to_do(connection: Connection) -> None:
    insert_all(connection, things, [])
    update_all(connection, things, [])
    assert stored(connection) == []
