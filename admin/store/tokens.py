"""Tokens, of clusters and of users; only their hashes are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

from sqlalchemy import Column, ColumnElement, Connection, Index, Table, Text, insert, or_, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError

from admin.core.json_text import JsonObject
from admin.store.cache.following import CACHE_SECONDS as CACHE_SECONDS
from admin.store.cache.following import Following
from admin.store.database import Database, UtcDateTime, metadata
from admin.store.dialects.postgresql import answering_soon
from admin.store.grants import grants_head
from admin.store.sql_types import AnyColumn

#: Tokens that a worker keeps in memory, about 700 bytes each: those that were read last.
MOST_CACHED = 50_000
#: Those that are kept are compared with the database after so long, changed or not.
_COMPARE_SECONDS = 60.0
#: Uses are collected for so long before they are written.
_COLLECT_SECONDS = 1.0
#: Tokens of one statement.
_CHUNK = 1000


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


def number_of_changes(connection: Connection) -> int:
    """How often tokens were taken away."""
    return int(connection.execute(select(grants_head.c.tokens)).scalar_one())


def _count_change(connection: Connection) -> None:
    """Count that tokens are taken away, which makes workers compare those that they keep."""
    connection.execute(update(grants_head).values(tokens=grants_head.c.tokens + 1))


def note_last_uses(connection: Connection, table: Table, key: AnyColumn, uses: Mapping[str, datetime]) -> None:
    """Note when rows of a table were used last, by a column that names them.

    Those that another transaction changes meanwhile are left out, so that the two never wait for each other.
    """
    used = select(key).where(key.in_(list(uses))).with_for_update(skip_locked=True)
    free = connection.execute(used).scalars().all()
    if free:  # they were used within a second, so that the last of their times is good enough for all
        connection.execute(update(table).where(key.in_(free)).values(last_used_at=max(uses.values())))


class Usable(Protocol):
    """A table of what proves callers, whose last uses are noted."""

    def note_uses(self, connection: Connection, uses: Mapping[str, datetime]) -> None:
        """Note when some of it was used last, by what names it."""


class TokenTable:
    """The queries on a table of tokens; the column `owner` has the name of the cluster or user.

    What takes a token away first raises the number of changes by which workers know it (`grants_head.tokens`).
    """

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

    def page(
        self, connection: Connection, *conditions: ColumnElement[bool], after: tuple[str, str] | None, limit: int
    ) -> list[StoredToken]:
        """Tokens that fit some conditions, by owner and prefix, from after those of one on."""
        columns = self._owner, self._columns.prefix
        query = self._select.where(*conditions).order_by(*columns).limit(limit)
        if after is not None:
            query = query.where(tuple_(*columns) > tuple_(*after))
        return [StoredToken(**row._mapping) for row in connection.execute(query)]

    def unused_since(self, since: datetime, now: datetime) -> tuple[ColumnElement[bool], ...]:
        """The conditions that a token is neither revoked nor expired, older than a time and not used since then."""
        columns = self._columns
        is_unused = or_(columns.last_used_at.is_(None), columns.last_used_at < since)
        return *self._live(now), columns.created_at < since, is_unused

    def has_live(self, connection: Connection, owner: str, now: datetime) -> bool:
        """Whether an owner has a token that is neither revoked nor expired."""
        return owner in self.with_live(connection, [owner], now)

    def with_live(
        self, connection: Connection, owners: Iterable[str], now: datetime, *conditions: ColumnElement[bool]
    ) -> set[str]:
        """Those of some owners that have a token which is neither revoked nor expired, and fits some conditions."""
        query = select(self._owner).where(self._owner.in_(list(owners)), *self._live(now), *conditions).distinct()
        return set(connection.execute(query).scalars())

    def live(self, connection: Connection, now: datetime, limit: int) -> list[StoredToken]:
        """Tokens that are neither revoked nor expired, up to a number of them."""
        rows = connection.execute(self._select.where(*self._live(now)).limit(limit))
        return [StoredToken(**row._mapping) for row in rows]

    def live_hashes(self, connection: Connection, prefixes: Iterable[str], now: datetime) -> set[str]:
        """The hashes of those tokens of some prefixes that are neither revoked nor expired."""
        are_asked = self._columns.prefix.in_(list(prefixes))
        return set(connection.execute(select(self._columns.hash).where(are_asked, *self._live(now))).scalars())

    def _live(self, now: datetime) -> tuple[ColumnElement[bool], ...]:
        columns = self._columns
        return columns.revoked_at.is_(None), or_(columns.expires_at.is_(None), columns.expires_at > now)

    def expire(self, connection: Connection, prefixes: Iterable[str], at: datetime) -> None:
        """Let tokens expire at a time, unless they expire sooner."""
        _count_change(connection)
        columns = self._columns
        is_later = or_(columns.expires_at.is_(None), columns.expires_at > at)
        connection.execute(
            update(self._table).where(columns.prefix.in_(list(prefixes)), is_later).values(expires_at=at)
        )

    def revoke(self, connection: Connection, prefix: str, now: datetime) -> None:
        """Revoke a token."""
        _count_change(connection)
        connection.execute(update(self._table).where(self._columns.prefix == prefix).values(revoked_at=now))

    def note_uses(self, connection: Connection, uses: Mapping[str, datetime]) -> None:
        """Note when tokens were used last, by their prefixes."""
        note_last_uses(connection, self._table, self._columns.prefix, uses)

    def ends(self, connection: Connection, prefixes: Sequence[str]) -> dict[str, tuple[datetime | None, ...]]:
        """When tokens expire and were revoked, by their prefixes."""
        columns, ends = self._columns, {}
        for start in range(0, len(prefixes), _CHUNK):
            are_asked = columns.prefix.in_(prefixes[start : start + _CHUNK])
            for prefix, *times in connection.execute(
                select(columns.prefix, columns.expires_at, columns.revoked_at).where(are_asked)
            ):
                ends[prefix] = tuple(times)
        return ends

    def revoke_all(self, connection: Connection, owners: Iterable[str], now: datetime) -> None:
        """Revoke every token of some owners."""
        _count_change(connection)
        live = self._owner.in_(list(owners)), self._columns.revoked_at.is_(None)
        connection.execute(update(self._table).where(*live).values(revoked_at=now))


class CachedToken(NamedTuple):
    """A token in memory, and the table that it is in."""

    table: TokenTable
    token: StoredToken


class _Known(NamedTuple):
    number: int  #: of changes
    compared_at: float
    tokens: dict[str, CachedToken]  #: by their hashes, the one that was read first is first


class TokenCache:
    """Good tokens by their hashes, so that they cost no query as long as none of them changes.

    All of them are read at first, a new one at its first use. Whatever takes a token away raises the number of changes
    (`grants_head.tokens`); those that are kept are then compared with the database, all at once.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, most: int = MOST_CACHED) -> None:
        self._monotonic = monotonic
        self._following = Following[_Known](monotonic)
        self._most = most
        self._keeping = threading.Lock()

    def get(self, hashed: str, database: Database, tables: Iterable[TokenTable], now: datetime) -> StoredToken | None:
        """A token as it was within the last second; None where it is not kept. All good ones are read at first."""
        cached = self._following.current(partial(self._look, database, tables, now)).tokens.get(hashed)
        return None if cached is None else cached.token

    def keep(self, table: TokenTable, token: StoredToken, number: int | None = None) -> None:
        """Keep a token that was read at a number of changes, unless there were others since.

        Without a number, replace one that is kept.
        """
        with self._keeping:
            known = self._following.latest
            if known is None:
                return
            is_kept = token.hash in known.tokens
            if not is_kept if number is None else number != known.number:
                return
            if not is_kept and len(known.tokens) >= self._most:
                del known.tokens[next(iter(known.tokens))]
            known.tokens[token.hash] = CachedToken(table, token)

    def forget(self) -> None:
        """Ask the database the next time, after tokens have changed."""
        self._following.forget()

    def _look(self, database: Database, tables: Iterable[TokenTable], now: datetime, known: _Known | None) -> _Known:
        began = self._monotonic()
        with database.reading() as connection, answering_soon(connection):
            number = number_of_changes(connection)
            if known is None:
                return _Known(number, began, self._read(connection, tables, now))
            # Also now and then, since a database that was restored may have come to the same number.
            if number == known.number and began - known.compared_at < _COMPARE_SECONDS:
                return known
            with self._keeping:
                tokens = dict(known.tokens)
            return _Known(number, began, dict(_compared(connection, tokens)))

    def _read(self, connection: Connection, tables: Iterable[TokenTable], now: datetime) -> dict[str, CachedToken]:
        tokens: dict[str, CachedToken] = {}
        for table in tables:
            for token in table.live(connection, now, self._most - len(tokens)):
                tokens[token.hash] = CachedToken(table, token)
        return tokens


