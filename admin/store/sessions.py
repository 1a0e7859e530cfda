"""Sessions of the console; only the hashes of their ids are kept."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import JSON, Column, Connection, Float, Index, Table, Text, delete, insert, select

from admin.store.database import UtcDateTime, metadata

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user_name", Text, nullable=False),
    Column("proof", Text, nullable=False),
    Column("token", Text),  # the prefix of a user's token, or the name of a login
    Column("token_hash", Text),  # of a token that the session ends with, or of the issuer of a login
    Column("groups", JSON, nullable=False),  # that an OpenID token named
    Column("issued_at", Float),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index("ix_sessions_expires_at", "expires_at"),
)


class Session(NamedTuple):
    """A stored session."""

    hash: str
    user_name: str
    proof: str
    token: str | None
    token_hash: str | None
    groups: list[str]
    issued_at: float | None
    created_at: datetime
    expires_at: datetime


def add(connection: Connection, session: Session) -> None:
    """Store a new session."""
    connection.execute(insert(sessions).values(session._asdict()))


def get(connection: Connection, hashed: str) -> Session | None:
    """A session by the hash of its id."""
    row = connection.execute(select(sessions).where(sessions.c.hash == hashed)).one_or_none()
    return None if row is None else Session(**row._asdict())


def remove(connection: Connection, hashed: str) -> None:
    """Delete a session."""
    connection.execute(delete(sessions).where(sessions.c.hash == hashed))


def has_expired(connection: Connection, now: datetime) -> bool:
    """Whether there are sessions that are over."""
    return connection.execute(select(sessions.c.hash).where(sessions.c.expires_at <= now).limit(1)).first() is not None


def remove_expired(connection: Connection, now: datetime) -> None:
    """Delete the sessions that are over."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
