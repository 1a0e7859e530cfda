"""Random lists of executions: page by page they hold what fits, once and in order, however little a page looks at."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert, select

from admin.core.executions.selectors import SORT_FIELDS, Condition
from admin.store import execution_lists
from admin.store.database import Database
from admin.store.execution_tables import executions
from admin.store.executions import Execution
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.placing import API, created, get, refused

COUNT = 120
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: What each field may hold; few values each, so that they often meet. None and "" both stand for none.
VALUES: dict[str, list[Any]] = {
    "project": ["p0", "p1", "p2"],
    "domain": ["development", "staging"],
    "phase": ["QUEUED", "RUNNING", "SUCCEEDED", "FAILED"],
    "reason": ["ASSIGNED", "TERMINATED"],
    "cluster": [None, "c0", "c1", "c2"],
    "pool": [None, "gpu", "cpu"],
    "label": [None, "near"],
    "workflow": ["", "w0", "w1"],
    "launch_plan": ["", "l0"],
    "state": ["ACTIVE", "ARCHIVED"],
}
COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Executions of all sorts, several created at the same time."""
    if request.param == "postgresql":
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.set_up()
    else:
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        url = files.set_up(Path(tmp_path_factory.mktemp("lists")))
    engine = create_engine(url)
    found = Database(engine)
    with found.writing() as connection:
        connection.execute(insert(executions), _rows())
    yield found
    engine.dispose()


def _rows() -> list[dict[str, Any]]:
    draw = Random(7)
    whole = dict.fromkeys(("revision", "attempt", "decisions", "events"), 1)
    whole |= {f"demand_{one}": 1 for one in ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")}
    documents: dict[str, Any] = {"request": {}, "launched": {}, "content": {}, "required_plugins": []}
    words = {"digest": "d", "version": "v1", "mode": "MANUAL", "reason_message": "", "route_kind": "", "route_name": ""}
    return [
        {
            **whole,
            **documents,
            **words,
            **{field: draw.choice(values) for field, values in VALUES.items()},
            "name": f"e{draw.randrange(100):02}x{number:03}",
            "created_at": NOON + timedelta(seconds=draw.randrange(40)),
            "updated_at": NOON + timedelta(seconds=draw.randrange(40)),
        }
        for number in range(COUNT)
    ]


def words(field: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([value or "" for value in VALUES[field]] + ["nobody"])


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    if draw(st.integers(0, 4)) == 0:
        time = NOON + timedelta(seconds=draw(st.integers(-1, 41)))
        field = draw(st.sampled_from(["created_at", "updated_at"]))
        return Condition(field=field, function=draw(st.sampled_from(sorted(COMPARISONS))), values=(time,))
    field = draw(st.sampled_from(sorted(VALUES)))
    function = draw(st.sampled_from(["eq", "eq", "value_in", "value_in", "ne", "value_not_in", "contains"]))
    many = function in ("value_in", "value_not_in")
    values = draw(st.lists(words(field), min_size=1, max_size=4 if many else 1))
    return Condition(field=field, function=function, values=tuple(values))


def fits(row: Any, wanted: Condition) -> bool:
    value = getattr(row, wanted.field)
    if wanted.function in COMPARISONS:
        return bool(COMPARISONS[wanted.function](value, wanted.values[0]))
    text = value or ""
    if wanted.function == "contains":
        return wanted.values[0] != "" and wanted.values[0] in text
    return (text in wanted.values) is (wanted.function in ("eq", "value_in"))


@given(
    wanted=st.lists(conditions(), max_size=4),
    sort_by=st.sampled_from(SORT_FIELDS),
    descending=st.booleans(),
    limit=st.integers(3, 40),
    most=st.sampled_from([5, 20, 10_000]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_list_holds_what_fits_once_and_in_order(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    wanted: list[Condition],
    sort_by: str,
    descending: bool,
    limit: int,
    most: int,
) -> None:
    monkeypatch.setattr(execution_lists, "MOST_EXAMINED", most)
    monkeypatch.setattr(execution_lists, "_FIRST_EXAMINED", 1)
    found: list[Any] = []
    after = None
    with database.reading() as connection:
        expected = [row for row in connection.execute(select(executions)) if all(fits(row, one) for one in wanted)]
        for _ in range(COUNT + 2):
            page = execution_lists.page(
                connection, wanted, Execution, sort_by=sort_by, descending=descending, after=after, limit=limit
            )
            assert len(page.executions) <= limit
            found += page.executions
            after = page.last
            if after is None:
                break
    assert after is None
    expected.sort(key=lambda row: (getattr(row, sort_by) or "", row.id), reverse=descending)
    assert [row.id for row in found] == [row.id for row in expected]


def test_what_is_rare_comes_with_a_later_page(shared: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        created(shared, f"e{number}")
    monkeypatch.setattr(execution_lists, "MOST_EXAMINED", 3)
    monkeypatch.setattr(execution_lists, "_FIRST_EXAMINED", 1)
    query = "executions?limit=1&filters=contains(name,e0)"
    first = get(shared, query)
    assert first["executions"] == []
    pages = [first]
    while "token" in pages[-1]:
        pages.append(get(shared, f"{query}&token={pages[-1]['token']}"))
    assert [one["id"]["name"] for page in pages for one in page["executions"]] == ["e0"]


def test_more_than_can_be_sorted_is_refused_with_a_remedy(shared: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        created(shared, f"s{number}")
    monkeypatch.setattr(execution_lists, "MOST_SORTED", 3)
    answer = refused(shared.get(f"{API}/executions?sort_by.key=updated_at"), 400, "invalid_request", "sort_by.key")
    assert "project and domain" in answer["message"]
    for query in ("sort_by.key=created_at", "sort_by.key=updated_at&workflow=nobody"):
        get(shared, f"executions?{query}")
    assert len(get(shared, "executions/flytesnacks/development?sort_by.key=name")["executions"]) >= 4
