"""History under attack: what was recorded is what is told, rolling back brings it back, waiting ends when it should."""

from __future__ import annotations

import http.client
import random
import select
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from werkzeug.test import TestResponse

from admin.core.changes import Authorship, RowChange
from admin.core.settings.scopes import Scope
from admin.services.changeable.attributes import attribute_write
from admin.services.changeable.base import ChangeOptions
from admin.services.changes import make_change
from admin.services.context import Context
from admin.store import attributes, revisions
from admin.store.revisions import NewRevision
from tests.conftest import MakeApp
from tests.robustness.pictures import BASE, refused, sqlite_only, stored
from tests.robustness.test_changes import change, label, made, project, row_key
from tests.support.admins import running_admin
from tests.support.waiting import wait_until

postgresql_only = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def rollback(api: FlaskClient, query: str = "", **body: Any) -> TestResponse:
    return api.post(f"{BASE}/rollbacks{query}", json=body)


def rolled_back(api: FlaskClient, **body: Any) -> dict[str, Any]:
    answer = rollback(api, **body)
    assert answer.status_code == 200, answer.get_json()
    rolled: dict[str, Any] = answer.get_json()
    return rolled


def head(api: FlaskClient) -> int:
    number: int = api.get(f"{BASE}/revisions?limit=1").get_json()["head"]
    return number


State = dict[tuple[str, ...], Any]


def state(api: FlaskClient) -> State:
    """Everything that people set: rows and projects, without what tells when."""
    now = stored(api)
    rows = {row_key(row): next(iter(row["attributes"].values())) for row in now["rows"]}
    fields = ("name", "description", "labels", "state")
    return rows | {
        ("PROJECT", project["id"], "", "", ""): {key: project[key] for key in fields} for project in now["projects"]
    }


def rows_at(api: FlaskClient, number: int) -> State:
    listed = api.get(f"{BASE}/matchable_attributes?resource_type=all&limit=1000&at={number}")
    assert listed.status_code == 200, listed.get_json()
    return {row_key(row): next(iter(row["attributes"].values())) for row in listed.get_json()["configurations"]}


def only_rows(rows: State) -> State:
    return {key: value for key, value in rows.items() if key[0] != "PROJECT"}


def difference(api: FlaskClient, start: int, end: int) -> dict[tuple[str, ...], tuple[Any, Any]]:
    answer = api.get(f"{BASE}/revision_diff?from={start}&to={end}").get_json()
    return {row_key(row): (row.get("before"), row.get("after")) for row in answer["rows"]}


def between(first: State, second: State) -> dict[tuple[str, ...], tuple[Any, Any]]:
    return {
        key: (first.get(key), second.get(key))
        for key in first.keys() | second.keys()
        if first.get(key) != second.get(key)
    }


def activated(api: FlaskClient) -> None:
    """Make every project active, as the refusal to write to an archived one advises."""
    for project_row in stored(api)["projects"]:
        api.put(f"{BASE}/projects/{project_row['id']}", json={"state": "ACTIVE"})


PROJECTS = ["flytesnacks", "one", "two"]


def random_step(api: FlaskClient, dice: random.Random) -> TestResponse:
    """Something that people do: write, delete, create, archive, roll back."""
    last = head(api)
    chance = dice.random()
    if chance < 0.1 and last:
        return rollback(api, revision=dice.randint(1, last))
    if chance < 0.2:
        return rollback(api, to=dice.randint(0, last), everything=True)
    if chance < 0.25:
        return rollback(api, to=dice.randint(0, last), domain="staging")
    writes: dict[str, dict[str, Any]] = {}
    for _ in range(dice.randint(1, 4)):
        name = dice.choice(PROJECTS)
        if dice.random() < 0.3:
            fields = {"name": dice.choice("AB"), "state": dice.choice(["ACTIVE", "ACTIVE", "ARCHIVED"])}
            writes[name] = project(id=name, **fields)
            continue
        keys = dice.choice([{"domain": "staging"}, {"project": name}, {"project": name, "domain": "staging"}])
        kind, payload = dice.choice(
            [(3, {"value": dice.choice(["a", "b", None])}), (0, {"limits": {"cpu": dice.choice("123")}})]
        )
        content: dict[str, Any] = {"delete": True} if dice.random() < 0.35 else {"payload": payload}
        writes[f"{kind}{keys}"] = {"resource_type": kind, **keys, **content}
    return change(api, *writes.values())


