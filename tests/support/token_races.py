"""Many threads and processes at the same token pools, and the check that no bound was ever exceeded."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeout

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Granted, NotHeld, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.store.database import Database
from admin.store.token_backends.base import TokenBackend, TokensUnavailable
from tests.support.token_backends import define, opened_backend, opened_database
from tests.support.token_histories import Call, History

if TYPE_CHECKING:  # each process imports this module, and needs neither pytest nor an admin
    import pytest

    from tests.support.databases import PostgresqlDatabases, SqliteDatabases

POOLS = [f"pool{number:02}" for number in range(50)]
PROJECTS, DOMAINS = ("ads", "search", "maps"), ("dev", "prod")
PROCESSES, THREADS = 4, 16
_MOST_REPEATS = 10
Result = TypeVar("Result")
CAPS = {"pool": 6, "project": 4, "namespace": 3, "execution": 2}


class Place(NamedTuple):
    """A server that a process connects to."""

    url: str
    redis_address: str | None
    tag: str


def contested_place(kind: str, request: pytest.FixtureRequest, directory: Path) -> Place:
    """A server of a kind (sqlite, postgresql or redis) with the pools."""
    if kind == "postgresql":
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.set_up()
    else:
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        url = files.set_up(directory)
    address = request.getfixturevalue("redis").address if kind == "redis" else None
    caps = {level: cap for level, cap in CAPS.items() if level != "pool"}
    with opened_database(url) as database:
        define(database, {pool: {"capacity": CAPS["pool"], "caps": caps} for pool in POOLS})
    return Place(url, address, f"race-{directory.name}")


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


def repeated(call: Callable[[], Result]) -> Result:
    """What a call comes to, which is made again where a machine under load was too slow: each may be repeated."""
    for _ in range(_MOST_REPEATS):
        try:
            return call()
        except (TokensUnavailable, OperationalError, SQLAlchemyTimeout) as error:
            failure = error
    raise failure


class Worker:
    """Allocates, renews and releases, and notes what came of it."""

    def __init__(self, backend: TokenBackend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._dice = Random(name)
        self._held: dict[str, tuple[Claim, dict[str, Grant]]] = {}
        self._made = 0  #: calls
        self.calls: list[Call] = []
        self.wrong: list[str] = []

    def work(self, calls: int) -> Worker:
        """Make so many calls, and give back what is held then; a grant is renewed once, more or less."""
        while self._made < calls:
            if self._held and self._dice.random() < 0.6:
                token = self._dice.choice(list(self._held))
                if self._dice.random() < 0.5:
                    self._renew(Renewal.of(self._held[token][1]), Renewed)
                else:
                    self._release(token)
            else:
                self._allocate(one_claim(self._dice, f"{self._name}-{self._made}"))
        for token in list(self._held):
            self._release(token)
        return self

    def _call(self, call: Callable[[], Result]) -> Result:
        self._made += 1
        return repeated(call)

    def _allocate(self, claim: Claim) -> None:
        begin = monotonic()
        answer = self._call(lambda: self._backend.allocate(claim))
        if isinstance(answer, Granted):
            self._held[claim.token] = claim, dict(answer.grants)
            self._note(begin, "granted", claim, next(iter(answer.grants.values())).number)
            return
        self._note(begin, "waits" if claim.wait_seconds else "refused", claim)
        if claim.wait_seconds:
            begin = monotonic()
            self._call(lambda: self._backend.release(Release(token=claim.token, pools=tuple(claim.amounts))))
            self._note(begin, "left", claim)

    def _release(self, token: str) -> None:
        claim, grants = self._held.pop(token)
        renewal, begin = Renewal.of(grants), monotonic()
        release = Release(token=token, pools=tuple(claim.amounts), number=renewal.number)
        self._call(lambda: self._backend.release(release))
        self._note(begin, "freed", claim)
        if self._dice.random() < 0.1:  # a holder that comes back later is refused
            self._renew(renewal, NotHeld)

    def _renew(self, renewal: Renewal, expected: type[Renewed | NotHeld]) -> None:
        answer = self._call(lambda: self._backend.renew(renewal))
        if not isinstance(answer, expected):
            self.wrong.append(f"{renewal}: {answer}")

    def _note(self, begin: float, result: str, claim: Claim, number: int = 0) -> None:
        call = Call(begin, monotonic(), result, claim.token, claim.amounts, claim.place, claim.execution, number)
        self.calls.append(call)


def work_in_threads(place: Place, process: int, calls: int, notes: Path) -> None:
    with opened_database(place.url) as database, backend_of(place, database) as backend:
        workers = [Worker(backend, f"p{process}t{thread}") for thread in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda worker: worker.work(calls // THREADS), workers))
    noted = [call for worker in workers for call in worker.calls]
    notes.write_bytes(pickle.dumps((noted, [text for worker in workers for text in worker.wrong])))


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
        wrong += [f"{pool} {bucket}: {total}" for bucket, total in sums.items() if total > CAPS[bucket[0]]]
    return wrong


def race(place: Place, directory: Path, calls: int) -> None:
    """What each call came to must be what the calls, one after the other, come to in a model."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # so that imports are made once for all processes
    notes = [directory / f"notes{number}" for number in range(PROCESSES)]
    with opened_database(place.url) as database, backend_of(place, database) as backend:
        processes = [
            context.Process(target=work_in_threads, args=(place, number, calls // PROCESSES, path))
            for number, path in enumerate(notes)
        ]
        for process in processes:
            process.start()
        is_over = threading.Event()
        wrong: list[str] = []

        def watch() -> None:
            while not is_over.wait(1.0):
                with suppress(TokensUnavailable, OperationalError, SQLAlchemyTimeout):  # the next look tells
                    wrong.extend(exceeded(backend))

        watcher = threading.Thread(target=watch)
        watcher.start()
        for process in processes:
            process.join()
        is_over.set()
        watcher.join()
        assert ([process.exitcode for process in processes], wrong) == ([0] * PROCESSES, [])
        assert {pool: usage for pool, usage in backend.usage(POOLS).items() if usage.grants or usage.waiters} == {}
    check_history([pickle.loads(path.read_bytes()) for path in notes])


def check_history(noted: list[tuple[list[Call], list[str]]]) -> None:
    calls = [call for own, _ in noted for call in own]
    history = History(CAPS)
    history.replay(calls)
    assert [text for _, wrong in noted for text in wrong] == []
    assert history.wrong == []
    assert history.is_empty
    refusals = sum(call.result in ("refused", "waits") for call in calls)
    assert history.unexplained <= refusals / 100
    assert sum(call.result == "granted" for call in calls) > len(calls) / 6
