"""Random lists of executions: page by page they hold what fits, once and in order, however little a page looks at."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert, select

from admin.core.executions.causes import Cause, cause_of
from admin.core.executions.retries import Retries
from admin.core.executions.run_times import waited_for_start
from admin.core.executions.selectors import DAYS, GROUPS, SORT_FIELDS, Condition
from admin.core.provenance import Actor, show_name
from admin.store import execution_counts, execution_lists
from admin.store.database import Database
from admin.store.execution_fields import REQUESTED
from admin.store.execution_lists import ListLimits, Order
from admin.store.execution_tables import executions
from admin.store.executions import Execution
from tests.support.apps import set_limits
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.placing import API, created, get, refused

COUNT = 120
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ASKED = NOON + timedelta(seconds=30, microseconds=7)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)
#: What each field may hold; few values each, so that they often meet. None and "" both stand for none.
VALUES: dict[str, list[Any]] = {
    "project": ["p0", "p1", "p2"],
    "domain": ["development", "staging"],
    "phase": ["QUEUED", "RUNNING", "ABORTING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"],
    "reason": ["ASSIGNED", "TERMINATED", "CLUSTER_LOST"],
    "cluster": [None, "c0", "c1", "c2"],
    "pool": [None, "gpu", "cpu"],
    "label": [None, "near"],
    "workflow": ["", "w0", "w1"],
    "launch_plan": ["", "l0"],
    "state": ["ACTIVE", "ARCHIVED"],
    "created_by": ["anonymous", "cluster/c0"],
    "claimed_by": [None, "ann", "cluster/c0"],
    "abort_principal": [None, "anonymous", "ada"],
    "abort_author": [None, "ada", "bea"],
    "limit_scope": [None, "job", "project p0"],
}
#: Fields that conditions are about.
FIELDS = ["cause", *sorted(VALUES.keys() - {"claimed_by", "abort_author"})]
#: What executions are to run, and how.
CONTENTS: list[dict[str, Any]] = [
    {},
    {"queue": "q0", "job": {"image": "alpine:3"}},
    {"queue": "q1", "job": {}, "retry": {}},
    {"job": {"image": "python:3.12"}, "retry": {"on_lost": "fail"}},
]
#: By what else executions can be counted: decisions, which these rows do not have.
UNDECIDED = {"origin", "origin_scope"}
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
    database = Database(engine)
    with database.writing() as connection:
        connection.execute(insert(executions), _rows())
    yield database
    engine.dispose()


def _rows() -> list[dict[str, Any]]:
    draw = Random(7)
    numbers = dict.fromkeys(("revision", "attempt", "decisions", "events"), 1)
    numbers |= {f"demand_{resource}": 1 for resource in ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")}
    documents: dict[str, Any] = {"request": {}, "launched": {}, "required_plugins": []}
    words = {"digest": "d", "version": "v1", "mode": "MANUAL", "reason_message": "", "route_kind": "", "route_name": ""}
    return [
        {
            **numbers,
            **documents,
            **words,
            **{field: draw.choice(values) for field, values in VALUES.items()},
            "not_before": draw.choice([None, NOON, NOON + timedelta(seconds=draw.randrange(40))]),
            "content": draw.choice(CONTENTS),
            "name": f"e{draw.randrange(100):02}x{number:03}",
            "created_at": NOON + timedelta(seconds=draw.randrange(40)),
            "updated_at": NOON + timedelta(seconds=draw.randrange(40)),
            "started_at": draw.choice([None, NOON, NOON + timedelta(microseconds=draw.randrange(40_000_000))]),
            "exit_code": draw.choice([None, 0, 1, 137]),
            **{f"demand_{resource}": draw.choice([0, 1, 500, 2**40]) for resource in REQUESTED},
            "duration": draw.choice([None, 0.1, 0.00001, 1 / 3, 4000.0]),
        }
        for number in range(COUNT)
    ]


def words(field: str) -> st.SearchStrategy[Any]:
    if field == "cause":
        return st.sampled_from([*(cause.value for cause in Cause), ""])
    shown = (
        ["anonymous (says ann)", "anonymous (says ada)", "bea (says ada)", "bea", "ann"]
        if field in ("created_by", "abort_principal")
        else []
    )
    return st.sampled_from([value or "" for value in VALUES[field]] + ["nobody", *shown])


@st.composite
def any_condition(draw: st.DrawFn) -> Condition:
    if draw(st.integers(0, 4)) == 0:
        time = NOON + timedelta(seconds=draw(st.integers(-1, 41)))
        field = draw(st.sampled_from(["created_at", "updated_at"]))
        return Condition(field=field, function=draw(st.sampled_from(sorted(COMPARISONS))), values=(time,))
    field = draw(st.sampled_from(FIELDS))
    function = draw(st.sampled_from(["eq", "eq", "value_in", "value_in", "ne", "value_not_in", "contains"]))
    many = function in ("value_in", "value_not_in")
    values = draw(st.lists(words(field), min_size=1, max_size=4 if many else 1))
    return Condition(field=field, function=function, values=tuple(values))


def value_of(row: Any, field: str) -> Any:
    if field == "created_by":
        return show_name(row.created_by, row.claimed_by)
    if field in DAYS:
        time = getattr(row, DAYS[field])
        return time and time.date().isoformat()
    if field == "not_before":
        return row.not_before if row.phase == "QUEUED" else None
    if field == "exit_code":
        return None if row.exit_code is None else str(row.exit_code)
    if field == "abort_principal":
        return row.abort_principal and str(Actor.of_stored(row.abort_principal, row.abort_author))
    if field == "image":
        return row.content.get("job", {}).get("image")
    if field == "on_lost":
        return row.content.get("retry", {}).get("on_lost", Retries().on_lost)
    if field == "queue":
        return row.content.get("queue")
    if field in REQUESTED:
        return getattr(row, f"demand_{field}")
    if field != "cause":
        return getattr(row, field)
    cause = cause_of(row.phase, row.reason)
    return None if cause is None else cause.value


def fits(row: Any, condition: Condition) -> bool:
    value = value_of(row, condition.field)
    if condition.function in COMPARISONS:
        return bool(COMPARISONS[condition.function](value, condition.values[0]))
    text = value or ""
    if condition.function == "contains":
        return condition.values[0] != "" and condition.values[0] in text
    names = {text}
    if condition.field == "created_by":
        names |= {row.created_by, row.claimed_by}
    if condition.field == "abort_principal" and text:
        names |= {*Actor.of_stored(row.abort_principal, row.abort_author)[:2]}
    return (not names.isdisjoint(condition.values)) is (condition.function in ("eq", "value_in"))


def taken(row: Any, _: str) -> float:
    """How long an execution took, or has run by the time of the question."""
    if row.duration is None and row.phase in ("RUNNING", "ABORTING") and row.started_at is not None:
        return float(max(0.0, (ASKED - row.started_at).total_seconds()))
    return float(row.duration or 0.0)


def waited(row: Any, _: str) -> float:
    """How long an execution waited for its start, or has by the time of the question."""
    seconds = waited_for_start(row, ASKED)
    return 0.0 if seconds is None else seconds.total_seconds()


@given(
    conditions=st.lists(any_condition(), max_size=4),
    sort_by=st.sampled_from(SORT_FIELDS),
    descending=st.booleans(),
    limit=st.integers(3, 40),
    examined=st.sampled_from([5, 20, 10_000]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_list_holds_what_fits_once_and_in_order(
    database: Database,
    conditions: list[Condition],
    sort_by: str,
    descending: bool,
    limit: int,
    examined: int,
) -> None:
    listed: list[Any] = []
    after = None
    with database.reading() as connection:
        rows = connection.execute(select(executions))
        expected = [row for row in rows if all(fits(row, condition) for condition in conditions)]
        if sort_by == "finished_at":  # which those have that ended
            expected = [row for row in expected if row.finished_at is not None]
        for _ in range(COUNT + 2):
            page = execution_lists.page(
                connection,
                conditions,
                Execution,
                order=Order(field=sort_by, descending=descending, asked_at=ASKED),
                after=after,
                limit=limit,
                limits=ListLimits(examined=examined, examined_first=1),
            )
            assert len(page.executions) <= limit
            listed += page.executions
            after = page.last
            if after is None:
                break
    assert after is None
    without: dict[str, Any] = {"started_at": LONG_AGO, "not_before": LONG_AGO if descending else NEVER}
    nothing = without.get(sort_by, 0.0 if sort_by in ("duration", "waited", *REQUESTED) else "")
    others = dict.fromkeys(("not_before", *REQUESTED), value_of)
    sorted_by = {**others, "duration": taken, "waited": waited}.get(sort_by, getattr)
    expected.sort(key=lambda row: (sorted_by(row, sort_by) or nothing, row.id), reverse=descending)
    assert [row.id for row in listed] == [row.id for row in expected]


@given(
    conditions=st.lists(any_condition(), max_size=3),
    by=st.sampled_from(sorted({*GROUPS.values()} - UNDECIDED)),
    counted=st.sampled_from([7, 50, 10_000]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_are_those_of_the_list_however_little_an_answer_looks_at(
    database: Database, conditions: list[Condition], by: str, counted: int
) -> None:
    counts, requested = Counter[str](), Counter[str]()
    times: dict[str, datetime] = {}
    after = None
    with database.reading() as connection:
        rows = [row for row in connection.execute(select(executions)) if all(fits(row, each) for each in conditions)]
        for _ in range(COUNT):
            page = execution_counts.count_page(
                connection, conditions, by=[by], now=NOON, after=after, limits=ListLimits(counted=counted)
            )
            for group in page.groups:
                counts[group.values[0]] += group.count
                requested[group.values[0]] += group.requested["cpu"]
                if group.not_before is not None:
                    [value] = group.values
                    times[value] = min(group.not_before, times.get(value, group.not_before))
            after = page.last
            if after is None:
                break
    assert after is None
    assert counts == Counter(value_of(row, by) or "" for row in rows)
    for value, cpu in requested.items():
        assert cpu == sum(row.demand_cpu for row in rows if (value_of(row, by) or "") == value)
    expected: dict[str, datetime] = {}
    for row in rows:
        if row.phase == "QUEUED" and row.not_before is not None and row.not_before > NOON:
            value = value_of(row, by) or ""
            expected[value] = min(row.not_before, expected.get(value, row.not_before))
    assert times == expected


def test_what_is_rare_comes_with_a_later_page(app: Flask) -> None:
    api = set_limits(app, examined=3, examined_first=1)
    for number in range(8):
        created(api, f"e{number}")
    query = "executions?limit=1&filters=contains(name,e0)"
    first = get(api, query)
    assert first["executions"] == []
    pages = [first]
    while "token" in pages[-1]:
        pages.append(get(api, f"{query}&token={pages[-1]['token']}"))
    assert [execution["id"]["name"] for page in pages for execution in page["executions"]] == ["e0"]


def test_more_than_can_be_sorted_is_refused_with_a_remedy(app: Flask) -> None:
    api = set_limits(app, sorted=3)
    for number in range(4):
        created(api, f"s{number}")
    answer = refused(api.get(f"{API}/executions?sort_by.key=updated_at"), 400, "invalid_request", "sort_by.key")
    assert "project and domain" in answer["message"]
    for query in ("sort_by.key=created_at", "sort_by.key=updated_at&workflow=nobody"):
        get(api, f"executions?{query}")
    assert len(get(api, "executions/flytesnacks/development?sort_by.key=name")["executions"]) >= 4
