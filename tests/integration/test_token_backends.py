"""What every backend of token pools answers: the database on SQLite and PostgreSQL, and Redis."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from admin.core.settings.scopes import Scope
from admin.core.token_pools import ledger
from admin.core.token_pools.answers import (
    Allocation,
    Conflict,
    Exhausted,
    Granted,
    NeverFits,
    NotHeld,
    Released,
    Renewed,
    UnknownPools,
)
from admin.core.token_pools.claims import RUNS_ALREADY, Claim
from admin.core.token_pools.definitions import Caps, TokenPool
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.limits import TOKEN_POOL_QUOTA
from admin.store import token_lines, token_pools
from admin.store.attributes import attributes
from admin.store.database import Database
from admin.store.revision_tables import revision_head
from admin.store.token_backends import redis_documents
from admin.store.token_backends.base import PoolTotals, TokenBackend
from admin.store.token_backends.choice import choose_backend
from admin.store.token_backends.database import DatabaseTokens
from admin.store.token_backends.noop import NoTokens
from admin.store.token_backends.redis import RedisTokens
from admin.store.token_backends.redis_client import RedisSettings
from admin.store.token_pools import Head
from admin.store.token_tables import token_grants
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.token_backends import define, granted, opened_backend, opened_database, refused
from tests.support.waiting import wait_until
from tests.unit.core.token_pools.ledgers import Pools


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if kind == "postgresql":
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.set_up()
    else:
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        url = files.set_up(tmp_path)
    with opened_database(url) as database:
        define(database, {"hive": {"capacity": 2}, "spark": {"capacity": 10, "caps": {"project": 4, "execution": 2}}})
        yield database


@pytest.fixture
def backend(kind: str, database: Database, request: pytest.FixtureRequest) -> Iterator[TokenBackend]:
    address = request.getfixturevalue("redis").address if kind == "redis" else None
    with opened_backend(database, address) as backend:
        yield backend


def claim(token: str, pools: dict[str, int] | None = None, **fields: Any) -> Claim:
    place = Scope(fields.pop("domain", "prod"), fields.pop("project", "ads"))
    return Claim(token=token, amounts=pools or {"hive": 1}, place=place, **fields)


def waiting(token: str, pools: dict[str, int] | None = None, **fields: Any) -> Claim:
    return claim(token, pools, **{"wait_seconds": 30.0, **fields})


def set_quota(database: Database, scope: Scope, version: int, **pools: int) -> None:
    row = {"kind": TOKEN_POOL_QUOTA, **scope._asdict(), "payload": {"pools": pools}, "version": version}
    with database.writing() as connection:
        connection.execute(
            attributes.insert(), {**row, "updated_at": datetime(2026, 3, 1, tzinfo=UTC), "updated_by": "maria"}
        )
        connection.execute(update(revision_head).values(number=revision_head.c.number + 1))  # as any change does


def test_a_full_pool_says_who_holds_it(backend: TokenBackend) -> None:
    first = granted(backend, claim("a", {"hive": 2}, holder="maria", execution="run1"))
    answer = refused(backend, claim("b"))
    [full] = answer.full
    assert (full.pool, full.limit.level, full.limit.cap, full.used) == ("hive", "pool", 2, 2)
    assert [(holder.holder, holder.execution, holder.amount) for holder in full.holders] == [("maria", "run1", 2)]
    assert full.holders[0].expires_at == first.grants["hive"].expires_at
    assert (answer.place, answer.retry_seconds) == (None, 2.0)
    assert backend.release(Release(token="a", pools=("hive",))) == Released(amounts={"hive": 2})
    granted(backend, claim("b"))


def test_the_same_token_gets_the_same_answer(backend: TokenBackend) -> None:
    first = granted(backend, claim("a"))
    again = granted(backend, claim("a"))
    assert (first.is_new, again.is_new, again.grants) == (True, False, first.grants)
    assert isinstance(backend.allocate(claim("a", {"hive": 2})), Conflict)
    assert backend.usage(["hive"])["hive"].used == 1


def test_what_is_held_by_several_grants_is_not_answered_as_one(backend: TokenBackend) -> None:
    """For a renewal names one number."""
    granted(backend, claim("b", {"spark": 1}))  # so that the pools are at different numbers
    hive, spark = granted(backend, claim("a", {"hive": 1})), granted(backend, claim("a", {"spark": 1}))
    answer = backend.allocate(claim("a", {"hive": 1, "spark": 1}))
    assert answer == Conflict(held={**hive.grants, **spark.grants})
    assert granted(backend, claim("a", {"spark": 1})).grants == spark.grants


def test_what_can_never_fit_and_what_is_unknown_is_refused(backend: TokenBackend) -> None:
    answer = backend.allocate(waiting("a", {"spark": 5}))
    assert isinstance(answer, NeverFits)
    assert (answer.pool, answer.limit.level, answer.limit.cap) == ("spark", "project", 4)
    assert backend.allocate(claim("a", {"hive": 1, "hvie": 1})) == UnknownPools(pools=("hvie",))
    usage = backend.usage(["hive", "spark"])
    assert [(pool.used, pool.waiters) for pool in usage.values()] == [(0, ()), (0, ())]


def test_caps_quotas_and_constraints_hold_together(backend: TokenBackend, database: Database) -> None:
    set_quota(database, Scope("prod"), 7, spark=5)
    granted(backend, claim("a", {"spark": 2}, execution="r1"))
    levels = [full.limit.level for full in refused(backend, claim("b", {"spark": 1}, execution="r1")).full]
    assert levels == ["execution"]
    granted(backend, claim("b", {"spark": 2}, execution="r2"))
    assert [full.limit.level for full in refused(backend, claim("c", {"spark": 1})).full] == ["project"]
    answer = refused(backend, claim("c", {"spark": 2}, project="search"))
    assert [full.limit.origin for full in answer.full] == ["TOKEN_POOL_QUOTA at domain prod, version 7"]
    constrained = claim("d", {"spark": 1}, domain="dev", project="search", constraints=Caps(namespace=1))
    granted(backend, constrained)
    answer = refused(backend, replace(constrained, token="e"))
    assert [full.limit.origin for full in answer.full] == ["the constraints of the request"]


def test_capacity_may_be_lowered_and_a_pool_deleted_under_use(backend: TokenBackend, database: Database) -> None:
    first = granted(backend, claim("a", {"hive": 2}))
    define(database, {"hive": {"capacity": 1}})
    assert refused(backend, claim("b")).full[0].used == 2
    define(database, {"hive": None})
    assert backend.allocate(claim("b")) == UnknownPools(pools=("hive",))
    assert isinstance(backend.renew(Renewal.of(first.grants)), Renewed)
    define(database, {"hive": {"capacity": 2}})
    assert refused(backend, claim("b")).full[0].used == 2
    backend.release(Release(token="a", pools=("hive",)))
    second = granted(backend, claim("b"))
    assert second.grants["hive"].number > first.grants["hive"].number


def test_only_the_project_and_domain_of_a_grant_renew_and_release_it(backend: TokenBackend) -> None:
    own, foreign = Scope("prod", "ads"), Scope("prod", "maps")
    renewal = Renewal.of(granted(backend, claim("a", {"hive": 2})).grants)
    refused(backend, waiting("w"))
    not_held = NotHeld(pools=("hive",))
    assert backend.renew(replace(renewal, place=foreign)) == not_held
    for token in "aw":
        assert backend.release(Release(token=token, pools=("hive",), place=foreign)) == not_held
    assert isinstance(backend.allocate(claim("a", {"hive": 2}, project="maps")), Conflict)
    usage = backend.usage(["hive"])["hive"]
    assert (usage.used, len(usage.waiters)) == (2, 1)
    assert backend.release(Release(token="w", pools=("hive",), place=own)) == Released(amounts={})
    assert backend.release(Release(token="a", pools=("hive",), place=own)) == Released(amounts={"hive": 2})


def test_several_pools_are_granted_all_or_none(backend: TokenBackend) -> None:
    both = granted(backend, claim("a", {"spark": 1, "hive": 2}))
    assert len({grant.number for grant in both.grants.values()}) == 1
    assert [full.pool for full in refused(backend, claim("b", {"spark": 1, "hive": 1})).full] == ["hive"]
    usage = backend.usage(["hive", "spark"])
    assert (usage["hive"].used, usage["spark"].used) == (2, 1)
    assert isinstance(backend.renew(Renewal.of(both.grants)), Renewed)
    assert backend.release(Release(token="b", pools=("hive",))) == NotHeld(pools=("hive",))
    assert backend.release(Release(token="a", pools=("hive", "spark"))) == Released(amounts={"hive": 2, "spark": 1})


def test_totals_are_those_of_all_who_hold_and_stand_in_line(backend: TokenBackend) -> None:
    granted(backend, claim("a"))
    granted(backend, claim("b", {"hive": 1, "spark": 2}, lease_seconds=0.3))
    refused(backend, waiting("c", {"hive": 2}))
    refused(backend, waiting("execution/x/1", {"hive": 2}))  # which the executions themselves count
    refused(backend, waiting("execution/y/1", {"hive": 2}, priority=RUNS_ALREADY))
    totals = backend.totals(["hive", "spark"])
    assert totals == {"hive": PoolTotals(used=2, asking=2), "spark": PoolTotals(used=2)}
    wait_until(lambda: backend.totals(["hive", "spark"])["spark"].used == 0)
    assert backend.totals(["hive"])["hive"].used == 1
    assert backend.totals([]) == {}


def test_a_lease_that_nobody_renews_is_over_and_not_before(backend: TokenBackend) -> None:
    time_before = time.monotonic()
    lost = granted(backend, claim("a", {"hive": 2}, lease_seconds=0.4))
    wait_until(lambda: isinstance(backend.allocate(claim("b")), Granted))
    assert time.monotonic() - time_before >= 0.4
    assert backend.renew(Renewal.of(lost.grants)) == NotHeld(pools=("hive",))


def test_the_number_of_an_earlier_holder_is_refused(backend: TokenBackend) -> None:
    first = granted(backend, claim("a"))
    number = first.grants["hive"].number
    backend.release(Release(token="a", pools=("hive",), number=number))
    second = granted(backend, claim("a")).grants["hive"].number
    assert second > number
    stale = NotHeld(pools=("hive",), current=second)
    assert backend.renew(Renewal.of(first.grants)) == stale
    assert backend.release(Release(token="a", pools=("hive",), number=number)) == stale
    assert backend.usage(["hive"])["hive"].used == 1


def test_a_renewal_of_another_amount_is_refused_and_changes_nothing(backend: TokenBackend) -> None:
    held = granted(backend, claim("a", {"hive": 1, "spark": 1})).grants
    before = backend.usage(["hive", "spark"])
    for amount in (2, 3):
        other = replace(Renewal.of(held), amounts={"hive": amount, "spark": 1})
        assert backend.renew(other) == NotHeld(pools=("hive",), amounts={"hive": 1})
    assert backend.usage(["hive", "spark"]) == before


def test_those_that_wait_are_served_in_order(backend: TokenBackend) -> None:
    granted(backend, claim("old", {"hive": 2}, project="old"))
    places = [
        refused(backend, asked).place
        for asked in (waiting("a"), waiting("b"), waiting("c", project="search"), waiting("first", priority=1))
    ]
    assert places == [1, 2, 3, 1]
    usage = backend.usage(["hive"])["hive"]
    assert [waiter.token for waiter in usage.waiters] == ["first", "a", "b", "c"]
    assert (usage.waiters[0].priority, usage.waiters[1].place) == (1, Scope("prod", "ads"))
    backend.release(Release(token="old", pools=("hive",)))
    assert refused(backend, waiting("b")).full[0].promised == 2
    assert refused(backend, waiting("a")).place == 2  # its project is about to get one, that of c none
    granted(backend, waiting("first", priority=1))
    granted(backend, waiting("c", project="search"))
    assert backend.release(Release(token="a", pools=("hive",))) == Released(amounts={})
    backend.release(Release(token="c", pools=("hive",)))
    granted(backend, waiting("b"))


def test_no_more_stand_in_line_than_are_allowed(backend: TokenBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ledger, redis_documents):
        monkeypatch.setattr(module, "MOST_WAITERS", 2)
    granted(backend, claim("x", {"hive": 2}))
    assert [refused(backend, waiting(token)).place for token in "ab"] == [1, 2]
    answer = refused(backend, waiting("c"))
    assert (answer.place, answer.waiting, answer.is_line_full) == (None, 2, True)
    assert refused(backend, waiting("a")).place == 1  # who stands there stays there
    assert refused(backend, claim("d")).is_line_full is False  # it does not want to wait
    backend.release(Release(token="b", pools=("hive",)))
    assert refused(backend, waiting("c")).place == 2


def test_a_large_request_reserves_only_where_the_pool_is_short(backend: TokenBackend) -> None:
    granted(backend, claim("x"))
    granted(backend, claim("y"))
    refused(backend, waiting("large", {"hive": 2}))
    backend.release(Release(token="x", pools=("hive",)))
    [full] = refused(backend, waiting("small")).full
    assert (full.limit.level, full.used, full.promised) == ("pool", 1, 1)
    backend.release(Release(token="y", pools=("hive",)))
    granted(backend, waiting("large", {"hive": 2}))
    granted(backend, claim("p", {"spark": 3}))
    assert [full.limit.level for full in refused(backend, waiting("blocked", {"spark": 4})).full] == ["project"]
    granted(backend, waiting("other", {"spark": 4}, project="search"))


def test_who_no_longer_asks_holds_nobody_up(backend: TokenBackend) -> None:
    granted(backend, claim("x", {"hive": 2}))
    refused(backend, waiting("gone", wait_seconds=0.3))
    backend.release(Release(token="x", pools=("hive",)))
    granted(backend, waiting("b"))
    wait_until(lambda: backend.usage(["hive"])["hive"].waiters == ())


def any_claim(dice: Random, token: str) -> Claim:
    """A claim mostly on one pool, which many others wait for."""
    pools = dice.choice([{"hive": 1}] * 5 + [{"hive": 2}, {"hive": 3}, {"spark": 1}, {"hive": 1, "spark": 1}])
    return Claim(
        token=token,
        amounts=pools,
        place=Scope(dice.choice(("dev", "prod")), dice.choice(("ads", "maps", "search"))),
        execution=dice.choice(("", "r1", "r2")),
        priority=dice.choice((0, 0, 0, 1)),
        weight=dice.choice((1.0, 1.0, 2.0)),
        lease_seconds=600.0,
        wait_seconds=dice.choice((0.0, 600.0, 600.0, 600.0)) if len(pools) == 1 else 0.0,
    )


def told(answer: Allocation) -> object:
    """What an answer says, without numbers and times."""
    if not isinstance(answer, Exhausted):
        return type(answer)
    full = [(entry.pool, entry.limit.level, entry.used, entry.promised, entry.holder_count) for entry in answer.full]
    return answer.place, answer.waiting, answer.is_repeated, full


@pytest.mark.parametrize("seed", range(4))
def test_a_line_that_is_read_in_parts_is_served_as_the_plain_rule_says(
    backend: TokenBackend, database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for module in (token_lines, redis_documents):
        monkeypatch.setattr(module, "SHORT_LINE", 3)
    dice = Random(seed)
    caps = Caps(project=4, namespace=3, execution=2)
    plain = Pools(*(TokenPool(name=name, capacity=6, caps=caps) for name in ("hive", "spark")))
    pool = {"capacity": 6, "caps": {"project": 4, "namespace": 3, "execution": 2}}
    define(database, {"hive": pool, "spark": pool})
    asked: dict[str, Claim] = {}
    for step in range(120):
        plain.now += timedelta(seconds=0.001)
        if asked and dice.random() < 0.25:
            token = dice.choice(sorted(asked))
            release = Release(token=token, pools=tuple(asked[token].amounts))
            assert type(backend.release(release)) is type(plain.ledger().release(release))
            continue
        token = dice.choice(sorted(asked)) if asked and dice.random() < 0.4 else f"t{step:03}"
        own = asked.setdefault(token, any_claim(dice, token))
        assert told(backend.allocate(own)) == told(plain.allocate(own)), (step, own)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_what_a_transaction_corrected_that_was_rolled_back_is_corrected_again(
    backend: TokenBackend, database: Database
) -> None:
    granted(backend, claim("a", lease_seconds=600))
    earlier = datetime.now(UTC) - timedelta(hours=1)
    database.clock = lambda: earlier

    def stored() -> datetime:
        with database.reading() as connection:
            expires_at: datetime = connection.execute(select(token_grants.c.expires_at)).scalar_one()
        return expires_at

    with suppress(ZeroDivisionError), database.writing() as connection:
        backend.session(connection, ["hive"], [], ["a"]).save()
        raise ZeroDivisionError
    assert stored() > earlier + timedelta(seconds=600)
    backend.release(Release(token="b", pools=("hive",)))
    assert stored() == earlier + timedelta(seconds=600)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_pool_that_is_made_while_a_claim_looks_for_it_is_there_for_the_next(
    backend: TokenBackend, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_heads = token_pools.lock_heads

    def lock_and_define(connection: Connection, pools: Iterable[str]) -> dict[str, Head]:
        heads = lock_heads(connection, pools)
        define(database, {"new": {"capacity": 1}})
        return heads

    with monkeypatch.context() as patched:
        patched.setattr(token_pools, "lock_heads", lock_and_define)
        patched.setattr(token_pools, "lock", lambda connection, pools: lock_heads(connection, pools))
        assert backend.allocate(claim("a", {"new": 1})) == UnknownPools(pools=("new",))
    granted(backend, claim("a", {"new": 1}))


def test_noop_grants_everything() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    backend: TokenBackend = NoTokens(lambda: noon)
    answer = granted(backend, claim("a", {"anything": 10**6}))
    assert isinstance(backend.renew(Renewal.of(answer.grants)), Renewed)
    assert backend.release(Release(token="b", pools=("anything",))) == Released(amounts={})
    assert backend.usage(["anything"])["anything"].used == 0
    assert "everything is granted" in backend.totals(["anything"])["anything"].reason


@pytest.mark.parametrize(
    ("name", "expected"), [("noop", NoTokens), ("database", DatabaseTokens), ("redis", RedisTokens)]
)
def test_configuration_chooses_the_backend(
    name: str, expected: type[object], sqlite_databases: SqliteDatabases, tmp_path: Path
) -> None:
    pytest.importorskip("redis")
    redis = RedisSettings(host_paths=("127.0.0.1:1",))
    with opened_database(sqlite_databases.set_up(tmp_path)) as database:
        assert isinstance(choose_backend(name, database, redis, 60), expected)
