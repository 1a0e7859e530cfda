"""Active launch plans are found by indexes of their own, however many versions there are, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert

from admin.store import active_plans, scopes
from admin.store.registration_tables import launch_plans
from admin.store.schema import migrate

SLOW_ON = ("postgresql",)

PLANS, VERSIONS = 20, 100
QUERIES: dict[str, tuple[str, Callable[[Connection], Any]]] = {
    "containing": (
        "ix_launch_plans_active",
        lambda c: active_plans.containing(c, ["gpu"], ("p", "d", "a"), 10),
    ),
    "of names": ("ix_launch_plans_active", lambda c: active_plans.of_places(c, [("p", "d", "plan3")])),
    "of workflows": (
        "ix_launch_plans_active_workflow",
        lambda c: active_plans.workflows_run(c, [("p", "d", "w3")], 10),
    ),
    "below a project": ("ix_launch_plans_active_workflow", lambda c: scopes.below(c, "d", ["p"], 10)),
}


@pytest.fixture
def filled(database_url: str) -> Iterator[Engine]:
    """Launch plans with many versions, of which one is active."""
    engine = create_engine(database_url)
    migrate(engine)
    now = datetime.now(UTC)
    rows = [
        {
            "project": "p",
            "domain": "d",
            "name": f"plan{plan}",
            "version": f"v{version}",
            "spec": {"cluster_assignment": {"cluster_pool_name": "gpu"}},
            "digest": "",
            "created_at": now,
            "workflow": f"w{plan}",
            "state": "ACTIVE" if version == 7 else "INACTIVE",
            "updated_at": now,
        }
        for plan in range(PLANS)
        for version in range(VERSIONS)
    ]
    with engine.begin() as connection:
        connection.execute(insert(launch_plans), rows)
    with engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE")
    yield engine
    engine.dispose()


def plan_of(engine: Engine, call: Callable[[Connection], Any]) -> str:
    """How the database finds what a call asks for."""
    statements: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    with engine.connect() as connection:
        event.listen(engine, "before_cursor_execute", note)
        call(connection)
        event.remove(engine, "before_cursor_execute", note)
        is_sqlite = engine.dialect.name == "sqlite"
        words = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
        return "\n".join(
            str(row[3] if is_sqlite else row[0])
            for statement, parameters in statements
            for row in connection.exec_driver_sql(f"{words} {statement}", parameters)
        )


@pytest.mark.parametrize("name", QUERIES)
def test_active_plans_are_found_by_their_index(filled: Engine, name: str) -> None:
    index, call = QUERIES[name]
    assert f"{index} " in f"{plan_of(filled, call)} ".replace("\n", " ")
    with filled.begin() as connection:
        connection.exec_driver_sql(f"DROP INDEX {index}")
    filled.dispose()  # a connection of SQLite keeps the plans that it has made
    assert f"{index} " not in f"{plan_of(filled, call)} ".replace("\n", " ")


def test_a_launch_plan_is_found_once_by_its_active_version(filled: Engine) -> None:
    with filled.connect() as connection:
        plans = active_plans.containing(connection, ["gpu"], None, 100)
        launch_plans = scopes.below(connection, "d", ["p"], 100)
    assert {plan.id.version for plan in plans} == {"v7"}
    assert [plan.id.name for plan in plans] == sorted(f"plan{number}" for number in range(PLANS))
    assert len(launch_plans) == PLANS


def test_the_indexes_come_and_go_with_their_migration_and_the_plans_stay(filled: Engine) -> None:
    def names() -> set[str]:
        query = (
            "SELECT name FROM sqlite_master" if filled.dialect.name == "sqlite" else "SELECT indexname FROM pg_indexes"
        )
        with filled.connect() as connection:
            return set(connection.exec_driver_sql(query).scalars())

    indexes = {"ix_launch_plans_active", "ix_launch_plans_active_workflow"}
    assert indexes <= names()
    migrate(filled, "0019")
    assert indexes.isdisjoint(names())
    migrate(filled)
    assert indexes <= names()
    with filled.connect() as connection:
        assert len(active_plans.containing(connection, [], None, 2 * PLANS)) == PLANS
