"""Finished executions with their decisions and events, generated in the database: as many as years of use leave."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from bench import stock

PROJECTS = 20
#: Executions in one statement.
_AT_ONCE = 500_000
#: Runs a statement and answers its rows.
_Run = Callable[[str], list[tuple[Any, ...]]]

_CONTENT = {
    "job": stock.JOB,
    "config": {"max_parallelism": 7, "interruptible": True},
    "queue": "default_queue",
    "quality_of_service": {"tier": "MEDIUM"},
    "plugins": {},
    "retry": {},
    "attributes": {"WORKFLOW_PRIORITY": {"priority": 50}},
    "inputs": {},
}
_TEAM = stock.project_name("")
_FLOW = stock.workflow_name("")
_PLAN = stock.plan_name("")
#: Each column's value for the n-th execution. Half of them came through launch plans; one in twenty failed.
_EXECUTION = {
    "id": "n",
    "project": f"'{_TEAM}' || (n % {PROJECTS})",
    "domain": "CASE n % 3 WHEN 0 THEN 'development' WHEN 1 THEN 'staging' ELSE 'production' END",
    "name": "<scattered>",
    "digest": "<scattered>",
    "request": f"""'{json.dumps({"spec": {"job": stock.JOB}})}'""",
    "workflow": f"CASE n % 2 WHEN 0 THEN '{_FLOW}' || (n / 2 % {stock.WORKFLOWS}) ELSE '' END",
    "launch_plan": f"CASE n % 2 WHEN 0 THEN '{_PLAN}' || (n / 2 % {stock.WORKFLOWS}) ELSE '' END",
    "version": "'v1'",
    "launched": "'{}'",
    "mode": "'MANUAL'",
    "phase": "CASE n / 13 % 20 WHEN 7 THEN 'FAILED' ELSE 'SUCCEEDED' END",
    "reason": "CASE n / 13 % 20 WHEN 7 THEN 'FAILED' ELSE 'SUCCEEDED' END",
    "reason_message": "'It ended.'",
    "state": "'ACTIVE'",
    "route_kind": "'pool'",
    "route_name": "'batch'",
    "cluster": f"'cluster-' || (n / 7 % {stock.CLUSTERS})",
    "pool": "CASE n % 5 WHEN 0 THEN 'training' ELSE 'batch' END",
    "content": f"'{json.dumps(_CONTENT)}'",
    "required_plugins": "'[]'",
    **{f"demand_{resource}": "1" for resource in ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")},
    **dict.fromkeys(("revision", "attempt", "decisions"), "1"),
    "events": "3",
    **dict.fromkeys(("created_at", "updated_at", "started_at", "finished_at"), "<time>"),
    "duration": "60.0",
    "tier": "1",
    "priority": "50",
}
_DECISION = {
    "execution_id": "n",
    "number": "1",
    "decided_at": "<time>",
    "cluster": _EXECUTION["cluster"],
    "reason": "'ASSIGNED'",
    "reason_message": "'Drawn by weight among 20 clusters.'",
    "because": "'created'",
    "revision": "1",
    "settings_trail": "'finished'",
    "placement_trail": "'finished'",
}


def _event(number: int, kind: str, phase: str) -> dict[str, str]:
    return {
        "execution_id": "n",
        "number": str(number),
        "at": "<time>",
        "type": f"'{kind}'",
        "phase": f"'{phase}'",
        "reason": f"'{kind}'",
        "cluster": _EXECUTION["cluster"],
    }


_TABLES = [
    ("executions", _EXECUTION),
    ("decisions", _DECISION),
    ("execution_events", _event(1, "CREATED", "QUEUED")),
    ("execution_events", _event(2, "RUNNING", "RUNNING")),
    ("execution_events", _event(3, "SUCCEEDED", "SUCCEEDED")),
]
#: How each database generates numbers, random-looking names and times, one execution every half second.
_WORDS = {
    "postgresql": {
        "<numbers>": "generate_series(<first>::bigint, <last>::bigint) AS numbers(n)",
        "<scattered>": "'a' || substr(md5(n::text), 1, 19)",
        "<time>": "now() - (<count> - n) * interval '0.5 s'",
    },
    "sqlite": {
        "<numbers>": "(WITH RECURSIVE numbers(n) AS (SELECT <first> UNION ALL SELECT n + 1 FROM numbers"
        " WHERE n < <last>) SELECT n FROM numbers)",
        "<scattered>": "printf('a%08x%011x', n * 2654435761 % 4294967296, n)",
        "<time>": "strftime('%Y-%m-%d %H:%M:%f000', 'now', (-0.5 * (<count> - n)) || ' seconds')",
    },
}


def add_finished(database: str, count: int) -> None:
    """Store so many finished executions in a database that has none."""
    if count == 0:
        return
    is_sqlite = make_url(database).get_backend_name() == "sqlite"
    words = _WORDS["sqlite" if is_sqlite else "postgresql"]
    with _sqlite(database) if is_sqlite else _postgresql(database) as run:
        run("INSERT INTO trails (digest, body) VALUES ('finished', '{}')")
        for first in range(1, count + 1, _AT_ONCE):
            limits = {"<first>": first, "<last>": min(first + _AT_ONCE - 1, count), "<count>": count}
            for table, columns in _TABLES:
                run(_insert(table, columns, {**words, **limits}))


def _insert(table: str, columns: dict[str, str], words: dict[str, Any]) -> str:
    values = ", ".join(columns.values())
    statement = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM <numbers>"
    for word, meaning in words.items():
        statement = statement.replace(word, str(meaning))
    return statement


@contextmanager
def _without_indexes(run: _Run, indexes_query: str) -> Iterator[None]:
    """Drop the indexes that a query lists with their definitions, and create them at the end: that is quicker."""
    indexes = run(indexes_query)
    for name, _ in indexes:
        run(f"DROP INDEX {name}")
    yield
    for _, definition in indexes:
        run(definition)


@contextmanager
def _sqlite(database: str) -> Iterator[_Run]:
    """A connection that does not wait for the disk."""
    connection = sqlite3.connect(make_url(database).database or "", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=OFF", "cache_size=-500000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")

    def run(statement: str) -> list[tuple[Any, ...]]:
        return connection.execute(statement).fetchall()

    indexes_query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions' AND sql IS NOT NULL"
    )
    with _without_indexes(run, indexes_query):
        yield run
    run("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@contextmanager
def _postgresql(database: str) -> Iterator[_Run]:
    """The same without checks of foreign keys; tables are vacuumed and analyzed at the end."""
    plain = make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as server:

        def run(statement: str) -> list[tuple[Any, ...]]:
            cursor = server.execute(statement)
            return cursor.fetchall() if cursor.description else []

        for setting in (
            "session_replication_role = replica",
            "synchronous_commit = off",
            "maintenance_work_mem = '1GB'",
        ):
            run(f"SET {setting}")
        indexes_query = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'executions' AND indexname LIKE 'ix%'"
        )
        with _without_indexes(run, indexes_query):
            yield run
        run("SELECT setval(pg_get_serial_sequence('executions', 'id'), max(id)) FROM executions")
        run("VACUUM ANALYZE executions, decisions, execution_events")
        run("CHECKPOINT")
