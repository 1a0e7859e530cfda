"""Creations: many at once, each answered for itself; from memory, and yet by what is true when it is written."""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import event, func, select

from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.run_requests import read_request
from admin.store.decisions import decisions, trails
from admin.store.execution_tables import execution_events, executions
from tests.conftest import MakeApp
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    created,
    explanation,
    get,
    label,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    switch,
)
from tests.support.statements import transactions


def create_many(api: FlaskClient, *bodies: Any, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = ok(api.post(f"{API}/executions", json={"executions": list(bodies)}, **more))
    assert len(answer["results"]) == len(bodies)
    return answer


def counts(answer: dict[str, Any]) -> tuple[int, int, int]:
    return answer["created"], answer["repeated"], answer["failed"]


def test_a_refusal_is_in_the_log_with_its_request_its_field_and_its_reason(
    api: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    put_cluster(api, "a")
    caplog.set_level(logging.INFO, logger="rainbow.failures")
    body = asked("e", **pool("gup"))
    answer = refused(api.post(f"{API}/executions", json=body, headers={"X-Request-Id": "mine"}), 400, "unknown_pool")
    create_many(api, *(asked(f"e{number}", **pool("gup")) for number in range(12)), headers={"X-Request-Id": "many"})
    assert api.get(f"{API}/executions/{PROJECT}/{DOMAIN}/nobody").status_code == 404
    lines = [vars(record) for record in caplog.records if record.getMessage() == "refused"]
    assert [line["request_id"] for line in lines] == ["mine", *["many"] * 10]
    first = lines[0]
    assert (first["status"], first["error"], first["reason"]) == (400, "unknown_pool", answer["message"])
    assert first["field"] == ", ".join(detail["field"] for detail in answer["details"])


def test_many_are_created_at_once_and_are_like_any_other(api: FlaskClient) -> None:
    for name in ("a", "b", "c"):
        put_cluster(api, name)
    put_pool(api, "gpu", ["a", "b", "c"])
    answer = create_many(api, *(asked(f"e{number}", **pool("gpu")) for number in range(30)))
    assert counts(answer) == (30, 0, 0)
    for number, result in enumerate(answer["results"]):
        assert result["id"] == {"project": PROJECT, "domain": DOMAIN, "name": f"e{number}"}
        assert (result["created"], result["phase"], result["reason"]["code"]) == (True, "QUEUED", "CLUSTER_EXPECTED")
        stored = get(api, f"executions/{PROJECT}/{DOMAIN}/e{number}")
        assert (stored["cluster"], stored["pool"], stored["events"]) == (result["cluster"], "gpu", 1)
    assert {result["cluster"] for result in answer["results"]} == {"a", "b", "c"}
    why = explanation(api, "e7")
    assert [candidate["cluster"] for candidate in why["candidates"] if candidate["chosen"]] == [
        answer["results"][7]["cluster"]
    ]
    alone = created(api, "alone", **pool("gpu"))
    assert ok(api.post(f"{API}/placements", json=asked("alone", **pool("gpu"))))["cluster"] == alone["cluster"]


@pytest.mark.parametrize("strategy", ["weighted", "spill"])  # from memory, and in a transaction
def test_many_queue_in_the_order_in_which_they_were_given(api: FlaskClient, context: Context, strategy: str) -> None:
    put_cluster(api, "a", capacity={"executions": 9})
    put_pool(api, "gpu", ["a"], strategy=strategy)
    created(api, "taken", **pool("gpu"))
    names = ["z", "m", "taken", "a", "k", "b"]
    create_many(api, *(asked(name, **pool("gpu")) for name in names))
    with context.database.reading() as connection:
        stored = list(connection.execute(select(executions.c.name).order_by(executions.c.id)).scalars())
    assert stored == ["taken", "z", "m", "a", "k", "b"]


@pytest.mark.parametrize("strategy", ["weighted", "spill"])  # from memory, and in a transaction
def test_a_creation_returns_what_is_stored(api: FlaskClient, context: Context, strategy: str) -> None:
    put_cluster(api, "a", capacity={"executions": 9})
    put_pool(api, "gpu", ["a"], strategy=strategy)
    put_attribute(api, "domain", "quality_of_service", {"spec": {"queueing_budget": "1h"}})
    request = read_request(project=PROJECT, domain=DOMAIN, name="e", spec={"job": JOB, **pool("gpu")}, inputs=None)
    new = create_execution(context, request).execution
    again = create_execution(context, request)
    assert again.is_new is False
    assert new == again.execution._replace(id=0, avoid=())
    assert again.execution.id > 0


@pytest.mark.parametrize("strategy", ["weighted", "spill"])  # from memory, and in a transaction
def test_each_is_answered_for_itself(api: FlaskClient, strategy: str) -> None:
    put_pool(api, "gpu", ["a"], strategy=strategy)
    created(api, "there", **pool("gpu"))
    answer = create_many(
        api,
        asked("good", **pool("gpu")),
        asked("no such name!", **pool("gpu")),
        asked("lost", **pool("gpo")),
        {"project": PROJECT, "domain": DOMAIN},
        7,
        asked("there", **pool("gpu")),
        asked("there", job={"command": ["false"]}, **pool("gpu")),
        {**asked("odd"), "colour": "blue"},
        asked("x", project="nobody"),
    )
    assert counts(answer) == (1, 1, 7)
    results = answer["results"]
    assert results[0]["created"] is True
    assert results[5]["created"] is False
    errors = [result["error"] for result in results if "error" in result]
    assert [error["error"] for error in errors] == [
        "invalid_request",
        "unknown_pool",
        "invalid_request",
        "invalid_request",
        "execution_exists",
        "invalid_request",
        "unknown_project",
    ]
    assert [error["status"] for error in errors] == [400, 400, 400, 400, 409, 400, 400]
    assert all(error["message"] for error in errors)
    assert {"field": "spec", "reason": "is missing."} in errors[2]["details"]
    assert errors[1]["details"][0]["closest"] == ["gpu"]


@pytest.mark.parametrize("strategy", ["weighted", "spill"])
def test_the_same_name_twice_in_one_request_is_one_execution(api: FlaskClient, context: Context, strategy: str) -> None:
    put_pool(api, "p", ["a"], strategy=strategy)
    other = asked("e", job={"command": ["false"]}, **pool("p"))
    answer = create_many(api, asked("e", **pool("p")), asked("e", **pool("p")), other)
    assert counts(answer) == (1, 1, 1)
    assert [result.get("created") for result in answer["results"]] == [True, False, None]
    with context.database.reading() as connection:
        for table in (executions, decisions, execution_events):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1


@pytest.mark.parametrize("strategy", ["weighted", "spill"])
def test_names_that_are_taken_leave_the_others_their_decisions_and_events(
    api: FlaskClient, context: Context, strategy: str
) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy=strategy)
    create_many(api, asked("e1", **pool("gpu")), asked("e3", **pool("gpu")))
    answer = create_many(api, *(asked(f"e{number}", **pool("gpu")) for number in range(5)))
    assert counts(answer) == (3, 2, 0)
    assert [result["created"] for result in answer["results"]] == [True, False, True, False, True]
    with context.database.reading() as connection:
        for table in (decisions, execution_events):
            of = list(connection.execute(select(table.c.execution_id)).scalars())
            assert len(of) == len(set(of)) == 5
    for number, result in enumerate(answer["results"]):
        why = explanation(api, f"e{number}")
        assert (why["cluster"], why["decision"], why["because"]) == (result["cluster"], 1, "created")
        [first] = get(api, f"executions/{PROJECT}/{DOMAIN}/e{number}/events")["events"]
        assert (first["type"], first["cluster"], first["reason"]) == ("CREATED", result["cluster"], result["reason"])


@pytest.mark.parametrize("name", ["no such name!", "e\0", "", None, 7, "x" * 256])
def test_what_is_known_of_a_body_does_not_excuse_its_name(api: FlaskClient, context: Context, name: Any) -> None:
    created(api, "known")
    body = {**asked("known"), "name": name}
    alone = api.post(f"{API}/executions?dry_run=true", json=body)
    with nothing_stored(context):
        answer = create_many(api, asked("known"), body, query_string={"dry_run": "true"})
    result = answer["results"][1]
    if name == "":
        assert (alone.status_code, result["created"]) == (200, True)
        return
    refusal = refused(alone, 400, "invalid_request")
    assert result["error"] == {"status": 400, **{key: refusal[key] for key in ("code", "error", "message", "details")}}


def test_a_body_with_several_faults_is_told_the_same_alone_and_with_others(api: FlaskClient) -> None:
    for body in (
        asked("no name!", job={"command": 7}),
        {**asked("no name!"), "project": "No Project"},
        {**asked("e"), "inputs": 7, "spec": {}},
    ):
        alone = api.post(f"{API}/executions", json=body)
        error = create_many(api, body)["results"][0]["error"]
        assert alone.json is not None
        assert error["details"] == alone.json["details"]


def test_trails_that_are_stored_are_not_sent_again(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"])
    created(api, "first", **pool("gpu"))
    sent: list[str] = []

    def listen(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append(f"{statement} {parameters}")

    event.listen(context.database.engine, "before_cursor_execute", listen)
    create_many(api, *(asked(f"e{number}", **pool("gpu")) for number in range(3)))
    event.remove(context.database.engine, "before_cursor_execute", listen)
    assert sent
    assert not [statement for statement in sent if '"rungs"' in statement]


def test_an_idempotency_key_names_those_without_a_name(api: FlaskClient, context: Context) -> None:
    bodies = [asked(), asked("named"), asked()]
    first = create_many(api, *bodies, headers={"Idempotency-Key": "k"})
    names = [result["id"]["name"] for result in first["results"]]
    assert len(set(names)) == 3
    with nothing_stored(context):
        again = create_many(api, *bodies, headers={"Idempotency-Key": "k"})
    assert counts(again) == (0, 3, 0)
    assert [result["id"]["name"] for result in again["results"]] == names
    answer = ok(api.post(f"{API}/executions", json=asked(), headers={"Idempotency-Key": "k"}))
    assert (answer["id"]["name"], answer["created"]) == (names[0], False)


def test_a_dry_run_of_many_stores_nothing(api: FlaskClient, context: Context) -> None:
    created(api, "there")
    with nothing_stored(context):
        answer = ok(
            api.post(
                f"{API}/executions?dry_run=true",
                json={"executions": [asked("new"), asked("there"), asked("bad", **pool("none"))]},
            )
        )
    assert (answer["dry_run"], counts(answer)) == (True, (1, 1, 1))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"executions": []}, "executions"),
        ({"executions": [asked(f"e{number}") for number in range(1001)]}, "executions"),
        ({"executions": {"a": 1}}, "executions"),
        ({"executions": [asked("e")], "project": PROJECT}, "project"),
        ({"project": PROJECT}, "domain"),
        ({}, "spec"),
    ],
)
def test_a_body_that_is_neither_one_nor_many_is_refused(
    api: FlaskClient, context: Context, body: dict[str, Any], field: str
) -> None:
    with nothing_stored(context):
        refused(api.post(f"{API}/executions", json=body), 400, "invalid_request", field)