@pytest.mark.parametrize("seed", [11])
def test_a_random_history_is_told_and_brought_back_as_it_was(api: FlaskClient, seed: int) -> None:
    dice = random.Random(seed)
    recorded = {0: state(api)}
    for _ in range(45):
        before = state(api)
        answer = random_step(api, dice)
        assert answer.status_code in (200, 400, 409), answer.get_json()
        if answer.status_code != 200 or not answer.get_json()["changed"]:
            assert (state(api), head(api)) == (before, len(recorded) - 1)
            continue
        assert answer.get_json()["revision"] == len(recorded)
        recorded[len(recorded)] = state(api)
    count = len(recorded)
    assert count > 20
    for number, then in recorded.items():
        assert rows_at(api, number) == only_rows(then)
    for _ in range(15):
        first, second, third = (dice.randrange(count) for _ in range(3))
        forward = difference(api, first, second)
        assert forward == between(recorded[first], recorded[second])
        assert difference(api, second, first) == {key: (after, before) for key, (before, after) in forward.items()}
        on = difference(api, second, third)
        both = {
            key: ((forward.get(key) or on[key])[0], (on.get(key) or forward[key])[1])
            for key in forward.keys() | on.keys()
        }
        assert difference(api, first, third) == {key: pair for key, pair in both.items() if pair[0] != pair[1]}
    for number in dice.sample(range(count), 8):
        activated(api)
        before = state(api)
        plan = rollback(api, "?dry_run=true&limit=1000", to=number, everything=True)
        assert plan.status_code == 200, plan.get_json()
        assert state(api) == before
        real = rolled_back(api, to=number, everything=True)
        assert state(api) == recorded[number]
        assert (plan.get_json()["counts"], plan.get_json()["warnings"]) == (real["counts"], real["warnings"])
        made_of = {row_key(row): (row.get("before"), row.get("after")) for row in real["rows"]}
        assert made_of == between(before, recorded[number])
        assert rolled_back(api, to=number, everything=True)["changed"] is False


def test_revisions_of_different_rows_are_undone_in_any_order(api: FlaskClient) -> None:
    begin = state(api)
    scopes: list[dict[str, str]] = [
        {"domain": "staging"},
        {"project": "flytesnacks"},
        {"project": "flytesnacks", "domain": "staging"},
        {"project": "flyteexamples"},
    ]
    for scope in scopes:
        made(api, label("a", **scope))
    made(api, project(id="search"))
    numbers = list(range(1, 6))
    random.Random(5).shuffle(numbers)
    for number in numbers:
        rolled_back(api, revision=number)
    assert state(api) == begin


@sqlite_only
def test_revisions_of_the_same_row_are_undone_one_after_the_other(api: FlaskClient) -> None:
    """The refusal to undo an older one advises to undo the later ones first; so that must help."""
    states = [state(api)]
    for value in ("a", "b", "c"):
        made(api, label(value, domain="staging"))
        states.append(state(api))
    for number in (3, 2, 1):
        rolled_back(api, revision=number)
        assert state(api) == states[number - 1]


@sqlite_only
def test_an_undone_revision_is_redone_by_undoing_its_undoing(api: FlaskClient) -> None:
    made(api, label("a", domain="staging"), project(id="search"), label("a", project="search"))
    full, empty = state(api), None
    for number in range(1, 7):
        rolled_back(api, revision=number)
        if number % 2:
            empty = empty or state(api)
            assert state(api) == empty
        else:
            assert state(api) == full


def test_a_project_with_rows_of_others_is_not_taken_away_and_a_plan_says_so(api: FlaskClient) -> None:
    made(api, project(id="search"))
    made(api, label("a", project="search"))
    refused(api, lambda: rollback(api, revision=1), field="project")
    refused(api, lambda: rollback(api, "?dry_run=true", revision=1), field="project")


