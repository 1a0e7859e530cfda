"""Tokens of clusters; only their hashes are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Index, Table, Text, insert, or_, select, update
from sqlalchemy import Row as DatabaseRow

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

StoredToken = DatabaseRow[Any]  #: a row of the table, by the names of its columns

#: How long a token may still count where nobody knows yet that it was revoked.
KNOWN_SECONDS = 1.0
_MOST_KNOWN = 10_000


class TokenCache:
    """Tokens as they were a moment ago, by their hashes, so that a busy agent costs no query each time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, StoredToken]] = {}

    def get(self, hashed: str) -> StoredToken | None:
        """A token, if it was read within the last moment."""
        read_at, found = self._known.get(hashed, (0.0, None))
        return found if read_at > time.monotonic() - KNOWN_SECONDS else None

    def keep(self, hashed: str, token: StoredToken) -> None:
        """Remember a token that has just been read."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[hashed] = time.monotonic(), token

    def forget(self) -> None:
        """Read all of them anew: some have changed."""
        self._known.clear()


def add(connection: Connection, *, prefix: str, cluster: str, hashed: str, now: datetime) -> None:
    """Store a new token's hash."""
    values = {"prefix": prefix, "cluster": cluster, "hash": hashed, "created_at": now}
    connection.execute(insert(cluster_tokens).values(**values))


def get(connection: Connection, prefix: str) -> StoredToken | None:
    """One token, by its prefix."""
    return connection.execute(select(cluster_tokens).where(_columns.prefix == prefix)).one_or_none()


def of(connection: Connection, cluster: str) -> list[StoredToken]:
    """Every token of a cluster, the newest first."""
    found = select(cluster_tokens).where(_columns.cluster == cluster)
    return list(connection.execute(found.order_by(_columns.created_at.desc(), _columns.prefix)))


def has_live(connection: Connection, cluster: str, now: datetime) -> bool:
    """Whether a cluster has a token that counts."""
    live = (_columns.revoked_at.is_(None), or_(_columns.expires_at.is_(None), _columns.expires_at > now))
    found = select(_columns.prefix).where(_columns.cluster == cluster, *live).limit(1)
    return connection.execute(found).first() is not None


def expire(connection: Connection, prefixes: Iterable[str], at: datetime) -> None:
    """Let tokens end at a time; those that end sooner anyway do."""
    sooner = or_(_columns.expires_at.is_(None), _columns.expires_at > at)
    connection.execute(update(cluster_tokens).where(_columns.prefix.in_(list(prefixes)), sooner).values(expires_at=at))


def revoke(connection: Connection, prefix: str, now: datetime) -> None:
    """Let a token end at once."""
    connection.execute(update(cluster_tokens).where(_columns.prefix == prefix).values(revoked_at=now))


def revoke_all(connection: Connection, clusters: Iterable[str], now: datetime) -> None:
    """Let every token of some clusters end at once."""
    theirs = _columns.cluster.in_(list(clusters)), _columns.revoked_at.is_(None)
    connection.execute(update(cluster_tokens).where(*theirs).values(revoked_at=now))


def touch(connection: Connection, prefix: str, now: datetime) -> None:
    """Note that a token was used."""
    connection.execute(update(cluster_tokens).where(_columns.prefix == prefix).values(last_used_at=now))