def test_many_go_where_there_is_room_one_after_the_other(api: FlaskClient) -> None:
    for name in ("a", "b"):
        put_cluster(api, name, capacity={"executions": 3})
    put_pool(api, "spill", ["a", "b"], strategy="spill")
    answer = create_many(api, *(asked(f"e{number}", **pool("spill")) for number in range(8)))
    places = [result.get("cluster") for result in answer["results"]]
    assert places == ["a"] * 3 + ["b"] * 3 + [None] * 2
    assert answer["results"][-1]["reason"]["code"] == "CLUSTERS_FULL"


def test_many_that_look_at_load_share_transactions_and_a_refusal_keeps_none_of_the_others(
    api: FlaskClient, context: Context
) -> None:
    for name in ("a", "b"):
        put_cluster(api, name, capacity={"cpu": "40"})
    put_pool(api, "p", ["a", "b"], strategy="least-loaded")
    put_attribute(api, "project-domain", "task_resource_attributes", {"limits": {"cpu": "64"}})
    bodies = [
        asked(f"e{number}", job={**JOB, "resources": {"requests": {"cpu": cpu}}}, **pool("p"))
        for number, cpu in enumerate(["1", "50", "2"] * 27)
    ]
    with transactions(context) as begun:
        answer = create_many(api, *bodies)
    assert len(begun) < 10
    assert counts(answer) == (54, 0, 27)
    errors = {result["error"]["error"] for result in answer["results"][1::3]}
    assert errors == {"no_cluster_large_enough"}
    places = Counter(result.get("cluster") for result in answer["results"][::3] + answer["results"][2::3])
    assert places["a"] + places["b"] == 54 - places[None]
    taken = Counter[str | None]()
    for number, result in enumerate(answer["results"]):
        taken[result.get("cluster")] += 1 if number % 3 == 0 else 2
    assert 38 < taken["a"] <= 40
    assert 38 < taken["b"] <= 40
    again = create_many(api, *bodies)
    assert counts(again) == (0, 54, 27)
    assert [result.get("cluster") for result in again["results"]] == [
        result.get("cluster") for result in answer["results"]
    ]