@sqlite_only
def test_rows_of_a_project_that_is_gone_are_not_brought_back(api: FlaskClient) -> None:
    made(api, project(id="search"))
    made(api, label("a", project="search"))
    made(api, {"resource_type": 3, "project": "search", "delete": True})
    rolled_back(api, revision=1)
    refused(api, lambda: rollback(api, revision=3), field="project")
    refused(api, lambda: rollback(api, to=2, project="search"), error="unknown_project")


@sqlite_only
def test_what_applied_in_a_project_that_is_gone_can_still_be_asked(api: FlaskClient) -> None:
    made(api, project(id="search"), label("a", project="search"))
    rolled_back(api, revision=1)
    assert rows_at(api, 1) == {("EXECUTION_CLUSTER_LABEL", "search", "", "", ""): {"value": "a"}}
    answer = api.get(f"{BASE}/effective_attributes?project=search&resource_type=3&at=1")
    assert answer.status_code == 200, answer.get_json()
    assert answer.get_json()["values"][0]["value"] == {"value": "a"}


@sqlite_only
def test_a_row_of_an_archived_project_is_not_undone(api: FlaskClient) -> None:
    made(api, label("a", project="flytesnacks"))
    api.put(f"{BASE}/projects/flytesnacks", json={"state": "ARCHIVED"})
    for body in ({"revision": 1}, {"to": 0, "project": "flytesnacks"}):
        answer = refused(api, partial(rollback, api, **body), field="project")
        assert "--activate" in answer["message"]


@sqlite_only
def test_everything_goes_back_also_where_a_project_was_archived_then_and_is_now(api: FlaskClient) -> None:
    path = f"{BASE}/projects/flytesnacks"
    made(api, label("a", project="flytesnacks"))
    api.put(path, json={"state": "ARCHIVED"})
    then = state(api)
    api.put(path, json={"state": "ACTIVE"})
    made(api, label("b", project="flytesnacks"))
    api.put(path, json={"state": "ARCHIVED"})
    rolled_back(api, to=2, everything=True)
    assert state(api) == then


def memory(default: str | None, limit: str | None, **keys: str) -> dict[str, Any]:
    payload = {"defaults": {"memory": default}, "limits": {"memory": limit}}
    return {
        "resource_type": 0,
        "payload": {name: value for name, value in payload.items() if value["memory"]},
        **keys,
    }


@sqlite_only
def test_a_state_that_was_there_can_be_brought_back(api: FlaskClient) -> None:
    """A limit that was lowered below a default only warns; so the state it made must not be refused either."""
    narrow = {"project": "flytesnacks", "domain": "staging"}
    made(api, memory(None, "16Gi", domain="staging"))
    made(api, memory("8Gi", None, **narrow))
    made(api, memory(None, "4Gi", domain="staging"))
    then = state(api)
    made(api, memory("2Gi", None, **narrow))
    rolled_back(api, to=3, everything=True)
    assert state(api) == then


KIND = {"number": 10, "merge": "leaf", "fields": {"a": {"type": "int", "maximum": 100}, "b": {"type": "string"}}}


@sqlite_only
@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"a": {"type": "int", "maximum": 50}, "b": {"type": "string"}}, id="a lower maximum"),
        pytest.param({"a": {"type": "int", "maximum": 100}}, id="a field less"),
        pytest.param({"a": {"type": "string"}, "b": {"type": "string"}}, id="another type"),
    ],
)
def test_a_payload_that_its_kind_no_longer_allows_is_not_brought_back(make_app: MakeApp, now: dict[str, Any]) -> None:
    before = make_app(kinds={"K": KIND}).test_client()
    made(before, {"resource_type": "K", "domain": "staging", "payload": {"a": 90, "b": "x"}})
    made(before, {"resource_type": "K", "domain": "staging", "delete": True})
    api = make_app(kinds={"K": {**KIND, "fields": now}}).test_client()
    refused(api, lambda: rollback(api, to=1, everything=True))


@sqlite_only
@pytest.mark.parametrize("path", ["effective_attributes?domain=staging&at=1", "effective_attributes?at=1", "warnings"])
def test_a_row_from_before_its_kind_took_another_shape_breaks_no_answer(make_app: MakeApp, path: str) -> None:
    before = make_app(kinds={"K": {**KIND, "fields": {"a": {"type": "list", "items": "int"}}}}).test_client()
    made(before, {"resource_type": "K", "domain": "staging", "payload": {"a": [1]}})
    api = make_app(kinds={"K": {**KIND, "fields": {"a": {"type": "map"}}}}).test_client()
    assert api.get(f"{BASE}/{path}").status_code == 200


