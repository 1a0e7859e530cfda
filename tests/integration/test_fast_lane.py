"""The fast lane takes what is plain, answers as Flask does, and leaves the rest to Flask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request_started
from flask.testing import FlaskClient
from sqlalchemy.exc import OperationalError
from werkzeug.test import TestResponse

from tests.conftest import MakeApp
from tests.support.agents import Clock, set_clock
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_attribute

PATH = f"{API}/effective_attributes"
ATTRIBUTES = [
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=3",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/other?resource_type=EXECUTION_CLUSTER_LABEL",
    f"launch_plan_attributes/{PROJECT}/{DOMAIN}/core.wf/lp?resource_type=execution-cluster-label",
    f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type=0",
    f"project_attributes/{PROJECT}?resource_type=0",
    f"domain_attributes/{DOMAIN}?resource_type=3",
]
UNUSUAL_ATTRIBUTES = [
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=3&exact=true",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=3&provenance=true",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=3&provenance=false",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=nothing",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=7",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf?resource_type=1",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf/lp?resource_type=3",
    f"workflow_attributes/{PROJECT}/{DOMAIN}?resource_type=3",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/a%20b?resource_type=3",
    f"workflow_attributes/{PROJECT}/nowhere/core.wf?resource_type=3",
    f"workflow_attributes/nobody/{DOMAIN}/core.wf?resource_type=3",
    f"nothing_attributes/{PROJECT}?resource_type=3",
]
WHOLE = f"project={PROJECT}&domain={DOMAIN}&workflow=core.wf&launch_plan=lp"
PLAIN = [
    WHOLE,
    f"project={PROJECT}&domain={DOMAIN}",
    f"domain={DOMAIN}",
    f"project={PROJECT}",
    f"launch_plan=lp&workflow=core.wf&domain={DOMAIN}&project={PROJECT}",
    f"{WHOLE}&resource_type=3",
    f"{WHOLE}&resource_type=execution-cluster-label",
    f"{WHOLE}&resource_type=TASK_RESOURCE",
]
UNUSUAL = [
    "",
    f"{WHOLE}&resource_type=nothing",
    f"{WHOLE}&resource_type=3&resource_type=3",
    f"{WHOLE}&at=1",
    f"{WHOLE}&provenance=true",
    f"{WHOLE}&provenance=false",
    f"{WHOLE}&colour=blue",
    f"project={PROJECT}&project={PROJECT}",
    f"project={PROJECT}&domain={DOMAIN}&launch_plan=lp",
    "project=No.Such&domain=development",
    "project=nobody&domain=development",
    f"project={PROJECT}&domain=nowhere",
    f"project={PROJECT}&domain={DOMAIN}&workflow=..",
    f"project={PROJECT}&domain={DOMAIN}&workflow=a%20b",
    f"project={PROJECT}&domain={DOMAIN}&workflow=",
    f"project={PROJECT}&domain={DOMAIN}&workflow={'w' * 256}",
    f"launchPlan=lp&project={PROJECT}&domain={DOMAIN}&workflow=w",
]


@contextmanager
def requests_of_flask(app: Flask) -> Iterator[list[Any]]:
    """The requests that Flask itself answers meanwhile."""
    requests: list[Any] = []

    def note(sender: Flask, **_: Any) -> None:
        requests.append(sender)

    with request_started.connected_to(note, app):
        yield requests


def through_flask(api: FlaskClient, query: str, **more: Any) -> TestResponse:
    """The answer to the same question, written in a way that the lane leaves to Flask."""
    with requests_of_flask(api.application) as requests:
        response = api.get(f"{PATH}?{query}&", **more)
    assert requests
    return response


def without_id(response: TestResponse) -> Any:
    return {name: value for name, value in (response.json or {}).items() if name != "request_id"}


@pytest.fixture
def settled(api: FlaskClient) -> FlaskClient:
    return settle(api)


@pytest.fixture(scope="module")
def settled_once(shared_app: Flask) -> FlaskClient:
    """The same for tests that only read."""
    set_clock(shared_app, Clock())
    return settle(shared_app.test_client())


def settle(api: FlaskClient) -> FlaskClient:
    """Give an admin some settings, and have it hold them in memory."""
    put_attribute(api, "domain", "execution_cluster_label", {"value": "broad"})
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "narrow"}, workflow="core.wf")
    put_attribute(api, "project", "task_resource_attributes", {"limits": {"cpu": None, "memory": "1Gi"}})
    get(api, f"effective_attributes?domain={DOMAIN}")  # settings are in memory from now on
    return api


@pytest.mark.parametrize("query", PLAIN)
def test_a_plain_query_does_not_reach_flask(settled_once: FlaskClient, query: str) -> None:
    with requests_of_flask(settled_once.application) as requests:
        ok(settled_once.get(f"{PATH}?{query}"))
    assert requests == []


@pytest.mark.parametrize("query", UNUSUAL)
def test_any_other_query_reaches_flask(settled_once: FlaskClient, query: str) -> None:
    with requests_of_flask(settled_once.application) as requests:
        settled_once.get(f"{PATH}?{query}")
    assert len(requests) == 1


@pytest.mark.parametrize("query", [*PLAIN, *UNUSUAL])
def test_both_ways_answer_the_same(settled_once: FlaskClient, query: str) -> None:
    """The lane answers from memory, Flask from the database."""
    lane, usual = settled_once.get(f"{PATH}?{query}"), through_flask(settled_once, query)
    assert lane.status_code == usual.status_code
    assert without_id(lane) == without_id(usual)
    if query in PLAIN:
        assert lane.data == usual.data
    assert lane.headers["Content-Type"] == usual.headers["Content-Type"]
    assert set(lane.headers.keys()) == set(usual.headers.keys())


@pytest.mark.parametrize("path", [*ATTRIBUTES, *UNUSUAL_ATTRIBUTES])
def test_an_attribute_is_answered_the_same_from_memory(settled_once: FlaskClient, path: str) -> None:
    with requests_of_flask(settled_once.application) as requests:
        lane = settled_once.get(f"{API}/{path}")
    assert bool(requests) is (path in UNUSUAL_ATTRIBUTES)
    with requests_of_flask(settled_once.application) as requests:
        usual = settled_once.get(f"{API}/{path}{'&' if '?' in path else '?'}")
    assert requests
    assert lane.status_code == usual.status_code
    assert without_id(lane) == without_id(usual)
    if path in ATTRIBUTES:
        assert (lane.status_code, lane.data) == (200, usual.data)
    assert {**lane.headers, "X-Request-Id": ""} == {**usual.headers, "X-Request-Id": ""}


def test_an_attribute_is_read_with_who_changed_it_last(make_app: MakeApp) -> None:
    writer = make_app().test_client()
    get(writer, f"effective_attributes?domain={DOMAIN}")
    path = f"{API}/project_attributes/{PROJECT}"
    body = {"attributes": {"matching_attributes": {"task_resource_attributes": {"limits": {"cpu": "3"}}}}}
    version = ok(writer.put(path, json={**body, "claimed_by": "jo"}))["version"]
    for api in (writer, make_app().test_client()):  # one that has applied the revision, and one that has loaded the row
        get(api, f"effective_attributes?domain={DOMAIN}")
        with requests_of_flask(api.application) as requests:
            answer = ok(api.get(f"{path}?resource_type=0"))
        assert requests == []
        assert (answer["version"], answer["claimed_by"]) == (version, "jo")
        assert answer == ok(api.get(f"{path}?resource_type=0&"))


WORKFLOW_PATH = f"workflow_attributes/{PROJECT}/{DOMAIN}/core.wf"
LABEL = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "other"}}}}
WRITES: list[tuple[str, Any]] = [
    (WORKFLOW_PATH, LABEL),
    (WORKFLOW_PATH, {**LABEL, "message": "why", "claimed_by": "jo", "project": PROJECT}),
    (f"launch_plan_attributes/{PROJECT}/{DOMAIN}/core.wf/lp", LABEL),
    (f"project_domain_attributes/{PROJECT}/{DOMAIN}", LABEL),
    (
        f"project_attributes/{PROJECT}",
        {"attributes": {"matchingAttributes": {"executionClusterLabel": {"value": "o"}}}},
    ),
    (f"domain_attributes/{DOMAIN}", LABEL),
]
REFUSED_WRITES: list[tuple[str, Any]] = [
    (WORKFLOW_PATH, {}),
    (WORKFLOW_PATH, []),
    (WORKFLOW_PATH, {**LABEL, "project": "another"}),
    (WORKFLOW_PATH, {**LABEL, "colour": "blue"}),
    (WORKFLOW_PATH, {**LABEL, "message": 7}),
    (WORKFLOW_PATH, {"attributes": {"matching_attributes": {"nothing": {}}}}),
    (WORKFLOW_PATH, {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "Not a label!"}}}}),
    (f"workflow_attributes/{PROJECT}/nowhere/core.wf", LABEL),
    (f"workflow_attributes/nobody/{DOMAIN}/core.wf", LABEL),
    (f"workflow_attributes/{PROJECT}/{DOMAIN}/..", LABEL),
]
UNUSUAL_WRITES: list[tuple[str, dict[str, Any]]] = [
    (f"{WORKFLOW_PATH}?dry_run=true", {"json": LABEL}),
    (f"workflow_attributes/{PROJECT}/{DOMAIN}/a%20b", {"json": LABEL}),
    (f"workflow_attributes/{PROJECT}/{DOMAIN}", {"json": LABEL}),
    (f"nothing_attributes/{PROJECT}", {"json": LABEL}),
    (WORKFLOW_PATH, {"json": LABEL, "headers": {"If-Match": "1"}}),
    (WORKFLOW_PATH, {"json": LABEL, "headers": {"If-None-Match": "*"}}),
    (WORKFLOW_PATH, {"json": LABEL, "headers": {"Transfer-Encoding": "chunked"}}),
    (WORKFLOW_PATH, {"json": {**LABEL, "message": "m" * 10_000}}),
    (WORKFLOW_PATH, {"data": b"{}", "content_type": "application/merge-patch+json"}),
    (WORKFLOW_PATH, {"data": b""}),
]


@pytest.mark.parametrize(("path", "body"), WRITES)
def test_a_plain_write_is_made_without_flask_in_the_same_way(api: FlaskClient, path: str, body: Any) -> None:
    first, second = _put_both_ways(api, path, body, between=lambda: ok(api.delete(f"{API}/{path}?resource_type=3")))
    for answer, number in ((first, 1), (second, 3)):
        assert (answer.status, answer.headers["ETag"]) == ("200 OK", f'"{number}"')
        assert (ok(answer)["version"], ok(answer)["revision"]) == (number, number)
    numbers = {"version": 0, "revision": 0}
    assert {**ok(first), **numbers} == {**ok(second), **numbers}
    assert {**first.headers, "ETag": ""} == {**second.headers, "ETag": ""}
    third, _, oldest = get(api, "revisions")["revisions"]
    own = {"number": 0, "created_at": ""}
    assert {**third, **own} == {**oldest, **own}


@pytest.mark.parametrize(("path", "body"), REFUSED_WRITES)
def test_a_plain_write_is_refused_without_flask_in_the_same_words(api: FlaskClient, path: str, body: Any) -> None:
    first, second = _put_both_ways(api, path, body)
    assert first.status_code in (400, 404)
    assert (first.status, first.data, {**first.headers}) == (second.status, second.data, {**second.headers})
    assert get(api, "revisions")["revisions"] == []


def _put_both_ways(
    api: FlaskClient, path: str, body: Any, between: Callable[[], object] = lambda: None
) -> list[TestResponse]:
    """The answers of the lane and of Flask to the same write."""
    answers = []
    for query in ("", "?dry_run=false"):
        with requests_of_flask(api.application) as requests:
            answers.append(api.put(f"{API}/{path}{query}", json=body, headers={"X-Request-Id": "same"}))
        assert bool(requests) is bool(query)
        if not query:
            between()
    return answers


@pytest.mark.parametrize(("path", "request_"), UNUSUAL_WRITES)
def test_any_other_write_reaches_flask(settled: FlaskClient, path: str, request_: dict[str, Any]) -> None:
    with requests_of_flask(settled.application) as requests:
        settled.put(f"{API}/{path}", **request_)
    assert len(requests) == 1


def test_a_body_above_a_small_limit_is_refused_as_flask_does(make_app: MakeApp) -> None:
    api = make_app(server={"maxBodyBytes": 1024}).test_client()
    body = {**LABEL, "message": "m" * 990}
    with requests_of_flask(api.application) as requests:
        answer = api.put(f"{API}/{WORKFLOW_PATH}", json=body)
    assert len(requests) == 1
    assert (answer.status_code, "server.maxBodyBytes" in answer.get_data(as_text=True)) == (413, True)


def test_a_write_that_fails_unexpectedly_is_answered_and_not_tried_again(
    settled: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: Any) -> None:
        calls.append(1)
        raise OperationalError("INSERT", {}, Exception("server closed the connection"))

    monkeypatch.setattr(context_of(settled.application).changes, "_write", fail)
    answer = settled.put(f"{API}/{WORKFLOW_PATH}", json=LABEL)
    assert answer.status_code == 503
    assert len(calls) == 1


def test_a_request_keeps_its_id(settled_once: FlaskClient) -> None:
    own = {"X-Request-Id": "mine-7"}
    lane, usual = settled_once.get(f"{PATH}?{WHOLE}", headers=own), through_flask(settled_once, WHOLE, headers=own)
    assert lane.headers["X-Request-Id"] == usual.headers["X-Request-Id"] == "mine-7"
    lane = settled_once.get(f"{PATH}?{WHOLE}", headers={"X-Request-Id": "not acceptable"})
    assert lane.headers["X-Request-Id"] not in ("", "not acceptable")


def test_the_token_is_checked_before_both_ways(make_app: MakeApp, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    api = make_app(server={"apiTokenFile": str(token)}).test_client()
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}, 200),
        ({"Authorization": "bearer 0123456789abcdef0123456789abcdef"}, 200),
        ({"Authorization": "Bearer 0123456789abcdef0123456789abcdeX"}, 401),
        ({"Authorization": "Basic abc"}, 401),
    ):
        lane, usual = api.get(f"{PATH}?{WHOLE}", headers=headers), api.get(f"{PATH}?{WHOLE}&", headers=headers)
        assert (lane.status_code, usual.status_code) == (status, status), headers


def test_requests_in_the_lane_are_counted(settled_once: FlaskClient) -> None:
    def counted() -> float:
        text = settled_once.get("/metrics").get_data(as_text=True)
        lines = (line for line in text.splitlines() if line.startswith("rainbow_http_requests_total{"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if PATH in line and 'status="200"' in line)

    before = counted()
    for _ in range(3):
        ok(settled_once.get(f"{PATH}?{WHOLE}"))
    assert counted() == before + 3
