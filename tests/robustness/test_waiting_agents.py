"""Agents that wait for news: many of them at little cost, and each woken only by what concerns it."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from admin.services.fleet import set_cordoned, set_draining
from admin.services.syncs import Answer, Sync, sync
from tests.conftest import MakeApp
from tests.support.admins import RunningAdmin, running_admin
from tests.support.placing import API, DOMAIN, PROJECT, asked, created, ok, put_pool
from tests.support.waiting import wait_until

AGENTS = 200


# In one process


@contextmanager
def waiting(context: Context, clusters: list[str], seconds: float = 20) -> Iterator[dict[str, Any]]:
    """The answers of agents that all wait, as they come; the agents are let go in the end."""
    answers: dict[str, Any] = {}

    def wait(cluster: str) -> None:
        answer = sync(context, Sync(cluster=cluster, agent="a", sequence=1, want=1, wait_seconds=seconds))
        answers[cluster] = (time.monotonic(), answer)

    with ThreadPoolExecutor(len(clusters)) as threads:
        for cluster in clusters:
            threads.submit(wait, cluster)
        wait_until(lambda: _heard(context) >= len(clusters))
        time.sleep(0.2)
        yield answers
        context.cluster_wakeups.close()


def _heard(context: Context) -> int:
    with context.database.reading() as connection:
        found = "SELECT count(*) FROM cluster_states WHERE last_sync_at IS NOT NULL"
        return int(connection.execute(text(found)).scalar() or 0)


def test_who_waits_holds_no_connection_and_is_woken_only_for_a_reason(app: Flask, context: Context) -> None:
    names = [f"c{number:02}" for number in range(40)]
    put_pool(app.test_client(), "all", names)
    with waiting(context, names) as answers:
        pool: Any = context.database.engine.pool
        held = []
        for _ in range(100):
            held.append(pool.checkedout())
            time.sleep(0.01)
        assert statistics.median(held) <= 1  # one looks for all
        assert answers == {}
        began = time.monotonic()
        created(app.test_client(), "e", cluster="c07")
        wait_until(lambda: "c07" in answers)
        set_cordoned(context, "c11", True, None, None)
        set_draining(context, "c13", True, None, None, None)
        wait_until(lambda: {"c11", "c13"} <= answers.keys())
        time.sleep(0.2)
        assert answers.keys() == {"c07", "c11", "c13"}
        at, answer = answers["c07"]
        assert [row.name for row in answer.leases] == ["e"]
        assert at - began < 2
        assert (answers["c11"][1].state.cordoned, answers["c13"][1].state.draining) == (True, True)
        ended = time.monotonic()
    assert len(answers) == len(names)  # everybody was let go
    assert time.monotonic() - ended < 5


def test_a_sync_waits_as_long_as_it_is_told_and_no_longer_than_is_allowed(make_app: MakeApp) -> None:
    app = make_app(agents={"waitSeconds": 1})
    context: Context = app.extensions["rainbow"]
    put_pool(app.test_client(), "all", ["a"])

    def timed(seconds: float, **said: Any) -> tuple[float, Answer]:
        began = time.monotonic()
        answer = sync(context, Sync(cluster="a", agent="a", sequence=1, wait_seconds=seconds, **said))
        return time.monotonic() - began, answer

    assert timed(0)[0] < 0.5
    assert 0.25 < timed(0.3)[0] < 1
    assert 0.95 < timed(30)[0] < 3
    created(app.test_client(), "e", cluster="a")
    took, answer = timed(30, want=1)
    assert (took < 0.7, len(answer.leases)) == (True, 1)


def test_an_attempt_that_backs_off_wakes_its_agent_when_its_time_has_come(app: Flask, context: Context) -> None:
    api = app.test_client()
    put_pool(api, "all", ["a"])
    token = agents.rotate(context, "a", 0).token
    call = _Call(api, token)
    created(api, "e", cluster="a", retry={"attempts": 2, "backoff": "700ms"})
    assert call.sync(want=1)["leases"]
    held = {"id": {"project": PROJECT, "domain": DOMAIN, "name": "e"}, "attempt": 1}
    call.sync(holding=[held])
    began = time.monotonic()
    call.sync(events=[{**held, "event": "x", "type": "FAILED"}])
    answer = call.sync(want=1, wait_seconds=20)
    assert [lease["attempt"] for lease in answer["leases"]] == [2]
    assert 0.7 <= time.monotonic() - began < 3


class _Call:
    """An agent's calls, one after the other."""

    def __init__(self, api: FlaskClient, token: str) -> None:
        self._api, self._token, self._sequence = api, token, 0

    def sync(self, **said: Any) -> Any:
        self._sequence += 1
        body = {"agent": "a", "sequence": self._sequence, **said}
        headers = {"Authorization": f"Bearer {self._token}"}
        return ok(self._api.post(f"{API}/clusters/a/sync", json=body, headers=headers))


