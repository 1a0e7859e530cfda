"""Agents that wait for work: many of them at little cost, and each woken only for a reason."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import create_engine, text

from admin.services import agents
from admin.services.context import Context
from admin.services.exchanges import Sync, SyncResult
from admin.services.switches import switch_clusters
from admin.services.syncs import sync
from admin.store.cache.cluster_wakeups import ClusterWakeups, Wait
from tests.conftest import MakeApp, Scale
from tests.support.admins import RunningAdmin, running_admin
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, asked, created, ok, put_pool
from tests.support.waiting import wait_until

# In one process


def set_wait(app: Flask, wait: Wait, **more: Any) -> Context:
    """Let the agents of an app wait in another way."""
    context = context_of(app)
    wakeups = ClusterWakeups(context.database, wait)
    app.extensions["rainbow"] = context = replace(context, cluster_wakeups=wakeups, **more)
    return context


class EndlessWaits:
    """Waits that end only when somebody is woken; a thread is known by its name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Event] = {}
        self.woken: Counter[str] = Counter()

    def __call__(self, event: threading.Event, _seconds: float) -> bool:
        name = threading.current_thread().name
        with self._lock:
            self._waiting[name] = event
        event.wait()
        with self._lock:
            del self._waiting[name]
            self.woken[name] += 1
        return True

    def are_asleep(self, number: int) -> bool:
        """Whether so many threads wait, and none of them is about to wake."""
        with self._lock:
            return len(self._waiting) == number and not any(event.is_set() for event in self._waiting.values())


@contextmanager
def waiting_agents(context: Context, clusters: list[str]) -> Iterator[dict[str, SyncResult]]:
    """The answers of agents that all wait, as they come; those that still wait at the end are woken."""
    answers: dict[str, SyncResult] = {}

    def wait(cluster: str) -> None:
        answers[cluster] = sync(context, Sync(cluster=cluster, agent="a", sequence=1, want=1, wait_seconds=20))

    threads = [threading.Thread(target=wait, args=(cluster,), name=cluster) for cluster in clusters]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        context.cluster_wakeups.close()
        for thread in threads:
            thread.join()


def test_waiting_agents_hold_no_connection_and_are_woken_only_for_a_reason(app: Flask) -> None:
    names = [f"c{number:02}" for number in range(40)]
    put_pool(app.test_client(), "all", names)
    waits = EndlessWaits()
    context = set_wait(app, waits)
    with waiting_agents(context, names) as answers:
        wait_until(lambda: waits.are_asleep(40))
        # The first look wakes everybody. Once it has woken this agent for its execution, that look is over.
        created(app.test_client(), "first", cluster="c39")
        wait_until(lambda: "c39" in answers and waits.are_asleep(39))
        assert answers.keys() == {"c39"}
        pool: Any = context.database.engine.pool
        assert max(pool.checkedout() for _ in range(1000)) <= 1  # one thread looks for all of them
        before = Counter(waits.woken)
        created(app.test_client(), "e", cluster="c07")
        wait_until(lambda: "c07" in answers)
        switch_clusters(context, "cordon", ["c11"])
        switch_clusters(context, "drain", ["c13"])
        wait_until(lambda: {"c11", "c13"} <= answers.keys() and waits.are_asleep(36))
        assert (waits.woken - before).keys() == {"c07", "c11", "c13"}
        assert answers.keys() == {"c07", "c11", "c13", "c39"}
        assert [lease.name for lease in answers["c07"].leases] == ["e"]
        assert (answers["c11"].state.cordoned, answers["c13"].state.draining) == (True, True)
    assert answers.keys() == set(names)  # closing has woken the others


