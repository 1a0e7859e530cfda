"""Which backend of token pools an admin has."""

from __future__ import annotations

from importlib.util import find_spec

from admin.core.problems import invalid
from admin.store.database import Database
from admin.store.token_backends.base import NOBODY, Observer, TokenBackend
from admin.store.token_backends.database import DatabaseTokens
from admin.store.token_backends.noop import NoTokens
from admin.store.token_backends.redis import RedisTokens
from admin.store.token_backends.redis_client import RedisSettings, connect, connect_briefly


def choose_backend(
    type: str, database: Database, redis: RedisSettings, longest_lease_seconds: float, observer: Observer = NOBODY
) -> TokenBackend:
    """The backend of a type; Invalid where its library is not installed."""
    if type == "noop":
        return NoTokens(database.clock)
    if type == "database":
        return DatabaseTokens(database, observer=observer)
    if find_spec("redis") is None:
        raise invalid("resourcemanager.type", "redis needs its client: run `pip install 'rainbow[redis]'`.")
    return RedisTokens(
        lambda: connect(redis),
        database,
        brief_client=lambda: connect_briefly(redis),
        longest_lease_seconds=longest_lease_seconds,
        observer=observer,
    )
