"""Tokens: allocate one and give it back, from pools with few and with many holders, beside the bare backend."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import requests
import sqlalchemy
from sqlalchemy import Connection, text

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Exhausted, Granted, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.services.context import Context
from admin.store.token_backends.base import TokenBackend
from admin.store.token_backends.database import DatabaseTokens
from admin.store.token_backends.redis import TAG
from admin.store.token_backends.redis_client import RedisSettings, connect
from admin.testing import admin_app
from bench.admins import API, admin_on, port_of
from bench.ceilings import in_threads
from bench.databases import Backend, plain_engine
from bench.figures import Figure, rate_figure
from bench.http_pairs import pair_measure
from bench.load import CONNECTIONS, Measure, Pace, measure_in_turns
from tests.support.redis import redis_server, running_redis
from tests.support.token_backends import define, open_redis

NAME = "tokens"
REDIS = "redis"
HOLDERS = (0, 1000, 10_000)
STATEMENT, SCRIPT = "one SQL statement to take, one to give back", "one script to take, one to give back"
LOCK = "redis-py: take a lock and give it back"
WAITING = 1000
BEHIND = f"take and give back behind {WAITING:,} that wait"
RENEW = f"renew, {HOLDERS[-1]:,} holders"
OVER_HTTP = "take and give back over HTTP"
REFUSED = f"refused by a full pool with {HOLDERS[-1]:,} holders"
_PROJECTS = ("ads", "maps", "search")
_LEASE_SECONDS = 3600.0
_CAP = 10**6


def pair(holders: int) -> str:
    """What a figure of so many holders is called."""
    return f"take and give back, {holders:,} holders" if holders else "take and give back"


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database, and once on Redis."""
    with _context(backend.create()) as context, _bare_statements(backend) as bare:
        _define(context)
        _fill(context, lambda claims: _apply(context, claims))
        with _over_http(backend) as over_http:
            rates = measure_in_turns({STATEMENT: bare, **_measures(context.tokens), OVER_HTTP: over_http}, pace)
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling="" if what == STATEMENT else STATEMENT)
    if backend.name == "sqlite":
        yield from _of_redis(backend, pace)


def _of_redis(backend: Backend, pace: Pace) -> Iterator[Figure]:
    if redis_server() is None:
        print("Redis is not installed: its figures are left out.", file=sys.stderr)
        return
    with running_redis() as server:
        redis = {"hostPath": server.address, "longestLeaseSeconds": int(_LEASE_SECONDS)}
        with _context(backend.create(), {"type": "redis", "redis": redis}) as context:
            _define(context)
            open_redis(connect(RedisSettings(host_paths=(server.address,))), TAG)
            _fill(context, lambda claims: [context.tokens.allocate(claim) for claim in claims])
            measures = {SCRIPT: _bare_script(server.port), LOCK: _lock(server.port), **_measures(context.tokens)}
            rates = measure_in_turns(measures, pace)
    for what, rate in rates.items():
        yield rate_figure(NAME, what, REDIS, rate, ceiling="" if what == SCRIPT else SCRIPT)


@contextmanager
def _context(url: str, manager: dict[str, object] | None = None) -> Iterator[Context]:
    """An admin without a server."""
    config = {"database": {"url": url}, **({"resourcemanager": manager} if manager else {})}
    with admin_app(config) as app:
        context: Context = app.extensions["rainbow"]
        yield context


def _define(context: Context) -> None:
    caps = {"project": _CAP, "namespace": _CAP, "execution": 2}
    pools = {f"pool{holders}": {"capacity": _CAP, "caps": caps} for holders in HOLDERS}
    others: dict[str, dict[str, object]] = {"full": {"capacity": HOLDERS[-1], "caps": caps}, "awaited": {"capacity": 1}}
    define(context.database, {**pools, **others})


def _fill(context: Context, allocate: Callable[[list[Claim]], list[object]]) -> None:
    tokens = context.tokens
    tokens.usage(["pool0"])  # so that the clock is known to be steady
    for pool, holders in [*((f"pool{holders}", holders) for holders in HOLDERS), ("full", HOLDERS[-1])]:
        for begin in range(0, holders, 1000):
            numbers = range(begin, min(begin + 1000, holders))
            answers = allocate([_claim(pool, f"held-{number}", f"run-{number}", number) for number in numbers])
            assert all(isinstance(answer, Granted) for answer in answers)
    assert isinstance(tokens.allocate(_claim("awaited", "held")), Granted)
    waiting = [
        replace(_claim("awaited", f"waits-{number}", f"run-{number}", number), wait_seconds=_LEASE_SECONDS, priority=1)
        for number in range(WAITING)
    ]
    assert all(isinstance(answer, Exhausted) for answer in allocate(waiting))
    define(context.database, {"awaited": {"capacity": _CAP}})