# Against a running admin


class WaitingAgent(threading.Thread):
    """Waits for a lease, says when it came, and goes on waiting until it is told to stop."""

    def __init__(self, admin: RunningAdmin, cluster: str, token: str) -> None:
        super().__init__(name=cluster, daemon=True)
        self.cluster = cluster
        self.leases: dict[str, float] = {}  #: when each came, by name
        self.problems: list[str] = []
        self._address = urlsplit(admin.url).netloc
        self._token = token
        self.is_stopping = False

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=40)
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
                self.leases[lease["id"]["name"]] = time.monotonic()
                holding.append({"id": lease["id"], "attempt": lease["attempt"]})
        connection.close()

    def _note(self, problem: str) -> None:
        if not self.is_stopping:
            self.problems.append(problem)


@pytest.fixture
def tokens(make_app: MakeApp) -> dict[str, str]:
    """Two hundred clusters with a token each, in the database that an admin is started on."""
    app = make_app()
    names = [f"c{number:03}" for number in range(AGENTS)]
    put_pool(app.test_client(), "all", names)
    context: Context = app.extensions["rainbow"]
    with context.database.writing() as connection:
        return {name: agents._issue(context, connection, name).token for name in names}


def test_two_hundred_agents_wait_and_a_creation_wakes_the_right_one_at_once(
    tmp_path: Path, database_url: str, tokens: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with running_admin(tmp_path, database=database_url) as admin:
        crowd = [WaitingAgent(admin, cluster, token) for cluster, token in tokens.items()]
        for agent in crowd:
            agent.start()
        wait_until(lambda: _all_ready(admin, crowd), 180, interval=0.5)
        if database_url.startswith("postgresql"):
            assert _connections(database_url) < 50  # two workers and their pools, not an agent each
        reads = _timed(lambda number: admin.get(f"{API}/clusters/c{number:03}"), range(0, AGENTS, 5))
        wakes = _wakes(admin, crowd)
        for agent in crowd:
            agent.is_stopping = True
        assert _problems(crowd) == []
        began = time.monotonic()
        assert admin.stop() == 0
        stopped = time.monotonic() - began
    for agent in crowd:
        agent.join(10)
    assert not any(agent.is_alive() for agent in crowd)
    with capsys.disabled():
        kind = database_url.partition(":")[0].partition("+")[0]
        print(
            f"\n{AGENTS} agents wait on {kind}: a creation wakes its agent after {_said(wakes)}, "
            f"a read takes {_said(reads)}, stopping takes {stopped:.1f} s"
        )
    assert statistics.median(wakes) < 0.5
    assert statistics.median(reads) < 0.5
    assert max(reads) < 5
    assert stopped < 15


def _problems(crowd: list[WaitingAgent]) -> list[tuple[str, list[str]]]:
    return [(agent.cluster, agent.problems) for agent in crowd if agent.problems]


def _all_ready(admin: RunningAdmin, crowd: list[WaitingAgent]) -> bool:
    assert _problems(crowd) == []
    found = admin.get(f"{API}/clusters?limit=1000").json()["clusters"]
    return [one["state"] for one in found].count("ready") == AGENTS


def _timed(act: Callable[[int], Any], numbers: range) -> list[float]:
    """How long each act takes, in seconds."""
    times = []
    for number in numbers:
        began = time.monotonic()
        assert act(number).status_code == 200
        times.append(time.monotonic() - began)
    return times


def _wakes(admin: RunningAdmin, crowd: list[WaitingAgent]) -> list[float]:
    """How long after an execution was created its agent heard of it, and nobody else did."""
    times = []
    with requests.Session() as session:
        for number in range(0, AGENTS, 7):
            name = f"e{number}"
            body = asked(name, cluster=crowd[number].cluster)
            answer = session.post(f"{admin.url}{API}/executions", json=body, timeout=10)
            at = time.monotonic()
            assert answer.status_code == 200, answer.text
            wait_until(lambda number=number, name=name: name in crowd[number].leases)  # type: ignore[misc]
            times.append(crowd[number].leases[name] - at)
    assert [len(agent.leases) for agent in crowd] == [int(number % 7 == 0) for number in range(AGENTS)]
    return times


def _connections(database_url: str) -> int:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        found = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        count = int(connection.execute(text(found)).scalar() or 0)
    engine.dispose()
    return count


def _said(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(ordered) * 1000:.0f} ms (at most {ordered[-1] * 1000:.0f} ms)"