@sqlite_only
def test_a_kind_that_is_gone_stops_only_what_would_touch_it(make_app: MakeApp) -> None:
    before = make_app(kinds={"K": KIND}).test_client()
    made(before, {"resource_type": "K", "domain": "staging", "payload": {"a": 1}}, label("a", domain="staging"))
    made(before, label("b", domain="staging"))
    api = make_app(kinds={"OTHER": {**KIND, "number": 11}}).test_client()
    for body in ({"to": 0, "everything": True}, {"revision": 1}, {"to": 0, "domain": "staging"}):
        answer = rollback(api, **body)
        assert answer.status_code in (400, 409)
        assert (answer.get_json()["error"], head(api)) in (("undeclared_kind", 2), ("version_conflict", 2))
    assert rolled_back(api, to=1, everything=True)["counts"]["update"] == 1
    rolled_back(api, to=0, domain="staging", resource_type=3)
    assert api.get(f"{BASE}/revisions/1").get_json()["changes"][0]["resource_type"] == "K"
    assert len(api.get(f"{BASE}/revision_diff?from=0&to=1").get_json()["rows"]) == 2
    assert rows_at(api, 1) == {("EXECUTION_CLUSTER_LABEL", "", "staging", "", ""): {"value": "a"}}


@postgresql_only
def test_a_revision_of_very_many_rows_is_undone(api: FlaskClient, context: Context) -> None:
    scopes = [Scope(project="flytesnacks", domain="staging", workflow=f"w{number}") for number in range(16_400)]
    rows = [
        RowChange(kind="EXECUTION_CLUSTER_LABEL", scope=scope, before=None, after={"value": "a"}, revision=1)
        for scope in scopes
    ]
    revision = NewRevision(number=1, created_at=datetime.now(UTC), authorship=Authorship(), changes=rows)
    with context.database.writing() as connection:
        assert revisions.lock_head(connection) == 0
        attributes.store_revisions(connection, [revision])
    answer = rollback(api, revision=1)
    assert answer.status_code == 200, answer.get_json()
    assert answer.get_json()["counts"]["delete"] == len(rows)


def test_everything_goes_back_whole_while_others_write(api: FlaskClient, context: Context) -> None:
    """A rollback that begins while somebody writes leaves the old state, or refuses; never the old state and a row."""
    made(api, label("a", domain="staging"))
    has_begun, may_end = threading.Event(), threading.Event()
    kind = context.settings.kinds.find("3")

    def slow(_before: Any) -> dict[str, Any]:
        has_begun.set()
        assert may_end.wait(20)
        return {"value": "b"}

    write = attribute_write(kind, Scope(domain="production"), slow)
    roller: list[int] = []

    def released(*_: Any) -> None:
        if threading.get_ident() in roller:  # the rollback has read the history and now waits for its turn
            may_end.set()

    def roll() -> TestResponse:
        assert has_begun.wait(20)
        roller.append(threading.get_ident())
        return rollback(api, to=0, everything=True)

    event.listen(context.database.engine, "checkin", released)
    timer = threading.Timer(1, may_end.set)  # for a rollback that waits for its turn before it reads
    timer.start()
    with ThreadPoolExecutor(2) as pool:
        # As a function, for else the write begins before it is its turn.
        writing = pool.submit(make_change, context, lambda _connection: [write], ChangeOptions())
        rolling = pool.submit(roll)
        assert writing.result(30).revision == 2
        answer = rolling.result(30)
    timer.cancel()
    event.remove(context.database.engine, "checkin", released)
    if answer.status_code == 200:
        assert only_rows(state(api)) == {}
    else:
        assert (answer.status_code, head(api)) == (409, 2)


# --- asking


