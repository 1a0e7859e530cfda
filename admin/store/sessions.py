"""Sessions of the console; only the hashes of their ids are kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import JSON, Column, Connection, Float, Index, Table, Text, delete, insert, select, tuple_

from admin.store.database import UtcDateTime, metadata
from admin.store.tokens import note_last_uses

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user_name", Text, nullable=False),
    Column("proof", Text, nullable=False),
    Column("token", Text),  # the prefix of a user's token, or the name of a login
    Column("token_hash", Text),  # of a token that the session ends with
    Column("issuer_hash", Text),  # of the provider of a login
    Column("groups", JSON, nullable=False),  # that an OpenID token named
    Column("issued_at", Float),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("last_used_at", UtcDateTime),
    Column("address", Text),  # from which it began
    Column("browser", Text),  # with which, as that names itself
    Index("ix_sessions_expires_at", "expires_at"),
    Index("ix_sessions_user", "user_name", "hash"),
)


class Session(NamedTuple):
    """A stored session."""

    hash: str
    user_name: str
    proof: str
    token: str | None
    token_hash: str | None
    issuer_hash: str | None
    groups: list[str]
    issued_at: float | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None = None
    address: str | None = None
    browser: str | None = None


class _Uses:
    """When sessions were used last, which is written for many of them at once."""

    def note_uses(self, connection: Connection, uses: Mapping[str, datetime]) -> None:
        """Note when sessions were used last, by their hashes."""
        note_last_uses(connection, sessions, sessions.c.hash, uses)


USES = _Uses()


def add(connection: Connection, session: Session) -> None:
    """Store a new session."""
    connection.execute(insert(sessions).values(session._asdict()))


def get(connection: Connection, hashed: str) -> Session | None:
    """A session by the hash of its id."""
    row = connection.execute(select(sessions).where(sessions.c.hash == hashed)).one_or_none()
    return None if row is None else Session(**row._asdict())


def page(
    connection: Connection, user: str | None, now: datetime, *, after: tuple[str, str] | None, limit: int
) -> list[Session]:
    """Sessions that are not over, of a user or of all, by user and hash, from after those of one on."""
    key = sessions.c.user_name, sessions.c.hash
    query = select(sessions).where(sessions.c.expires_at > now).order_by(*key).limit(limit)
    if user is not None:
        query = query.where(sessions.c.user_name == user)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))
    return [Session(**row._mapping) for row in connection.execute(query)]


def beginning(connection: Connection, user: str, start: str) -> list[Session]:
    """The sessions of a user whose hashes begin with a text."""
    query = select(sessions).where(sessions.c.user_name == user, sessions.c.hash.startswith(start, autoescape=True))
    return [Session(**row._mapping) for row in connection.execute(query)]


def remove(connection: Connection, hashed: str) -> None:
    """Delete a session."""
    connection.execute(delete(sessions).where(sessions.c.hash == hashed))


def has_expired(connection: Connection, now: datetime) -> bool:
    """Whether there are sessions that are over."""
    return connection.execute(select(sessions.c.hash).where(sessions.c.expires_at <= now).limit(1)).first() is not None


def remove_expired(connection: Connection, now: datetime) -> None:
    """Delete the sessions that are over."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
