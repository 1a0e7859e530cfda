"""Concurrent creations, switches, reports, redecisions and terminations: nothing is doubled, overfilled or lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select

from admin.services.context import Context
from admin.services.queueing_budgets import end_overdue
from admin.services.redecisions import decide_waiting
from admin.store.decisions import decisions
from admin.store.execution_tables import execution_events, executions
from tests.conftest import Scale
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    create,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    report,
    row_counts,
)
from tests.support.threads import at_once, repeat_together

TWENTY = 20


def post(body: dict[str, Any], **headers: str) -> Callable[[FlaskClient], Any]:
    return lambda client: client.post(f"{API}/executions", json=body, headers=headers)


def stored(context: Context) -> list[Any]:
    with context.database.reading() as connection:
        return list(connection.execute(select(executions).order_by(executions.c.id)))


# One name


def test_twenty_who_send_one_request_at_once_make_one_execution(app: Flask, context: Context) -> None:
    answers = at_once(app, [post(asked("same"))] * TWENTY)
    assert [answer.status_code for answer in answers] == [200] * TWENTY
    assert sorted(answer.get_json()["created"] for answer in answers) == [False] * (TWENTY - 1) + [True]
    assert len({str(answer.get_json()["execution"]) for answer in answers}) == 1
    counts = row_counts(context)
    assert (counts["executions"], counts["decisions"], counts["execution_events"]) == (1, 1, 1)


def test_twenty_who_send_one_idempotency_key_at_once_make_one_execution(app: Flask, context: Context) -> None:
    answers = at_once(app, [post(asked(), **{"Idempotency-Key": "nightly/7"})] * TWENTY)
    assert sorted(answer.get_json()["created"] for answer in answers) == [False] * (TWENTY - 1) + [True]
    assert len({answer.get_json()["id"]["name"] for answer in answers}) == 1
    assert row_counts(context)["executions"] == 1


def test_of_twenty_different_requests_of_one_name_one_wins_and_the_others_are_told(
    app: Flask, context: Context
) -> None:
    answers = at_once(app, [post(asked("same", max_parallelism=number)) for number in range(TWENTY)])
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (TWENTY - 1)
    assert {answer.get_json()["error"] for answer in answers if answer.status_code == 409} == {"execution_exists"}
    [row] = stored(context)
    [won] = [answer.get_json()["execution"] for answer in answers if answer.status_code == 200]
    assert row.request["spec"]["max_parallelism"] == won["spec"]["max_parallelism"]


def test_one_version_registered_by_twenty_at_once_is_one(app: Flask, context: Context) -> None:
    body = {
        "id": {"project": PROJECT, "domain": DOMAIN, "name": "wf", "version": "v1"},
        "spec": {"job": {"command": ["true"]}},
    }
    answers = at_once(app, [lambda client: client.post(f"{API}/workflows", json=body)] * TWENTY)
    assert sorted(answer.get_json()["created"] for answer in answers) == [False] * (TWENTY - 1) + [True]
    assert row_counts(context)["workflows"] == 1


def test_of_versions_activated_at_once_one_is_active(app: Flask) -> None:
    api = app.test_client()
    id = {"project": PROJECT, "domain": DOMAIN, "name": "wf", "version": "v1"}
    ok(api.post(f"{API}/workflows", json={"id": id, "spec": {"job": {"command": ["true"]}}}))

    def register(number: int) -> Callable[[FlaskClient], Any]:
        body = {"id": {**id, "version": f"v{number}"}, "state": "ACTIVE", "spec": {"workflow_id": id}}
        return lambda client: client.post(f"{API}/launch_plans", json=body)

    answers = at_once(app, [register(number) for number in range(8)])
    assert [(answer.status_code, answer.get_json()["created"]) for answer in answers] == [(200, True)] * 8
    plans = ok(api.get(f"{API}/launch_plans/{PROJECT}/{DOMAIN}/wf"))["launch_plans"]
    assert Counter(plan["state"] for plan in plans) == {"ACTIVE": 1, "INACTIVE": 7}


def test_an_execution_that_many_terminate_at_once_ends_once(app: Flask, context: Context) -> None:
    ok(create(app.test_client(), "e"))
    path = f"{API}/executions/{PROJECT}/{DOMAIN}/e"
    answers = at_once(app, [lambda client: client.delete(path, json={"cause": "enough"})] * 10)
    assert sorted(answer.get_json()["changed"] for answer in answers) == [False] * 9 + [True]
    assert row_counts(context)["execution_events"] == 2


# Room


@pytest.mark.parametrize("strategy", ["spill", "least-loaded"])
def test_forty_who_create_between_two_reports_overfill_no_cluster(app: Flask, context: Context, strategy: str) -> None:
    api = app.test_client()
    rooms = {"a": 40, "b": 55, "c": 15}
    put_pool(api, "gpu", list(rooms), strategy=strategy)
    for name, room in rooms.items():
        report(api, name, capacity={"executions": 100}, free={"executions": room})

    def creator(number: int) -> list[int]:
        client = app.test_client()
        return [create(client, f"e{number}-{turn}", **pool("gpu")).status_code for turn in range(3)]

    with ThreadPoolExecutor(40) as threads:
        codes = [code for answers in threads.map(creator, range(40)) for code in answers]
    assert codes == [200] * 120
    assert Counter(row.cluster for row in stored(context)) == {"a": 40, "b": 55, "c": 15, None: 10}
    assert {row.reason for row in stored(context) if row.cluster is None} == {"CLUSTERS_FULL"}
    shown = {name: ok(api.get(f"{API}/clusters/{name}"))["free"]["executions"] for name in rooms}
    assert shown == {"a": 0, "b": 0, "c": 0}


def test_redecisions_and_creations_at_once_overfill_no_cluster(app: Flask, context: Context) -> None:
    api = app.test_client()
    put_cluster(api, "old")
    put_pool(api, "first", ["old"])
    put_pool(api, "gpu", ["a", "b"], strategy="least-loaded")
    for name in ("a", "b"):
        report(api, name, capacity={"executions": 100}, free={"executions": 10})
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "first"})
    for number in range(15):
        ok(create(api, f"old{number}"))
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    selector = {"selector": {"pool": "first"}}
    requests: list[Callable[[FlaskClient], Any]] = [post(asked(f"new{number}")) for number in range(12)]
    requests += [lambda client: client.post(f"{API}/executions/redecide", json=selector)] * 4
    answers = at_once(app, requests)
    assert [answer.status_code for answer in answers] == [200] * 16
    assert Counter(row.cluster for row in stored(context)) == {"a": 10, "b": 10, None: 7}


# Everything at once


def check_history(context: Context) -> None:
    """Every execution says of itself what its decisions and events say."""
    with context.database.reading() as connection:
        rows = {row.id: row for row in connection.execute(select(executions))}
        decided = list(connection.execute(select(decisions).order_by(decisions.c.execution_id, decisions.c.number)))
        events = connection.execute(
            select(execution_events.c.execution_id, func.count(), func.max(execution_events.c.number)).group_by(
                execution_events.c.execution_id
            )
        ).all()
    last = {decision.execution_id: decision for decision in decided}
    counts = Counter(decision.execution_id for decision in decided)
    assert set(last) == set(rows)
    for row in rows.values():
        assert (row.decisions, row.decisions) == (counts[row.id], last[row.id].number)
        assert row.cluster == last[row.id].cluster
        if row.phase == "QUEUED":
            assert row.reason == last[row.id].reason
    assert {execution_id: (number, last) for execution_id, number, last in events} == {
        row.id: (row.events, row.events) for row in rows.values()
    }


def test_creating_switching_reporting_asking_and_ending_at_once_leave_one_consistent_story(
    app: Flask, context: Context, scale: Scale
) -> None:
    api = app.test_client()
    put_pool(api, "gpu", ["a", "b", "c"], strategy="spill")
    put_pool(api, "base", {"b": 1, "c": 2, "d": 3})
    put_label(api, "sunny", ["d"])
    for name in ("a", "b"):
        report(api, name, capacity={"executions": 50}, free={"executions": 20})

    def acting(number: int, acts: list[Callable[[FlaskClient, random.Random, int], Any]]) -> Callable[[], None]:
        client, dice, turns = app.test_client(), random.Random(number), count(1)

        def act() -> None:
            answer = dice.choice(acts)(client, dice, next(turns) * 100 + number)
            assert answer is None or answer.status_code in (200, 404, 409), answer.get_data(as_text=True)

        return act

    def creates(client: FlaskClient, dice: random.Random, number: int) -> Any:
        place = dice.choice([pool("gpu"), pool("base"), {"execution_cluster_label": {"value": "sunny"}}])
        return create(client, f"e{number}", **place)

    def switches(client: FlaskClient, dice: random.Random, _: int) -> Any:
        word = dice.choice(["cordon", "uncordon"])
        return client.post(f"{API}/clusters/{dice.choice('abcd')}/{word}", json={})

    def reports(client: FlaskClient, dice: random.Random, _: int) -> Any:
        body = {"capacity": {"executions": 50}, "free": {"executions": dice.randrange(30)}}
        return client.put(f"{API}/clusters/{dice.choice('ab')}/state", json=body)

    def defines(client: FlaskClient, dice: random.Random, _: int) -> Any:
        weights = {name: dice.randrange(1, 4) for name in "bcd"}
        body = {"members": [{"id": name, "weight": weight} for name, weight in weights.items()]}
        return client.put(f"{API}/pools/base", json={"pool": body})

    def ends_one(client: FlaskClient, dice: random.Random, number: int) -> Any:
        name = f"e{dice.randrange(1, 40) * 100 + dice.randrange(4)}"
        return client.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/{name}", json={})

    def asks(client: FlaskClient, dice: random.Random, _: int) -> Any:
        selector = {"cluster": dice.choice("abcd"), "filters": f"contains(name,{dice.randrange(10)})"}
        return client.post(f"{API}/executions/redecide", json={"selector": selector})

    def decides(client: FlaskClient, dice: random.Random, _: int) -> None:
        decide_waiting(context)
        end_overdue(context)

    groups: list[list[Callable[[FlaskClient, random.Random, int], Any]]] = [
        [creates],
        [creates],
        [creates],
        [creates],
        [switches, reports, defines],
        [ends_one, asks],
        [asks, reports],
        [decides],
    ]
    threads = {f"thread {number}": acting(number, acts) for number, acts in enumerate(groups)}
    # Each decision looks at all that waits: executions are created only as fast as they are decided.
    creating = [name for name, acts in zip(threads, groups, strict=True) if acts == [creates]]
    repeat_together(threads, scale(10, full=100), paced=creating)
    decide_waiting(context)
    check_history(context)
    clusters = {cluster["name"]: cluster for cluster in ok(api.get(f"{API}/clusters"))["clusters"]}
    waiting = Counter(row.cluster for row in stored(context) if row.phase == "QUEUED" and row.cluster)
    assert not any(clusters[name]["cordoned"] for name in waiting)
    assert {name: clusters[name]["waiting"] for name in waiting} == dict(waiting)