@pytest.mark.parametrize("hours", [-11, -1, 0, 5.5, 14])
def test_times_mean_the_same_in_every_zone(api: FlaskClient, hours: float) -> None:
    made(api, label("a", domain="staging"))
    at = datetime.fromisoformat(api.get(f"{BASE}/revisions/1").get_json()["created_at"])

    def numbers(word: str, seconds: int) -> list[int]:
        moment = (at + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=hours)))
        answer = api.get(f"{BASE}/revisions", query_string={word: moment.isoformat()})
        assert answer.status_code == 200, answer.get_json()
        return [revision["number"] for revision in answer.get_json()["revisions"]]

    assert (numbers("after", -1), numbers("after", 0), numbers("after", 1)) == ([1], [1], [])
    assert (numbers("before", -1), numbers("before", 0), numbers("before", 1)) == ([], [], [1])


BAD_QUERIES = [
    *(f"{word}={value}" for word in ("author", "claimed_by", "project") for value in ("%1b", "x" * 256)),
    *(
        f"after={value}"
        for value in (
            "",
            "yesterday",
            "2024-13-01T00:00:00Z",
            "99999-01-01T00:00:00Z",
            "1700000000",
            "2024-01-01T00:00:00%2B99:00",
        )
    ),
    *(f"since={value}" for value in ("", "-1", "x", "1.5", "1_0", "%D9%A1", str(2**63), str(10**30), "null")),
    *(f"wait={value}&since=0" for value in ("-1", "-0.1", "60.1", "nan", "inf", "x", "", "1e9")),
    "wait=1",
    *(f"limit={value}" for value in ("0", "1001", "-1", "x", str(2**63))),
    *(f"token={value}" for value in ("x", "WyJhIl0", "WyItMSJd", "WzFd", "WyIxMDAwMDAwMDAwMDAwMDAwMDAwMDAiXQ")),
    "resource_type=colour",
    "resource_type=%00",
    "since=0&since=1",
    "number=1",
]


@sqlite_only
@pytest.mark.parametrize("query", BAD_QUERIES)
def test_a_bad_question_about_revisions_is_refused_by_field(api: FlaskClient, query: str) -> None:
    refused(api, lambda: api.get(f"{BASE}/revisions?{query}"), field=query.split("=")[0])


@pytest.mark.parametrize("word", ["author", "claimed_by", "project", "workflow", "resource_type", "token", "after"])
def test_a_filter_that_no_database_can_ask_for_is_refused(api: FlaskClient, word: str) -> None:
    refused(api, lambda: api.get(f"{BASE}/revisions?{word}=a%00b"), field=word)


@sqlite_only
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("revisions/0", 404),
        ("revisions/2", 404),
        (f"revisions/{10**17}", 404),
        (f"revisions/{2**63}", 400),
        ("revisions/-1", 400),
        ("revisions/1.0", 400),
        ("revisions/%D9%A1", 400),
        ("revisions/1%00", 400),
        ("revision_diff", 400),
        ("revision_diff?from=0", 400),
        ("revision_diff?from=0&to=2", 404),
        ("revision_diff?from=2&to=0", 404),
        ("revision_diff?from=-1&to=0", 400),
        (f"revision_diff?from=0&to={2**63}", 400),
        ("revision_diff?from=a&to=b", 400),
        *(
            (f"{path}&at={value}", status)
            for path in ("effective_attributes?domain=staging", "matchable_attributes?resource_type=all")
            for value, status in (
                ("2", 404),
                (str(10**17), 404),
                ("-1", 400),
                ("", 400),
                ("x", 400),
                ("1.0", 400),
                ("1_0", 400),
                ("head", 400),
                (str(2**63), 400),
                ("%00", 400),
            )
        ),
    ],
)
def test_a_number_that_is_no_revision_is_refused(api: FlaskClient, path: str, status: int) -> None:
    made(api, label("a", domain="staging"))
    error = "revision_not_found" if status == 404 else "invalid_request"
    refused(api, lambda: api.get(f"{BASE}/{path}"), status=status, error=error)


