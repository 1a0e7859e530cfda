"""Tokens in a real cluster of Redis: every operation, and a failover without losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Exhausted, Granted, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.store.database import Database
from admin.store.token_backends.base import PoolTotals, TokensUnavailable
from admin.store.token_backends.redis import RedisTokens
from admin.store.token_backends.redis_client import RedisSettings, connect, connect_briefly
from tests.support.databases import SqliteDatabases
from tests.support.redis import redis_server
from tests.support.redis_clusters import RunningCluster, running_cluster
from tests.support.token_backends import define, granted, opened_database, refused
from tests.support.waiting import wait_until

TAG, LEASE = "rainbow-tokens", 5.0


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    with running_cluster(TAG) as cluster:
        yield cluster


@pytest.fixture
def database(sqlite_databases: SqliteDatabases, tmp_path: Path) -> Iterator[Database]:
    with opened_database(sqlite_databases.set_up(tmp_path)) as database:
        define(database, {"hive": {"capacity": 2}, "spark": {"capacity": 2}})
        yield database


def claim(token: str, wait: float = 0.0, **pools: int) -> Claim:
    return Claim(token=token, amounts=pools, place=Scope("prod", "ads"), lease_seconds=LEASE, wait_seconds=wait)


def test_a_cluster_answers_as_a_server_does_and_loses_nothing_when_it_fails_over(
    cluster: RunningCluster, database: Database
) -> None:
    settings = RedisSettings(host_paths=cluster.addresses, max_retries=1)
    backend = RedisTokens(
        lambda: connect(settings),
        database,
        brief_client=lambda: connect_briefly(settings),
        longest_lease_seconds=LEASE,
        tag=TAG,
    )
    wait_until(lambda: isinstance(backend.allocate(claim("first", hive=1)), Granted))  # after its first lease
    assert granted(backend, claim("first", hive=1)).is_new is False
    held = granted(backend, claim("both", hive=1, spark=1))
    of_project = Scope(project="ads").path
    assert refused(backend, claim("waits", wait=30, hive=1)).place == 1
    assert backend.totals(["hive", "spark"]) == {"hive": PoolTotals(used=2, asking=1), "spark": PoolTotals(used=1)}
    assert backend.used(["hive"], [of_project])["hive"][of_project] == 2
    assert isinstance(backend.renew(Renewal.of(held.grants)), Renewed)
    assert backend.release(Release(token="first", pools=("hive",))) == Released(amounts={"hive": 1})
    assert backend.release(Release(token="first", pools=("hive",))) == NotHeld(pools=("hive",))

    assert isinstance(backend.renew(Renewal.of(held.grants)), Renewed)
    cluster.fail_over()

    def answers() -> bool:
        try:
            return isinstance(backend.renew(Renewal.of(held.grants)), Renewed)
        except TokensUnavailable:
            return False

    wait_until(answers)
    answer = backend.allocate(claim("other", hive=2))
    assert isinstance(answer, Exhausted), "one of two is held"
    assert "nothing is granted until all holders could renew" in answer.reason  # it is another server

    def is_open() -> bool:
        assert isinstance(backend.renew(Renewal.of(held.grants)), Renewed)
        return isinstance(backend.allocate(claim("waits", wait=30, hive=1)), Granted)

    wait_until(is_open)
    assert backend.totals(["hive"]) == {"hive": PoolTotals(used=2)}
    assert granted(backend, claim("both", hive=1, spark=1)).grants["hive"].number == held.grants["hive"].number
