"""Tokens, of clusters and of users; only their hashes are kept."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Index, Table, Text, insert, or_, select, update

from admin.core.json_text import JsonObject
from admin.store.database import Database, UtcDateTime, metadata
from admin.store.sql_types import AnyColumn

#: How long another replica may accept a token after it was revoked.
CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000
#: Reading all tokens may take a twentieth of the time, however many there are.
_PAUSE_FACTOR = 20


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
    narrowed: JsonObject | None = None  #: what a token of a user is good for, where that is less than the user


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
        **more: object,
    ) -> None:
        """Store a new token's hash; `more` is what the columns of one table alone hold."""
        values = {"prefix": prefix, self._owner.name: owner, "hash": hashed, "created_at": now} | more
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
        query = select(self._owner).where(self._owner.in_(list(owners)), *self._live(now)).distinct()
        return set(connection.execute(query).scalars())

    def live_hashes(self, connection: Connection, now: datetime) -> set[str]:
        """The hashes of all tokens that are neither revoked nor expired."""
        return set(connection.execute(select(self._columns.hash).where(*self._live(now))).scalars())

    def _live(self, now: datetime) -> tuple[ColumnElement[bool], ...]:
        columns = self._columns
        return columns.revoked_at.is_(None), or_(columns.expires_at.is_(None), columns.expires_at > now)

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


class LiveTokens:
    """The hashes of all good tokens, read again once a second while somebody sends wrong ones.

    A right token is then told from a wrong one without a query for each: those who send wrong tokens cost the database
    one query a second, and nobody who has a right one is kept out with them.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._hashes: set[str] = set()
        self._read_again_at = -math.inf

    def has(self, hashed: str, database: Database, tables: Iterable[TokenTable], now: datetime) -> bool:
        """Whether a hash is of a token that was good a moment ago."""
        if self._monotonic() >= self._read_again_at:
            with self._reading:
                began = self._monotonic()
                if began >= self._read_again_at:  # nobody has read them meanwhile
                    with database.reading() as connection:
                        self._hashes = {live for table in tables for live in table.live_hashes(connection, now)}
                    took = self._monotonic() - began
                    self._read_again_at = began + max(CACHE_SECONDS, took * _PAUSE_FACTOR)
        return hashed in self._hashes


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
