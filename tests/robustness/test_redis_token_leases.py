"""Tokens of executions in Redis: claimed before the transaction is committed, and given back if it is not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError

from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.metrics import count_tokens, token_refusals
from admin.services import exchange_batches
from admin.store import token_grants
from admin.store.token_backends.base import Observer
from tests.conftest import MakeApp
from tests.support.agents import PlayedAgent, add, event_types, phase, played_agent, shown
from tests.support.apps import context_of
from tests.support.placing import API, explanation, get, ok
from tests.support.redis import RunningRedis, redis_server, running_redis
from tests.support.token_backends import opened_backend
from tests.support.waiting import wait_until

LEASE = 0.6
HIVE = {"token_pools": {"hive": 1}}


@pytest.fixture
def server() -> Iterator[RunningRedis]:
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    with running_redis() as server:
        yield server


@pytest.fixture
def app(request: pytest.FixtureRequest, make_app: MakeApp, server: RunningRedis) -> Iterator[Flask]:
    """An admin that keeps grants in Redis, with one token of a pool."""
    app = make_app()
    context = context_of(app)
    lease, observer = getattr(request, "param", LEASE), Observer(answered=count_tokens)
    with opened_backend(context.database, server.address, longest_lease_seconds=lease, observer=observer) as backend:
        app.extensions["rainbow"] = replace(context, tokens=backend)
        pool = {"token_pool": {"name": "hive", "capacity": 1}}
        ok(app.test_client().put(f"{API}/token_pools/hive", json=pool))
        yield app


def play(app: Flask, cluster: str) -> PlayedAgent:
    return played_agent(app.test_client(), context_of(app), cluster)


def used(agent: PlayedAgent) -> int:
    return int(get(agent.client, "token_pools/hive")["used"])


def test_tokens_are_granted_with_the_lease_and_given_back_at_the_end(app: Flask) -> None:
    here, there = play(app, "here"), play(app, "there")
    add(here, "e", **HIVE)
    add(there, "f", **HIVE)
    wait_until(lambda: bool(here.start(1)))  # a Redis that is new grants nothing for one lease
    assert there.offered(1) == {}
    assert phase(there, "f") == ("QUEUED", WAITING_FOR_TOKENS)
    here.finish(["e"])
    assert used(here) == 0
    assert there.start(1) == ["f"]


def test_what_waits_says_that_redis_is_down_and_goes_on_by_itself(app: Flask, server: RunningRedis) -> None:
    agent = play(app, "here")
    server.kill()
    add(agent, "e", **HIVE)
    add(agent, "plain")
    assert agent.start(2) == ["plain"]
    message = shown(agent, "e")["closure"]["reason"]["message"]
    assert message == "It waits for 1 token of hive. Redis does not answer: nothing is granted."
    server.start()
    wait_until(lambda: agent.start(1) == ["e"])
    assert phase(agent, "e") == ("RUNNING", "RUNNING")


def test_no_sync_waits_for_a_redis_that_hangs(app: Flask, server: RunningRedis) -> None:
    agent = play(app, "here")
    server.kill()
    add(agent, "e", **HIVE)
    assert agent.start(1) == []
    server.start()
    server.process.send_signal(signal.SIGSTOP)
    add(agent, "plain")
    assert agent.start(2) == ["plain"]
    assert "redis" in {thread.name for thread in threading.enumerate()}, "which still waits for an answer"
    server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: agent.start(1) == ["e"])


@pytest.mark.parametrize("app", [60.0], indirect=True)
def test_what_ends_while_redis_hangs_is_given_back_when_it_answers(app: Flask, server: RunningRedis) -> None:
    agent = play(app, "here")
    add(agent, "e", **HIVE)
    assert agent.start(1) == ["e"]
    server.process.send_signal(signal.SIGSTOP)
    agent.finish(["e"])
    server.process.send_signal(signal.SIGCONT)

    def is_given_back() -> bool:
        agent.sync()
        return used(agent) == 0

    wait_until(is_given_back)  # long before its lease is over


@pytest.mark.parametrize("app", [60.0], indirect=True)
def test_a_release_over_rest_wakes_those_that_wait(app: Flask) -> None:
    agent, context = play(app, "here"), context_of(app)
    claim = {"token": "etl", "pools": {"hive": 1}}
    held = ok(agent.client.post(f"{API}/token_allocations", json={"claim": claim}))
    add(agent, "e", **HIVE)
    assert agent.offered(1) == {}

    def releases() -> int:
        with context.database.reading() as connection:
            return token_grants.releases(connection)["hive"]

    before = releases()
    ok(agent.client.post(f"{API}/token_releases", json={"release": {**claim, "number": held["number"]}}))
    assert releases() > before
    assert agent.start(1) == ["e"]


@pytest.mark.parametrize("app", [3.0], indirect=True)
def test_the_explanation_says_that_a_flushed_redis_grants_nothing_yet(app: Flask, server: RunningRedis) -> None:
    from redis import Redis

    host, _, port = server.address.rpartition(":")
    agent = play(app, "here")
    add(agent, "d", **HIVE)
    add(agent, "e", **HIVE)
    wait_until(lambda: agent.start(2) == ["d"])
    told = explanation(agent.client, "e", project=agent.project)["status"]["message"]
    assert "the pool is full (1 of 1 held)" in told
    agent.finish(["d"])
    with Redis(host=host, port=int(port)) as client:
        client.flushall()
    reason = "Redis was restarted or flushed, or has lost grants: nothing is granted until all holders could renew."
    told = explanation(agent.client, "e", project=agent.project)["status"]["message"]
    assert told.endswith(f"it waits for 1 token of hive. {reason}")
    assert agent.client.get("/api/v1/token_pools/hive").get_json()["reason"] == reason
    assert agent.offered(1) == {}
    assert shown(agent, "e")["closure"]["reason"]["message"] == f"It waits for 1 token of hive. {reason}"
    wait_until(lambda: agent.start(1) == ["e"])


@pytest.mark.parametrize("app", [3.0], indirect=True)
def test_what_runs_keeps_its_tokens_when_redis_was_flushed(app: Flask, server: RunningRedis) -> None:
    from redis import Redis

    host, _, port = server.address.rpartition(":")
    agent = play(app, "here")
    add(agent, "d", **HIVE)
    add(agent, "e", **HIVE)
    wait_until(lambda: agent.start(2) == ["d"])
    with Redis(host=host, port=int(port)) as client:
        client.flushall()
    assert get(agent.client, "token_pools/hive")["used"] == 0

    def grants_again() -> bool:
        assert agent.offered(1) == {}  # and renews
        return "reason" not in get(agent.client, "token_pools/hive")

    wait_until(grants_again)
    assert (used(agent), agent.offered(1)) == (1, {})
    assert "TOKENS_LOST" not in event_types(agent.client, "d", agent.project)
    agent.finish(["d"])
    wait_until(lambda: agent.start(1) == ["e"])


@pytest.mark.parametrize("app", [60.0], indirect=True)
def test_a_wait_for_redis_is_counted_as_one_refusal_however_often_it_asks(app: Flask) -> None:
    agent = play(app, "here")
    add(agent, "d", **HIVE)
    wait_until(lambda: agent.start(1) == ["d"])
    before = token_refusals().get("hive", {}).get("pool", 0)
    add(agent, "e", **HIVE)
    for _ in range(3):
        assert agent.offered(1) == {}
    assert token_refusals()["hive"]["pool"] == before + 1


def test_tokens_are_given_back_if_the_transaction_fails(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = play(app, "here")
    add(agent, "e", **HIVE)

    def fail(*_: Any) -> None:
        raise OperationalError("commit", {}, Exception("the database is gone"))

    held: list[int] = []

    def fail_when_held(*arguments: Any) -> None:
        held.append(context_of(app).tokens.usage(["hive"])["hive"].used)
        if held[-1]:
            fail()

    with monkeypatch.context() as patched:
        patched.setattr(exchange_batches, "ask_for_bids", fail_when_held)
        wait_until(lambda: agent.post(want=1).status_code != 200)
    assert held[-1] == 1
    assert used(agent) == 0
    assert agent.start(1) == ["e"]