def test_quotas_count_what_is_created_before_in_the_same_transaction(api: FlaskClient) -> None:
    put_cluster(api, "a", capacity={"executions": 3})
    put_pool(api, "p", ["a"], strategy="spill")
    put_attribute(api, "project-domain", "execution_quota", {"waiting": 4})
    bodies = [asked(f"e{number}", **pool("p")) for number in range(6)]
    dry = create_many(api, *bodies, query_string={"dry_run": "true"})
    answer = create_many(api, *bodies)
    for results in (dry["results"], answer["results"]):
        assert [result.get("cluster") for result in results] == ["a"] * 3 + [None] * 3
        assert [result["error"]["error"] for result in results[4:]] == ["quota_exceeded"] * 2


def test_what_another_replica_changed_counts_at_once(make_app: MakeApp) -> None:
    here, there = make_app().test_client(), make_app().test_client()
    for api in (here, there):
        put_pool(here, "gpu", ["a"])
        created(api, f"warm-{'here' if api is here else 'there'}", **pool("gpu"))
    put_pool(here, "new", ["n"])  # a pool that the other one does not know yet
    assert created(there, "e1", **pool("new"))["cluster"] == "n"
    switch(here, "n", "cordon")
    assert created(there, "e2", **pool("new"))["closure"]["reason"]["code"] == "CLUSTERS_CORDONED"
    put_attribute(here, "project-domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    answer = created(there, "e3")
    assert (answer["pool"], answer["cluster"]) == ("gpu", "a")
    ok(register_workflow(here, "wf", "v1"))
    ok(register_plan(here, "lp", "wf", "v1"))
    plan = {"launch_plan": {"name": "lp"}}
    assert created(there, "e4", **plan)["launch_plan"]["version"] == "v1"
    ok(register_plan(here, "lp", "wf", "v2"))
    assert created(there, "e5", **plan)["launch_plan"]["version"] == "v2"
    ok(here.put(f"{API}/projects/{PROJECT}", json={"state": "ARCHIVED"}))
    refused(there.post(f"{API}/executions", json=asked("e6")), 400, "project_archived")


def test_trails_are_stored_once_however_many_share_them(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"])
    create_many(api, *(asked(f"e{number}", **pool("gpu")) for number in range(20)))
    created(api, "one", **pool("gpu"))
    create_many(api, *(asked(f"f{number}", **label("a")) for number in range(20)))
    with context.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(trails)).scalar_one() == 4
        named = select(decisions.c.settings_trail, decisions.c.placement_trail)
        used = {digest for row in connection.execute(named) for digest in row}
        assert used == set(connection.execute(select(trails.c.digest)).scalars())


def test_creations_from_many_threads_are_all_there_and_each_once(api: FlaskClient, context: Context) -> None:
    put_pool(api, "gpu", ["a", "b"])
    app = api.application

    def create(number: int) -> list[bool]:
        client = app.test_client()
        mine = created(client, f"own-{number}", **pool("gpu"))
        shared = ok(client.post(f"{API}/executions", json=asked(f"shared-{number % 5}", **pool("gpu"))))
        several = create_many(client, *(asked(f"m-{number}-{place}", **pool("gpu")) for place in range(3)))
        return [mine["closure"]["phase"] == "QUEUED", shared["created"], counts(several) == (3, 0, 0)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(create, range(40)))
    assert all(answer[0] and answer[2] for answer in answers)
    assert sum(answer[1] for answer in answers) == 5
    with context.database.reading() as connection:
        for table in (executions, decisions, execution_events):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 40 + 5 + 120


def test_an_inline_job_is_the_same_whether_it_comes_alone_or_with_others(api: FlaskClient) -> None:
    job = {**JOB, "environment": {"A": "1"}, "resources": {"requests": {"cpu": "500m"}}}
    put_attribute(api, "project", "task_resource_attributes", {"defaults": {"memory": "1Gi"}, "limits": {"cpu": "2"}})
    put_attribute(api, "domain", "workflow_execution_config", {"labels": {"values": {"team": "red"}}})
    created(api, "alone", job=job)
    create_many(api, asked("with", job=job), asked("others", job=job))
    shown = [get(api, f"executions/{PROJECT}/{DOMAIN}/{name}") for name in ("alone", "with", "others")]
    for stored in (execution["job"] for execution in shown):
        assert stored == shown[0]["job"]
        assert (stored["labels"], stored["resources"]["limits"]["memory"]) == ({"team": "red"}, "1Gi")
    assert explanation(api, "with")["settings"] == explanation(api, "alone")["settings"]
