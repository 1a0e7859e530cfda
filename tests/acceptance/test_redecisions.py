"""A real admin decides waiting executions again by itself, whichever of its workers leads."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy

from tests.support.admins import RunningAdmin, running_admin
from tests.support.waiting import wait_until

CONFIGURATION = """
clusters:
  poolNameClusterMap:
    gpu: [{id: a}, {id: b}]
loops: {leaseSeconds: 1}
"""


class Api:
    """The few calls of a running admin that these tests need."""

    def __init__(self, admin: RunningAdmin) -> None:
        self._base = f"{admin.url}/api/v1"

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """One call, sent again if a worker dies before it answers; every call here is safe to repeat."""
        answers: list[requests.Response] = []

        def is_answered() -> bool:
            try:
                answers.append(requests.request(method, f"{self._base}/{path}", json=body, timeout=60))
            except (requests.ConnectionError, requests.Timeout):
                return False
            return True

        wait_until(is_answered, interval=0.05, explain=lambda: f"{method} {path} is not answered")
        assert answers[0].status_code == 200, answers[0].text
        return answers[0].json()

    def create(self, name: str) -> Any:
        spec = {"job": {"command": ["true"]}, "cluster_assignment": {"cluster_pool_name": "gpu"}}
        body = {"project": "flytesnacks", "domain": "development", "name": name, "spec": spec}
        return self("POST", "executions", body)["execution"]

    def switch(self, cluster: str, word: str) -> None:
        self("POST", f"clusters/{cluster}/{word}", {})

    def wait_for_decision(self, name: str, cluster: str) -> None:
        """Return when an execution was decided to go to a cluster."""
        path = f"executions/flytesnacks/development/{name}"
        wait_until(
            lambda: self("GET", path).get("cluster") == cluster, explain=lambda: f"{name} is {self('GET', path)}"
        )
        assert self("GET", f"{path}/events")["events"][-1]["type"] == "DECIDED"


@contextmanager
def started(directory: Path, workers: int, database: str | None = None) -> Iterator[RunningAdmin]:
    config = directory / "rainbow.yaml"
    config.write_text(CONFIGURATION)
    with running_admin(directory, "--config", str(config), "--workers", str(workers), database=database) as admin:
        yield admin


def waiting_of_a_cordoned_pool(api: Api, name: str) -> None:
    for cluster in ("a", "b"):
        api.switch(cluster, "cordon")
    closure = api.create(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("QUEUED", "CLUSTERS_CORDONED")


@pytest.mark.parametrize("workers", [1, 2])
def test_uncordoning_a_cluster_places_what_waits(tmp_path: Path, workers: int) -> None:
    with started(tmp_path, workers) as admin:
        api = Api(admin)
        for turn, cluster in enumerate(("b", "a")):
            waiting_of_a_cordoned_pool(api, f"e{turn}")
            api.switch(cluster, "uncordon")
            api.wait_for_decision(f"e{turn}", cluster)


def sqlite_holder(directory: Path) -> str:
    with closing(sqlite3.connect(directory / "rainbow.db")) as connection:
        return str(connection.execute("SELECT holder FROM loop_leases WHERE name = 'background'").fetchone()[0])


def postgresql_holder(url: str) -> str:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        query = "SELECT holder FROM loop_leases WHERE name = 'background'"
        return str(connection.exec_driver_sql(query).scalar_one())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_after_the_leading_worker_is_killed_another_one_goes_on(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url: str | None = None
    if kind == "postgresql":
        new_database: Callable[[], str] = request.getfixturevalue("new_postgresql_database")
        url = new_database()

    def holder() -> str:
        return postgresql_holder(url) if url else sqlite_holder(tmp_path)

    with started(tmp_path, 2, url) as admin:
        api = Api(admin)
        waiting_of_a_cordoned_pool(api, "before")
        leader = holder()
        os.kill(int(leader.split(":")[1]), signal.SIGKILL)
        api.switch("a", "uncordon")
        api.wait_for_decision("before", "a")
        assert holder() != leader
        waiting_of_a_cordoned_pool(api, "after")
        api.switch("b", "uncordon")
        api.wait_for_decision("after", "b")
