"""Redis restarted, flushed, paused and out of reach under load: never too many holders, and it goes on by itself."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Granted, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.store.token_backends.base import TokenBackend, TokensUnavailable
from admin.store.token_backends.redis_client import RedisSettings, connect
from tests.support.databases import SqliteDatabases
from tests.support.redis import RunningRedis, redis_server, running_redis
from tests.support.token_backends import define, opened_backend, opened_database
from tests.support.waiting import wait_until

LEASE, CAPACITY, THREADS = 0.6, 3, 8


@pytest.fixture
def server() -> Iterator[RunningRedis]:
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    with running_redis("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


class Holders:
    """Threads that take a token, renew it for a while and give it back; each knows until when it surely holds it."""

    def __init__(self, backend: TokenBackend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._ends: dict[str, float] = {}
        self._stopped = threading.Event()
        self.most = 0
        self.grants = 0
        self.failures = 0

    def work(self, name: str) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                self._hold(f"{name}-{number}")
            except TokensUnavailable:
                self.failures += 1
                self._stopped.wait(0.02)

    def stop(self) -> None:
        self._stopped.set()

    def _hold(self, token: str) -> None:
        asked_at = time.monotonic()
        place = Scope("prod", "ads")
        answer = self._backend.allocate(Claim(token=token, amounts={"hive": 1}, place=place, lease_seconds=LEASE))
        if not isinstance(answer, Granted):
            self._stopped.wait(0.02)
            return
        self._note(token, asked_at + LEASE)
        self.grants += 1
        renewal = Renewal.of(answer.grants)
        try:
            for _ in range(5):
                self._stopped.wait(0.02)
                asked_at = time.monotonic()
                renewed = self._backend.renew(renewal)
                if not isinstance(renewed, Renewed):
                    return
                renewal = Renewal.of(renewed.grants)
                self._note(token, asked_at + LEASE)
        finally:
            with self._lock:
                self._ends.pop(token, None)
        self._backend.release(Release(token=token, pools=("hive",)))

    def _note(self, token: str, end: float) -> None:
        with self._lock:
            self._ends[token] = end
            now = time.monotonic()
            self.most = max(self.most, sum(end > now for end in self._ends.values()))


def flush(server: RunningRedis) -> None:
    client = connect(RedisSettings(host_paths=(server.address,)))
    client.flushall()
    client.close()


def restart(server: RunningRedis) -> None:
    server.kill()
    server.start()


def pause(server: RunningRedis) -> None:
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE)
    server.process.send_signal(signal.SIGCONT)


def take_away(server: RunningRedis) -> None:
    server.kill()
    time.sleep(LEASE)
    server.start()


def test_under_load_there_are_never_too_many_holders_and_service_resumes(
    server: RunningRedis, sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    faults: list[Callable[[RunningRedis], None]] = [flush, restart, pause, take_away]
    with (
        opened_database(sqlite_databases.set_up(tmp_path)) as database,
        opened_backend(database, server.address, longest_lease_seconds=LEASE, tag="test") as backend,
    ):
        define(database, {"hive": {"capacity": CAPACITY}})
        holders = Holders(backend)
        threads = [threading.Thread(target=holders.work, args=(f"t{number}",)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        try:
            for fault in faults:
                granted = holders.grants
                wait_until(lambda granted=granted: holders.grants > granted + THREADS)  # type: ignore[misc]
                fault(server)
            granted = holders.grants
            wait_until(lambda: holders.grants > granted + THREADS)
        finally:
            holders.stop()
            for thread in threads:
                thread.join()
        assert holders.most == CAPACITY
        assert holders.failures > 0
        wait_until(lambda: backend.usage(["hive"])["hive"].used == 0)
