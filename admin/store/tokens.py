"""Tokens, of clusters and of users; only their hashes are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Connection, Index, Table, Text, insert, or_, select, update

from admin.store.database import UtcDateTime, metadata
from admin.store.sql_types import AnyColumn

#: How long another replica may accept a token after it was revoked.
CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000


class StoredToken(NamedTuple):
    """A token of a cluster or user; only its hash is stored."""

    prefix: str
    owner: str  #: the name of the cluster or user
    hash: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    name: str | None = None  #: tokens of clusters have none


class TokenCache:
    """Tokens that were read within the last second, by their hashes, so that a busy caller costs no query each time."""

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


class TokenTable:
    """The queries on a table of tokens; the column `owner` has the name of the cluster or user."""

    def __init__(self, table: Table, owner: str) -> None:
        self._table = table
        self._columns = table.c
        self._owner = table.c[owner]
        columns: dict[str, AnyColumn] = {"owner": self._owner.label("owner"), **dict(table.c.items())}
        self._select = select(*(columns[name] for name in StoredToken._fields if name in columns))

    def add(
        self,
        connection: Connection,
        *,
        prefix: str,
        owner: str,
        hashed: str,
        now: datetime,
        expires_at: datetime | None = None,
        **named: str,
    ) -> None:
        """Store a new token's hash; `named` is the name, in a table that has names."""
        values = {"prefix": prefix, self._owner.name: owner, "hash": hashed, "created_at": now} | named
        connection.execute(insert(self._table).values(**values, expires_at=expires_at))

    def get(self, connection: Connection, prefix: str) -> StoredToken | None:
        """One token, by its prefix."""
        row = connection.execute(self._select.where(self._columns.prefix == prefix)).one_or_none()
        return None if row is None else StoredToken(**row._mapping)

    def of(self, connection: Connection, owner: str) -> list[StoredToken]:
        """Every token of an owner, the newest first."""
        newest_first = self._columns.created_at.desc(), self._columns.prefix
        query = self._select.where(self._owner == owner).order_by(*newest_first)
        return [StoredToken(**row._mapping) for row in connection.execute(query)]

    def has_live(self, connection: Connection, owner: str, now: datetime) -> bool:
        """Whether an owner has a token that is neither revoked nor expired."""
        return owner in self.with_live(connection, [owner], now)

    def with_live(self, connection: Connection, owners: Iterable[str], now: datetime) -> set[str]:
        """Those of some owners that have a token which is neither revoked nor expired."""
        columns = self._columns
        live = (columns.revoked_at.is_(None), or_(columns.expires_at.is_(None), columns.expires_at > now))
        query = select(self._owner).where(self._owner.in_(list(owners)), *live).distinct()
        return set(connection.execute(query).scalars())

    def expire(self, connection: Connection, prefixes: Iterable[str], at: datetime) -> None:
        """Let tokens expire at a time, unless they expire sooner."""
        columns = self._columns
        is_later = or_(columns.expires_at.is_(None), columns.expires_at > at)
        connection.execute(
            update(self._table).where(columns.prefix.in_(list(prefixes)), is_later).values(expires_at=at)
        )

    def change(self, connection: Connection, prefix: str, **times: datetime) -> None:
        """Note when a token was revoked or used."""
        connection.execute(update(self._table).where(self._columns.prefix == prefix).values(**times))

    def revoke_all(self, connection: Connection, owners: Iterable[str], now: datetime) -> None:
        """Revoke every token of some owners."""
        live = self._owner.in_(list(owners)), self._columns.revoked_at.is_(None)
        connection.execute(update(self._table).where(*live).values(revoked_at=now))


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
#: Those of clusters.
CLUSTER_TOKENS = TokenTable(cluster_tokens, "cluster")
