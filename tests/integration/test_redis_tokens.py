"""Tokens in Redis: restarts, flushes, pauses and clocks, and that its scripts follow the rules of the core."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import event

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Answer, Exhausted, Granted, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.steadiness import JUMP_SECONDS
from admin.store import token_grants
from admin.store.database import Database
from admin.store.token_backends.base import TokenBackend, TokensUnavailable
from admin.store.token_backends.database import DatabaseTokens
from admin.store.token_backends.redis import RedisTokens
from admin.store.token_backends.redis_client import RedisSettings, connect
from admin.store.token_backends.redis_terms import CurrentTerms
from tests.support.agent_processes import wire_to
from tests.support.databases import SqliteDatabases
from tests.support.redis import RunningRedis, redis_server, running_redis
from tests.support.token_backends import define, granted, opened_backend, opened_database, refused
from tests.support.waiting import wait_until

LEASE = 0.5


@pytest.fixture
def database(sqlite_databases: SqliteDatabases, tmp_path: Path) -> Iterator[Database]:
    with opened_database(sqlite_databases.set_up(tmp_path)) as database:
        define(database, {"hive": {"capacity": 2}})
        yield database


@pytest.fixture
def server() -> Iterator[RunningRedis]:
    """A server of one test, which keeps what it was told when it is killed."""
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    with running_redis("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def backend(server: RunningRedis, database: Database) -> Iterator[TokenBackend]:
    with opened_backend(database, server.address, longest_lease_seconds=LEASE, tag="test") as backend:
        yield backend


def claim(token: str, amount: int = 1) -> Claim:
    return Claim(token=token, amounts={"hive": amount}, place=Scope("prod", "ads"), lease_seconds=LEASE)


def flush(server: RunningRedis) -> None:
    client = connect(RedisSettings(host_paths=(server.address,)))
    client.flushall()
    client.close()


def test_after_a_flush_nothing_is_granted_for_a_lease_while_holders_renew(
    server: RunningRedis, backend: TokenBackend
) -> None:
    first = granted(backend, claim("a", 2))
    flush(server)
    flushed_at = time.monotonic()
    answer = refused(backend, claim("b"))
    assert (answer.full, "restarted or flushed" in answer.reason, answer.retry_seconds <= LEASE) == ((), True, True)
    renewed = backend.renew(Renewal.of(first.grants))
    assert isinstance(renewed, Renewed)
    assert renewed.grants["hive"].number == first.grants["hive"].number
    backend.release(Release(token="a", pools=("hive",)))
    wait_until(lambda: isinstance(backend.allocate(claim("b")), Granted))
    assert time.monotonic() - flushed_at >= LEASE
    second = granted(backend, claim("b")).grants["hive"]
    assert second.number > first.grants["hive"].number


def test_a_capacity_that_is_lowered_while_redis_is_asked_is_not_exceeded(
    backend: TokenBackend, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = granted(backend, claim("a", 2))

    def lower() -> None:
        define(database, {"hive": {"capacity": 1}})
        backend.release(Release(token="a", pools=("hive",)))
        granted(backend, claim("b"))

    do_after_reading_terms(monkeypatch, lower)
    [full] = refused(backend, claim("c")).full
    assert (full.limit.cap, full.used, [holder.token for holder in full.holders]) == (1, 1, ["b"])
    assert isinstance(backend.renew(Renewal.of(first.grants)), NotHeld)


def do_after_reading_terms(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
    """Do something each time that the terms of claims were read, and Redis is not asked yet."""
    remaining, read = list(actions), CurrentTerms._read

    def read_before(terms: CurrentTerms) -> None:
        read(terms)
        if remaining:
            remaining.pop(0)()

    monkeypatch.setattr(CurrentTerms, "_read", read_before)


def test_a_grant_that_was_taken_back_wakes_others_and_keeps_its_place_in_line(
    backend: TokenBackend, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(backend, claim("a"))
    granted(backend, claim("b"))
    first, second = (replace(claim(token), wait_seconds=300.0) for token in ("first", "second"))
    assert [refused(backend, waiting).place for waiting in (first, second)] == [1, 2]
    backend.release(Release(token="b", pools=("hive",)))
    released: list[int] = []

    def lower() -> None:
        define(database, {"hive": {"capacity": 1}})
        released.append(release_count(database))

    do_after_reading_terms(monkeypatch, lower)
    assert refused(backend, first).place == 1
    assert release_count(database) == released[0] + 1


def release_count(database: Database) -> int:
    with database.reading() as connection:
        return token_grants.releases(connection)["hive"]


def test_a_grant_that_could_not_be_taken_back_is_held_by_nobody_later(
    server: RunningRedis, backend: TokenBackend, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(backend, claim("a"))
    do_after_reading_terms(monkeypatch, lambda: define(database, {"hive": {"capacity": 1}}), server.kill)
    with pytest.raises(TokensUnavailable):
        backend.allocate(claim("b"))
    server.start()
    assert isinstance(backend.allocate(claim("b")), Exhausted)
    assert "b" not in [grant.token for grant in backend.usage(["hive"])["hive"].grants]


@pytest.mark.parametrize(("kind", "statements"), [("sqlite", 0), ("postgresql", 5)])
def test_what_bounds_claims_is_read_once_unless_something_was_changed(
    kind: str,
    statements: int,
    server: RunningRedis,
    request: pytest.FixtureRequest,
    sqlite_databases: SqliteDatabases,
    tmp_path: Path,
) -> None:
    """A transaction that keeps others from writing asks nothing, and another one a number for each grant."""
    url = request.getfixturevalue("postgresql_databases").set_up() if kind == "postgresql" else None
    asked: list[str] = []
    with (
        opened_database(url or sqlite_databases.set_up(tmp_path)) as database,
        opened_backend(database, server.address, longest_lease_seconds=60.0) as backend,
    ):
        define(database, {"hive": {"capacity": 9}})
        event.listen(database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        claims = [replace(claim(f"t{number}"), lease_seconds=60.0) for number in range(6)]
        with database.writing() as connection:
            session = backend.session(connection, ["hive"], claims, [])
            asked.clear()
            assert all(isinstance(session.allocate(each), Granted) for each in claims[:5])
            assert len(asked) == statements
            if kind == "postgresql":
                define(database, {"hive": {"capacity": 5}})
                assert isinstance(session.allocate(claims[5]), Exhausted)
        define(database, {"hive": {"capacity": 6}})
        asked.clear()
        granted(backend, claims[5])
        assert sum("FROM token_pools" in statement for statement in asked) == 1


def test_a_holder_that_is_too_late_or_one_too_many_is_not_taken_over(
    server: RunningRedis, backend: TokenBackend
) -> None:
    first = granted(backend, claim("a", 2))
    renewal = Renewal.of(first.grants)
    flush(server)
    refused(backend, claim("x"))
    late = replace(renewal, token="late", expires_at=first.grants["hive"].granted_at)
    assert backend.renew(late) == NotHeld(pools=("hive",))
    untold = replace(renewal, token="untold", expires_at=None)
    assert backend.renew(untold) == NotHeld(pools=("hive",))
    end = first.grants["hive"].expires_at
    forged = replace(renewal, token="forged", expires_at=end + timedelta(seconds=LEASE + JUMP_SECONDS + 5))
    assert backend.renew(forged) == NotHeld(pools=("hive",))
    assert isinstance(backend.renew(renewal), Renewed)
    assert backend.renew(replace(renewal, token="other")) == NotHeld(pools=("hive",))
    assert backend.usage(["hive"])["hive"].used == 2


def test_a_restarted_server_waits_for_a_lease_too_and_goes_on_by_itself(
    server: RunningRedis, backend: TokenBackend
) -> None:
    first = granted(backend, claim("a", 2))
    server.kill()
    with pytest.raises(TokensUnavailable, match="Redis does not answer"):
        backend.allocate(claim("b"))
    server.start()
    assert "restarted" in refused(backend, claim("b")).reason
    assert isinstance(backend.renew(Renewal.of(first.grants)), Renewed)
    assert backend.release(Release(token="a", pools=("hive",))) == Released(amounts={"hive": 2})
    wait_until(lambda: isinstance(backend.allocate(claim("b")), Granted))


def test_a_paused_server_grants_nothing_and_takes_nothing_back_for_a_lease(
    server: RunningRedis, database: Database
) -> None:
    client = connect(RedisSettings(host_paths=(server.address,), timeout_seconds=0.3))
    backend = RedisTokens(lambda: client, database, longest_lease_seconds=LEASE)
    wait_until(lambda: isinstance(backend.allocate(claim("a", 2)), Granted))
    first = granted(backend, claim("a", 2))
    server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TokensUnavailable):
            backend.allocate(claim("b"))
        paused_at = time.monotonic()
        wait_until(lambda: time.monotonic() > paused_at + LEASE)
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: client.ping())
    assert isinstance(backend.allocate(claim("b")), Exhausted | Granted)
    renewed = backend.renew(Renewal.of(first.grants))
    total = backend.usage(["hive"])["hive"].used
    assert total <= 2
    assert isinstance(renewed, Renewed) == (total == 2)
    client.close()


def test_one_request_at_most_waits_for_a_server_that_hangs(server: RunningRedis, database: Database) -> None:
    client = connect(RedisSettings(host_paths=(server.address,), timeout_seconds=3600, max_retries=10))
    backend = RedisTokens(lambda: client, database, longest_lease_seconds=LEASE)
    server.kill()
    with pytest.raises(TokensUnavailable):
        backend.allocate(claim("a"))
    failure = backend.failure
    server.start()
    server.process.send_signal(signal.SIGSTOP)
    calls: list[Callable[[], object]] = [
        lambda: backend.usage(["hive"]),
        lambda: backend.totals(["hive"]),
        lambda: backend.allocate(claim("a")),
        lambda: backend.renew(Renewal(token="a", amounts={"hive": 1}, number=1)),
        lambda: backend.release(Release(token="a", pools=("hive",))),
    ]
    for call in calls:
        with pytest.raises(TokensUnavailable) as refusal:
            call()
        assert refusal.value is failure, "which is of the call before"
    server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: backend.failure is None)  # nobody asks but the background
    assert backend.usage(["hive"])["hive"].used == 0
    client.close()


def test_a_call_that_was_waited_for_in_vain_is_not_repeated(server: RunningRedis) -> None:
    from redis import TimeoutError

    with (
        connect(RedisSettings(host_paths=(server.address,), timeout_seconds=0.2, max_retries=3)) as client,
        connect(RedisSettings(host_paths=(server.address,))) as observer,
    ):
        before = observer.info("stats")["total_connections_received"]
        server.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                client.ping()
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert observer.info("stats")["total_connections_received"] == before + 1


def test_a_clock_that_jumps_ends_no_lease(server: RunningRedis, database: Database) -> None:
    steps = {"ahead": 0.0}
    client = connect(RedisSettings(host_paths=(server.address,)))
    with opened_backend(database, server.address, tag="jump", longest_lease_seconds=LEASE):
        backend = RedisTokens(
            lambda: client,
            database,
            tag="jump",
            longest_lease_seconds=LEASE,
            monotonic=lambda: time.monotonic() - steps["ahead"],  # seen from here the server's clock goes ahead
        )
        first = granted(backend, claim("a", 2))
        before = time.monotonic()
        wait_until(lambda: time.monotonic() > before + LEASE - 0.1)
        steps["ahead"] = 3600.0
        refused(backend, claim("b"))
        wait_until(lambda: time.monotonic() > before + LEASE + 0.1)
        refused(backend, claim("b"))  # the lease is over, but its holder had no time to renew since the jump
        assert isinstance(backend.renew(Renewal.of(first.grants)), Renewed)
    client.close()


@pytest.mark.slow
def test_a_cut_network_takes_nothing_from_those_who_could_not_renew(server: RunningRedis, database: Database) -> None:
    with (
        wire_to(server.address) as network,
        opened_backend(
            database, network.url.removeprefix("http://"), tag="cut", longest_lease_seconds=LEASE
        ) as backend,
    ):
        assert isinstance(backend, RedisTokens)
        first = granted(backend, claim("a", 2))
        network.break_off()
        cut_at = time.monotonic()
        with pytest.raises(TokensUnavailable):
            backend.renew(Renewal.of(first.grants))
        wait_until(lambda: time.monotonic() > cut_at + LEASE + 2 * JUMP_SECONDS)
        network.mend()
        assert backend.used(["hive"], ["///"])["hive"]["///"] == 2  # what a sync asks before it renews
        refused(backend, claim("b"))
        assert isinstance(backend.renew(Renewal.of(first.grants)), Renewed)
        wait_until(lambda: isinstance(backend.allocate(claim("b")), Granted))  # its holder is gone by now


def test_grants_that_redis_has_dropped_are_renewed_before_anything_is_granted(
    server: RunningRedis, database: Database
) -> None:
    with opened_backend(database, server.address, tag="dropped", longest_lease_seconds=5.0) as backend:
        first = granted(backend, replace(claim("a", 2), lease_seconds=5.0))
        client = connect(RedisSettings(host_paths=(server.address,)))
        client.delete("{dropped}:grants:hive")
        client.close()
        assert "has lost grants" in refused(backend, claim("b")).reason
        assert isinstance(backend.renew(Renewal.of(first.grants)), Renewed)
        assert backend.usage(["hive"])["hive"].used == 2


def test_a_server_that_drops_keys_is_warned_of(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis")
    with (
        running_redis("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru") as server,
        opened_backend(database, server.address) as backend,
    ):
        granted(backend, claim("a"))
        assert "set maxmemory-policy to noeviction" in caplog.text


def summary(answer: Answer) -> object:
    """What an answer says, without times and numbers, which every backend gives of its own."""
    match answer:
        case Granted():
            return "granted", answer.is_new, sorted(answer.grants)
        case Exhausted():
            full = [(entry.pool, entry.limit, entry.used, entry.promised, entry.holder_count) for entry in answer.full]
            holders = [[holder.token for holder in entry.holders] for entry in answer.full]
            return "exhausted", full, holders, answer.place, answer.waiting
        case NotHeld():
            return "not held", answer.pools, answer.current is None
        case Renewed():
            return "renewed", sorted(answer.grants)
    return type(answer).__name__, getattr(answer, "amounts", None)


def check_same_answers(seed: int, core: TokenBackend, other: TokenBackend, databases: Sequence[Database]) -> None:
    """Ask two backends the same, again and again."""
    dice, names = Random(seed), ["hive", "solr", "spark"]
    for database in databases:
        define(database, {name: {"capacity": 6, "caps": {"project": 4, "execution": 3}} for name in names})
    held: dict[str, tuple[Renewal, Renewal]] = {}
    for step in range(150):
        answers: list[Answer]
        token = f"t{dice.randrange(25)}"
        action = dice.random()
        if action < 0.7:
            asked = any_claim(dice, token, names)
            answers = [backend.allocate(asked) for backend in (core, other)]
            if all(isinstance(answer, Granted) for answer in answers):
                mine, theirs = (Renewal.of(answer.grants) for answer in answers if isinstance(answer, Granted))
                held[token] = mine, theirs
        elif action < 0.8 and token in held:
            mine, theirs = held[token]
            answers = [core.renew(mine), other.renew(theirs)]
        elif action < 0.97:
            own = tuple(held.pop(token)[0].amounts) if token in held else tuple(dice.sample(names, 2))
            answers = [backend.release(Release(token=token, pools=own)) for backend in (core, other)]
        else:
            changed = {dice.choice(names): {"capacity": dice.randrange(3, 8), "caps": {"project": 4}}}
            for database in databases:
                define(database, changed)
            continue
        assert summary(answers[0]) == summary(answers[1]), step
        lines = [
            {name: [waiter.token for waiter in usage.waiters] for name, usage in backend.usage(names).items()}
            for backend in (core, other)
        ]
        assert lines[0] == lines[1], step


def any_claim(dice: Random, token: str, names: Sequence[str]) -> Claim:
    return Claim(
        token=token,
        amounts={pool: dice.choice((1, 1, 2, 3)) for pool in dice.sample(names, dice.choice((1, 1, 2, 3)))},
        place=dice.choice((Scope("prod", "ads"), Scope("dev", "ads"), Scope("prod", "maps"), Scope())),
        priority=dice.choice((0, 0, 1)),
        weight=dice.choice((1.0, 1.0, 2.0)),
        lease_seconds=600.0,
        wait_seconds=dice.choice((0.0, 300.0, 300.0)),
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_scripts_answer_as_the_core_does(
    seed: int, redis: RunningRedis, sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    with (
        opened_database(sqlite_databases.set_up(tmp_path)) as database,
        opened_backend(database, redis.address, longest_lease_seconds=600.0) as scripts,
    ):
        check_same_answers(seed, DatabaseTokens(database), scripts, [database])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sums_of_grants_answer_as_the_grants_themselves_do(
    kind: str, request: pytest.FixtureRequest, sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    """Pools with many holders are not read whole, and yet answer the same."""
    url = request.getfixturevalue("postgresql_databases").set_up() if kind == "postgresql" else None
    (tmp_path / "other").mkdir()
    with (
        opened_database(sqlite_databases.set_up(tmp_path)) as whole,
        opened_database(url or sqlite_databases.set_up(tmp_path / "other")) as summed,
    ):
        by_sums = DatabaseTokens(summed)
        check_same_answers(7, DatabaseTokens(whole, reads_whole=True), by_sums, [whole, summed])