def _compared(connection: Connection, tokens: Mapping[str, CachedToken]) -> Iterator[tuple[str, CachedToken]]:
    """Tokens that are kept, as they are stored now; without those that are gone."""
    for table in {cached.table for cached in tokens.values()}:
        ends = table.ends(connection, [cached.token.prefix for cached in tokens.values() if cached.table is table])
        for hashed, (of, token) in tokens.items():
            if of is table and token.prefix in ends:
                expires_at, revoked_at = ends[token.prefix]
                yield hashed, CachedToken(table, token._replace(expires_at=expires_at, revoked_at=revoked_at))


class TokenUses:
    """When tokens and sessions were used last, to be written for many of them at once."""

    def __init__(self, seconds: float = _COLLECT_SECONDS) -> None:
        """They are written after so many seconds."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._uses: dict[Usable, dict[str, datetime]] = {}
        self._writer: threading.Thread | None = None
        self._closing = threading.Event()

    def add(self, database: Database, table: Usable, name: str, at: datetime) -> None:
        """Note a use, which is written soon."""
        with self._lock:
            self._uses.setdefault(table, {})[name] = at
            if self._writer is None:
                self._writer = threading.Thread(
                    target=self._write_soon, args=(database,), name="token-uses", daemon=True
                )
                self._writer.start()

    def write(self, database: Database) -> None:
        """Write what is noted; it is lost where the database can only be read, and keeps nobody out."""
        with self._writing:
            with self._lock:
                uses, self._uses = self._uses, {}
            for table, times in uses.items():
                names = sorted(times)
                for start in range(0, len(names), _CHUNK):
                    chunk = {name: times[name] for name in names[start : start + _CHUNK]}
                    with suppress(SQLAlchemyError), database.writing() as connection:
                        table.note_uses(connection, chunk)

    def close(self) -> None:
        """Write what is noted now, and wait for it."""
        self._closing.set()
        writer = self._writer
        if writer is not None:
            writer.join()

    def _write_soon(self, database: Database) -> None:
        while True:
            self._closing.wait(self._seconds)
            self.write(database)
            with self._lock:
                if not self._uses:
                    self._writer = None
                    return


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