@sqlite_only
@pytest.mark.parametrize(
    "body",
    [
        {"revision": None},
        {"revision": "1"},
        {"revision": 1.0},
        {"revision": True},
        {"revision": 0},
        {"revision": 2**63},
        {"revision": [1]},
        {"to": None, "everything": True},
        {"to": False, "everything": True},
        {"to": 0, "everything": "everything"},
        {"to": 0, "everything": True, "resource_type": 3},
        {"to": 0, "everything": False},
        {"to": 0, "project": ""},
        {"to": 0, "workflow": "w"},
        {"to": 0, "domain": "staging", "resource_type": "colour"},
        {"to": 0, "domain": "staging", "message": "a\x00b"},
        {"to": 0, "domain": "staging", "claimed_by": "a\nb"},
        {"to": 0, "domain": "staging", "dry_run": True},
        {"to": 0, "domain": "sta\x00ging"},
        {"revision": 1, "everything": True},
        {"changes": []},
    ],
)
def test_a_rollback_of_nothing_in_particular_is_refused(api: FlaskClient, body: dict[str, Any]) -> None:
    made(api, label("a", domain="staging"))
    refused(api, lambda: api.post(f"{BASE}/rollbacks", json=body))
    refused(api, lambda: api.post(f"{BASE}/rollbacks?dry_run=true", json=body))


# --- waiting


def new_revisions(app: Flask, query: str) -> list[int]:
    """The numbers of the listed revisions."""
    answer = app.test_client().get(f"{BASE}/revisions?{query}")
    assert answer.status_code == 200, answer.get_json()
    return [revision["number"] for revision in answer.get_json()["revisions"]]


def test_many_readers_are_woken_by_a_write_of_another_admin(make_app: MakeApp) -> None:
    reading, writing = make_app(), make_app()
    watcher = reading.extensions["rainbow"].revision_watcher
    with ThreadPoolExecutor(40) as pool:
        for number in range(1, 4):
            queries = [f"since={number - 1}&wait=60"] * 20 + [f"since={number - 1}&wait=60&domain=staging"] * 10
            answers = [pool.submit(new_revisions, reading, query) for query in queries]
            wait_until(lambda: watcher.waiters == 30)
            made(writing.test_client(), label(f"v{number}", domain="staging"))
            assert [answer.result(30) for answer in answers] == [[number]] * 30  # before the 60 seconds are over


@sqlite_only
def test_a_reader_who_waits_for_other_revisions_goes_on_waiting(app: Flask) -> None:
    watcher = app.extensions["rainbow"].revision_watcher
    with ThreadPoolExecutor(2) as pool:
        answers = [
            pool.submit(new_revisions, app, query) for query in ("since=0&wait=60&domain=production", "since=5&wait=60")
        ]
        wait_until(lambda: watcher.waiters == 2)
        for number in range(3):
            made(app.test_client(), label(f"v{number}", domain="staging"))
        assert not any(answer.done() for answer in answers)
        watcher.close()
        assert [answer.result(30) for answer in answers] == [[], []]


@sqlite_only
@pytest.mark.parametrize("query", ["since=0", "since=0&wait=0", "since=999&wait=0", "wait=0"])
def test_a_reader_who_does_not_wait_is_answered_at_once(app: Flask, query: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(new_revisions, app, query).result(30) == []


def open_connections(url: str, count: int) -> list[http.client.HTTPConnection]:
    """Connections that the admin has accepted."""
    address = urlsplit(url)
    connections = [http.client.HTTPConnection(address.hostname or "", address.port, timeout=30) for _ in range(count)]
    for connection in connections:
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
    return connections


def test_a_real_admin_answers_every_waiting_reader_before_it_stops(tmp_path: Path) -> None:
    with running_admin(tmp_path) as admin:
        abandoned = open_connections(admin.url, 20)
        for connection in abandoned:
            connection.request("GET", f"{BASE}/revisions?since=0&wait=60")
        for connection in abandoned:
            connection.close()
        waiting = open_connections(admin.url, 20)
        for connection in waiting:
            connection.request("GET", f"{BASE}/revisions?since=0&wait=60")
        answered, _, _ = select.select([connection.sock for connection in waiting], [], [], 0.7)
        assert answered == []
        answers: list[Callable[[], http.client.HTTPResponse]] = [connection.getresponse for connection in waiting]
        with ThreadPoolExecutor(21) as pool:
            stopped = pool.submit(admin.stop)
            for response in pool.map(lambda answer: answer(), answers):
                assert response.status == 200
                assert b'"revisions":[]' in response.read()
            assert stopped.result(30) == 0  # before the 60 seconds are over
        log = admin.log.read_text()
        assert "Traceback" not in log
        for connection in waiting:
            connection.close()