class StandingTime:
    """Time that passes only while somebody waits, by as long as they wait."""

    def __init__(self) -> None:
        self.seconds = 0.0  #: that have passed

    def monotonic(self) -> float:
        return self.seconds

    def clock(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        self.seconds += seconds
        return False

    def set(self, app: Flask) -> Context:
        return set_wait(app, self.wait, monotonic=self.monotonic, clock=self.clock)


@pytest.mark.parametrize(("asked_seconds", "waited_seconds"), [(0, 0), (0.3, 0.3), (30, 1)])
def test_a_sync_waits_as_long_as_it_asks_and_no_longer_than_is_allowed(
    make_app: MakeApp, asked_seconds: float, waited_seconds: float
) -> None:
    app = make_app(agents={"waitSeconds": 1})
    put_pool(app.test_client(), "all", ["a"])
    time = StandingTime()
    answer = sync(time.set(app), Sync(cluster="a", agent="a", sequence=1, wait_seconds=asked_seconds))
    assert (answer.leases, time.seconds) == ([], waited_seconds)


def test_a_sync_does_not_wait_while_there_is_work(app: Flask) -> None:
    put_pool(app.test_client(), "all", ["a"])
    time = StandingTime()
    context = time.set(app)
    created(app.test_client(), "e", cluster="a")
    answer = sync(context, Sync(cluster="a", agent="a", sequence=1, want=1, wait_seconds=30))
    assert (len(answer.leases), time.seconds) == (1, 0)


def test_an_attempt_that_backs_off_is_offered_to_a_waiting_agent_when_its_time_has_come(app: Flask) -> None:
    api = app.test_client()
    put_pool(api, "all", ["a"])
    time = StandingTime()
    context = time.set(app)
    agent = _Agent(api, agents.rotate(context, "a", 0).token)
    created(api, "e", cluster="a", retry={"attempts": 2, "backoff": "7s"})
    assert agent.sync(want=1)["leases"]
    lease = {"id": {"project": PROJECT, "domain": DOMAIN, "name": "e"}, "attempt": 1}
    agent.sync(holding=[lease])
    agent.sync(events=[{**lease, "event": "x", "type": "FAILED"}])
    assert agent.sync(want=1)["leases"] == []
    answer = agent.sync(want=1, wait_seconds=20)
    assert [lease["attempt"] for lease in answer["leases"]] == [2]
    assert time.seconds == 7


class _Agent:
    """The agent of cluster a, which makes one call after the other."""

    def __init__(self, api: FlaskClient, token: str) -> None:
        self._api, self._token, self._sequence = api, token, 0

    def sync(self, **fields: Any) -> Any:
        self._sequence += 1
        body = {"agent": "a", "sequence": self._sequence, **fields}
        headers = {"Authorization": f"Bearer {self._token}"}
        return ok(self._api.post(f"{API}/clusters/a/sync", json=body, headers=headers))


# Against a running admin


class WaitingAgent(threading.Thread):
    """Waits for leases over HTTP until it is told to stop."""

    def __init__(self, admin: RunningAdmin, cluster: str, token: str) -> None:
        super().__init__(name=cluster, daemon=True)
        self.cluster = cluster
        self.leases: list[str] = []  #: names of executions
        self.problems: list[str] = []
        self._address = urlsplit(admin.url).netloc
        self._token = token
        self.is_stopping = False

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        holding: list[dict[str, Any]] = []
        sequence = 0
        while not self.is_stopping:
            sequence += 1
            body = {"agent": "a", "sequence": sequence, "want": 5, "holding": holding, "wait_seconds": 30}
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            try:
                connection.request("POST", f"{API}/clusters/{self.cluster}/sync", json.dumps(body), headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
            except OSError as error:
                self._note(f"{type(error).__name__}: {error}")
                return
            if response.status != 200:
                self._note(str(answer))
                return
            for lease in answer["leases"]:
                self.leases.append(lease["id"]["name"])
                holding.append({"id": lease["id"], "attempt": lease["attempt"]})
        connection.close()

    def _note(self, problem: str) -> None:
        if not self.is_stopping:
            self.problems.append(problem)


def test_many_agents_wait_and_a_creation_wakes_the_right_one(
    tmp_path: Path, make_app: MakeApp, database_url: str, scale: Scale
) -> None:
    names = [f"c{number:03}" for number in range(scale(60, full=200))]
    app = make_app()
    put_pool(app.test_client(), "all", names)
    tokens = {name: agents.rotate(app.extensions["rainbow"], name, 0).token for name in names}
    with running_admin(tmp_path, database=database_url) as admin:
        crowd = [WaitingAgent(admin, cluster, token) for cluster, token in tokens.items()]
        for agent in crowd:
            agent.start()
        wait_until(lambda: _are_ready(admin, crowd), 180, interval=0.5)
        if database_url.startswith("postgresql"):
            assert _connections(database_url) < 50  # two workers and their pools, not one for each agent
        chosen = crowd[::7]
        with requests.Session() as session:
            for agent in chosen:
                body = asked(f"e-{agent.cluster}", cluster=agent.cluster)
                answer = session.post(f"{admin.url}{API}/executions", json=body, timeout=30)
                assert answer.status_code == 200, answer.text
        wait_until(lambda: all(agent.leases for agent in chosen))
        assert {agent.cluster: agent.leases for agent in crowd if agent.leases} == {
            agent.cluster: [f"e-{agent.cluster}"] for agent in chosen
        }
        for agent in crowd:
            agent.is_stopping = True
        assert _problems(crowd) == []
        assert admin.stop() == 0  # although all of them still wait
    for agent in crowd:
        agent.join(60)
    assert not any(agent.is_alive() for agent in crowd)


def _problems(crowd: list[WaitingAgent]) -> list[tuple[str, list[str]]]:
    return [(agent.cluster, agent.problems) for agent in crowd if agent.problems]


def _are_ready(admin: RunningAdmin, crowd: list[WaitingAgent]) -> bool:
    assert _problems(crowd) == []
    clusters = admin.get(f"{API}/clusters?limit=1000").json()["clusters"]
    return [cluster["state"] for cluster in clusters].count("ready") == len(crowd)


def _connections(database_url: str) -> int:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        count = int(connection.execute(text(query)).scalar() or 0)
    engine.dispose()
    return count
