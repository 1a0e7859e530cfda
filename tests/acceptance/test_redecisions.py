"""A real admin decides waiting executions again by itself, whichever of its workers leads."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy

from tests.support.admins import RunningAdmin, running_admin

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
        """One call, sent again where a worker dies before it answers; all of them may be repeated."""
        deadline = time.monotonic() + 10
        while True:
            try:
                answer = requests.request(method, f"{self._base}/{path}", json=body, timeout=10)
                break
            except requests.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def create(self, name: str) -> Any:
        spec = {"job": {"command": ["true"]}, "cluster_assignment": {"cluster_pool_name": "gpu"}}
        body = {"project": "flytesnacks", "domain": "development", "name": name, "spec": spec}
        return self("POST", "executions", body)["execution"]

    def switch(self, cluster: str, word: str) -> datetime:
        """When it was switched."""
        self("POST", f"clusters/{cluster}/{word}", {})
        return datetime.fromisoformat(self("GET", f"clusters/{cluster}/events?limit=1")["events"][0]["at"])

    def decided_at(self, name: str, cluster: str | None) -> datetime:
        """When an execution was decided to go to a cluster; waits for it without doing anything."""
        path = f"executions/flytesnacks/development/{name}"
        deadline = time.monotonic() + 20
        while (found := self("GET", f"{path}?wait_seconds=0")).get("cluster") != cluster:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return datetime.fromisoformat(self("GET", f"{path}/events")["events"][-1]["at"])


@contextmanager
def started(directory: Path, workers: int, database: str | None = None) -> Iterator[RunningAdmin]:
    config = directory / "rainbow.yaml"
    config.write_text(CONFIGURATION)
    with running_admin(directory, "--config", str(config), "--workers", str(workers), database=database) as admin:
        yield admin


def waiting_of_a_cordoned_pool(api: Api, name: str) -> None:
    for cluster in ("a", "b"):
        api.switch(cluster, "cordon")
    found = api.create(name)
    assert (found["closure"]["phase"], found["closure"]["reason"]["code"]) == ("QUEUED", "CLUSTERS_CORDONED")


@pytest.mark.parametrize("workers", [1, 2])
def test_uncordoning_a_cluster_places_what_waits_within_a_second(tmp_path: Path, workers: int) -> None:
    with started(tmp_path, workers) as admin:
        api = Api(admin)
        for turn, cluster in enumerate(("b", "a")):
            waiting_of_a_cordoned_pool(api, f"e{turn}")
            switched = api.switch(cluster, "uncordon")
            assert (api.decided_at(f"e{turn}", cluster) - switched).total_seconds() < 1


def sqlite_holder(directory: Path) -> str:
    with closing(sqlite3.connect(directory / "rainbow.db")) as connection:
        return str(connection.execute("SELECT holder FROM loop_leases").fetchone()[0])


def postgresql_holder(url: str) -> str:
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT holder FROM loop_leases").scalar_one()
    engine.dispose()
    return str(found)


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
        killed = time.monotonic()
        switched = api.switch("a", "uncordon")
        moved = api.decided_at("before", "a")
        assert (moved - switched).total_seconds() < 8  # the lease of a second, and what starting a worker takes
        assert time.monotonic() - killed < 15
        assert holder() != leader
        waiting_of_a_cordoned_pool(api, "after")
        switched = api.switch("b", "uncordon")
        assert (api.decided_at("after", "b") - switched).total_seconds() < 1
