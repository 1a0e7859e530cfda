"""Backends of token pools for tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import update

from admin.core.changes import RowChange
from admin.core.settings.scopes import PLATFORM
from admin.core.token_pools.answers import Exhausted, Granted
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import TOKEN_POOL, read_token_pool
from admin.store import token_pools
from admin.store.database import Database
from admin.store.revision_tables import revision_head
from admin.store.token_backends.base import TokenBackend
from admin.store.token_backends.database import DatabaseTokens
from admin.store.token_backends.redis import RedisTokens
from admin.store.token_backends.redis_client import RedisSettings, connect, connect_briefly
from admin.store.token_tables import TOKEN_POOLS

if TYPE_CHECKING:
    from admin.store.token_backends.redis_client import Client


@contextmanager
def opened_database(url: str, connections: int = 40) -> Iterator[Database]:
    """A migrated database without an admin."""
    engine = sqlalchemy.create_engine(url, pool_size=connections, max_overflow=connections)
    try:
        yield Database(engine)
    finally:
        engine.dispose()


def define(database: Database, pools: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Define pools, or remove them."""
    with database.writing() as connection:
        stored = TOKEN_POOLS.some(connection, pools)
        changes = [
            RowChange(
                kind=TOKEN_POOL,
                scope=PLATFORM,
                name=name,
                before=stored[name].payload if name in stored else None,
                after=None if payload is None else read_token_pool(name, dict(payload)),
            )
            for name, payload in pools.items()
        ]
        token_pools.write(connection, changes, 1)
        connection.execute(update(revision_head).values(number=revision_head.c.number + 1))  # as any change does


@contextmanager
def opened_backend(database: Database, redis_address: str | None, **options: Any) -> Iterator[TokenBackend]:
    """The backend of a database, or of Redis beside it, with keys of its own, after its first lease."""
    if redis_address is None:
        yield DatabaseTokens(database)
        return
    tag = options.pop("tag", f"test-{secrets.token_hex(4)}")
    settings = RedisSettings(host_paths=(redis_address,), max_retries=1)
    client, brief_client = connect(settings), connect_briefly(settings)
    try:
        if options.pop("is_open", True):
            open_redis(client, tag)
        yield RedisTokens(lambda: client, database, brief_client=lambda: brief_client, tag=tag, **options)
    finally:
        client.close()
        brief_client.close()


def open_redis(client: Client, tag: str) -> None:
    """Have a new server grant tokens at once, as after its first lease."""
    run_id = client.info("server")["run_id"]
    opened = {"epoch": 1, "run_id": run_id, "grants_from": 0, "steady_since": 0}
    for field, value in opened.items():
        client.hset(f"{{{tag}}}:state", field, value)


def granted(backend: TokenBackend, asked: Claim) -> Granted:
    answer = backend.allocate(asked)
    assert isinstance(answer, Granted), answer
    return answer


def refused(backend: TokenBackend, asked: Claim) -> Exhausted:
    answer = backend.allocate(asked)
    assert isinstance(answer, Exhausted), answer
    return answer
