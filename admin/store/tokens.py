"""Tokens of clusters; only their hashes are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Connection, Index, Table, Text, insert, or_, select, update

from admin.store.database import UtcDateTime, metadata

cluster_tokens = Table(
    "cluster_tokens",
    metadata,
    Column("prefix", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_used_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Index("ix_cluster_tokens_cluster", "cluster"),
)
_columns = cluster_tokens.c

#: How long another replica may accept a token after it was revoked.
CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000


class StoredToken(NamedTuple):
    """A token of a cluster; only its hash is stored."""

    prefix: str
    cluster: str
    hash: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


_SELECT_TOKEN = select(*(_columns[name] for name in StoredToken._fields))


class TokenCache:
    """Tokens that were read within the last second, by their hashes, so that a busy agent costs no query each time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._cached: dict[str, tuple[float, StoredToken]] = {}

    def get(self, hashed: str) -> StoredToken | None:
        """A token that was read recently; None where it was not."""
        read_at, token = self._cached.get(hashed, (0.0, None))
        return token if read_at > self._monotonic() - CACHE_SECONDS else None

    def keep(self, hashed: str, token: StoredToken) -> None:
        """Cache a token that has just been read."""
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[hashed] = self._monotonic(), token

    def forget(self) -> None:
        """Empty the cache, after tokens have changed."""
        self._cached.clear()


def add(connection: Connection, *, prefix: str, cluster: str, hashed: str, now: datetime) -> None:
    """Store a new token's hash."""
    values = {"prefix": prefix, "cluster": cluster, "hash": hashed, "created_at": now}
    connection.execute(insert(cluster_tokens).values(**values))


def get(connection: Connection, prefix: str) -> StoredToken | None:
    """One token, by its prefix."""
    row = connection.execute(_SELECT_TOKEN.where(_columns.prefix == prefix)).one_or_none()
    return None if row is None else StoredToken._make(row)


def of(connection: Connection, cluster: str) -> list[StoredToken]:
    """Every token of a cluster, the newest first."""
    query = _SELECT_TOKEN.where(_columns.cluster == cluster).order_by(_columns.created_at.desc(), _columns.prefix)
    return list(map(StoredToken._make, connection.execute(query)))


def has_live(connection: Connection, cluster: str, now: datetime) -> bool:
    """Whether a cluster has a token that is neither revoked nor expired."""
    return cluster in with_live(connection, [cluster], now)


def with_live(connection: Connection, clusters: Iterable[str], now: datetime) -> set[str]:
    """Those of some clusters that have a token which is neither revoked nor expired."""
    live = (_columns.revoked_at.is_(None), or_(_columns.expires_at.is_(None), _columns.expires_at > now))
    query = select(_columns.cluster).where(_columns.cluster.in_(list(clusters)), *live).distinct()
    return set(connection.execute(query).scalars())


def expire(connection: Connection, prefixes: Iterable[str], at: datetime) -> None:
    """Let tokens expire at a time, unless they expire sooner."""
    is_later = or_(_columns.expires_at.is_(None), _columns.expires_at > at)
    connection.execute(
        update(cluster_tokens).where(_columns.prefix.in_(list(prefixes)), is_later).values(expires_at=at)
    )


def change(connection: Connection, prefix: str, **times: datetime) -> None:
    """Note when a token was revoked or used."""
    connection.execute(update(cluster_tokens).where(_columns.prefix == prefix).values(**times))


def revoke_all(connection: Connection, clusters: Iterable[str], now: datetime) -> None:
    """Revoke every token of some clusters."""
    live = _columns.cluster.in_(list(clusters)), _columns.revoked_at.is_(None)
    connection.execute(update(cluster_tokens).where(*live).values(revoked_at=now))