def _apply(context: Context, claims: list[Claim]) -> list[object]:
    assert isinstance(context.tokens, DatabaseTokens)
    with context.database.writing() as connection:
        return [*context.tokens.apply(connection, [*claims])]


def _claim(pool: str, token: str, execution: str = "", number: int = 0) -> Claim:
    place = Scope("development", _PROJECTS[number % len(_PROJECTS)])
    return Claim(
        token=token, amounts={pool: 1}, place=place, execution=execution, holder="bench", lease_seconds=_LEASE_SECONDS
    )


def _measures(tokens: TokenBackend) -> dict[str, Measure]:
    def take_and_give_back(pool: str) -> None:
        token = secrets.token_hex(8)
        assert isinstance(tokens.allocate(_claim(pool, token, token)), Granted)
        tokens.release(Release(token=token, pools=(pool,)))

    held = threading.local()

    def renew() -> None:
        if not hasattr(held, "renewal"):
            answer = tokens.allocate(_claim(f"pool{HOLDERS[-1]}", secrets.token_hex(8)))
            assert isinstance(answer, Granted)
            held.renewal = Renewal.of(answer.grants)
        assert isinstance(tokens.renew(held.renewal), Renewed)

    def be_refused() -> None:
        assert isinstance(tokens.allocate(_claim("full", secrets.token_hex(8))), Exhausted)

    pairs = {pair(holders): partial(in_threads, partial(take_and_give_back, f"pool{holders}")) for holders in HOLDERS}
    behind = partial(in_threads, partial(take_and_give_back, "awaited"))
    return {**pairs, BEHIND: behind, RENEW: partial(in_threads, renew), REFUSED: partial(in_threads, be_refused)}


@contextmanager
def _over_http(backend: Backend) -> Iterator[Measure]:
    """The same as a program does it that is not in the admin."""
    with admin_on(backend.create(), clusters=1) as admin:
        pool = {"token_pool": {"name": "hive", "capacity": 1000}}
        requests.put(f"{admin.url}{API}/token_pools/hive", json=pool, timeout=30).raise_for_status()
        claim = {"pools": {"hive": 1}, "lease_seconds": _LEASE_SECONDS}
        yield pair_measure(
            port_of(admin),
            lambda: (f"{API}/token_allocations", {"claim": {**claim, "token": secrets.token_hex(8)}}),
            lambda held: (
                f"{API}/token_releases",
                {"release": {"token": held["token"], "pools": {"hive": 1}, "number": held["number"]}},
            ),
        )


@contextmanager
def _bare_statements(backend: Backend) -> Iterator[Measure]:
    """A counter in a table, raised if it is below its limit, and lowered; each is a transaction."""
    engine = plain_engine(backend.create())
    take = text("UPDATE counters SET used = used + 1 WHERE name = 'pool' AND used < most")
    give_back = text("UPDATE counters SET used = used - 1 WHERE name = 'pool'")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE counters (name TEXT PRIMARY KEY, used BIGINT, most BIGINT)"))
        connection.execute(text("INSERT INTO counters VALUES ('pool', 0, 1000000)"))

    def act() -> None:
        for statement in (take, give_back):
            with engine.begin() as connection:
                _execute(connection, statement)

    try:
        yield partial(in_threads, act, threads=1 if backend.name == "sqlite" else CONNECTIONS)
    finally:
        engine.dispose()


def _execute(connection: Connection, statement: sqlalchemy.TextClause) -> None:
    assert connection.execute(statement).rowcount == 1


def _bare_script(port: int) -> Measure:
    from redis import Redis

    client = Redis(port=port)
    take = client.register_script(
        "if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then return redis.call('INCR', KEYS[1]) end"
    )
    give_back = client.register_script("return redis.call('DECR', KEYS[1])")

    def act() -> None:
        take(keys=["bare"], args=[_CAP])
        give_back(keys=["bare"])

    return partial(in_threads, act)


def _lock(port: int) -> Measure:
    """Locks of their own, one for each thread: on a single one they would sleep."""
    from redis import Redis

    client = Redis(port=port)

    def act() -> None:
        with client.lock(f"lock-{threading.get_ident()}", timeout=60):
            pass

    return partial(in_threads, act)
