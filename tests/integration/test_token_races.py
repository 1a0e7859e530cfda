"""Many threads and processes at the same pools: no bound is ever exceeded, and nothing is left in the end."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Granted
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.store.database import Database
from admin.store.token_backends.base import TokenBackend
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.token_backends import define, opened_backend, opened_database

if TYPE_CHECKING:  # each process imports this module, and needs no fixtures
    from tests.conftest import Scale

POOLS = [f"pool{number:02}" for number in range(50)]
PROJECTS, DOMAINS = ("ads", "search", "maps"), ("dev", "prod")
PROCESSES, THREADS = 4, 16
CAPACITY, PROJECT_CAP, NAMESPACE_CAP, EXECUTION_CAP = 6, 4, 3, 2


class Place(NamedTuple):
    """A server that a process connects to."""

    url: str
    redis_address: str | None
    tag: str


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgresql":
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.set_up()
    else:
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        url = files.set_up(tmp_path)
    address = request.getfixturevalue("redis").address if request.param == "redis" else None
    caps = {"project": PROJECT_CAP, "namespace": NAMESPACE_CAP, "execution": EXECUTION_CAP}
    with opened_database(url) as database:
        define(database, {pool: {"capacity": CAPACITY, "caps": caps} for pool in POOLS})
    return Place(url, address, f"race-{tmp_path.name}")


def one_claim(dice: Random, token: str) -> Claim:
    """A claim on one pool or several, the first ones more often than the others."""
    pools = {POOLS[min(dice.randrange(50), dice.randrange(50))] for _ in range(dice.choice((1, 1, 1, 2, 3)))}
    return Claim(
        token=token,
        amounts={pool: dice.choice((1, 1, 2)) for pool in pools},
        place=Scope(dice.choice(DOMAINS), dice.choice(PROJECTS)),
        execution=dice.choice(("", "r1", "r2")),
        priority=dice.randrange(3),
        lease_seconds=600.0,
        wait_seconds=dice.choice((0.0, 5.0)),
    )


def work(backend: TokenBackend, name: str, operations: int) -> int:
    """Allocate, renew and release; returns how often something was granted."""
    dice, held, grants = Random(name), dict[str, dict[str, Grant]](), 0
    for step in range(operations):
        if held and dice.random() < 0.5:
            token = dice.choice(sorted(held))
            renewal = Renewal.of(held[token])
            if dice.random() < 0.3:
                backend.renew(renewal)
            else:
                backend.release(Release(token=token, pools=tuple(renewal.amounts), number=renewal.number))
                del held[token]
        else:
            asked = one_claim(dice, f"{name}-{step}")
            answer = backend.allocate(asked)
            if isinstance(answer, Granted):
                held[asked.token] = dict(answer.grants)
                grants += 1
            elif asked.wait_seconds:
                backend.release(Release(token=asked.token, pools=tuple(asked.amounts)))
    for token, own in held.items():
        backend.release(Release(token=token, pools=tuple(own)))
    return grants


def work_in_threads(place: Place, process: int, operations: int, results: multiprocessing.Queue[int]) -> None:
    with opened_database(place.url) as database, backend_of(place, database) as backend:
        names = [f"p{process}t{thread}" for thread in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
            results.put(sum(threads.map(lambda name: work(backend, name, operations // THREADS), names)))


def backend_of(place: Place, database: Database) -> AbstractContextManager[TokenBackend]:
    return opened_backend(database, place.redis_address, tag=place.tag, longest_lease_seconds=600.0)


def exceeded(backend: TokenBackend) -> list[str]:
    """The bounds that are exceeded, as one consistent look at all pools tells."""
    wrong = []
    for pool, usage in backend.usage(POOLS).items():
        sums: dict[tuple[str, ...], int] = {}
        for grant in usage.grants:
            place, amount = grant.place, grant.amount
            bounded = [("pool",), ("project", place.project), ("namespace", place.project, place.domain)]
            if grant.execution:
                bounded.append(("execution", place.project, place.domain, grant.execution))
            for bucket in bounded:
                sums[bucket] = sums.get(bucket, 0) + amount
        caps = {"pool": CAPACITY, "project": PROJECT_CAP, "namespace": NAMESPACE_CAP, "execution": EXECUTION_CAP}
        wrong += [f"{pool} {bucket}: {total}" for bucket, total in sums.items() if total > caps[bucket[0]]]
    return wrong


def test_threads_and_processes_never_exceed_a_bound_and_leave_nothing(place: Place, scale: Scale) -> None:
    operations = scale(6_700, full=1_000_000) // PROCESSES
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    with opened_database(place.url) as database, backend_of(place, database) as backend:
        processes = [
            context.Process(target=work_in_threads, args=(place, number, operations, results))
            for number in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        is_over = threading.Event()
        wrong: list[str] = []

        def watch() -> None:
            while not is_over.wait(0.25):
                wrong.extend(exceeded(backend))

        watcher = threading.Thread(target=watch)
        watcher.start()
        granted = sum(results.get(timeout=3600) for _ in processes)
        for process in processes:
            process.join()
        is_over.set()
        watcher.join()
        assert wrong == []
        assert granted > operations / 4
        assert {pool: usage for pool, usage in backend.usage(POOLS).items() if usage.grants or usage.waiters} == {}
