"""Tokens of users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import JSON, Column, ColumnElement, Connection, Index, Table, Text, exists, func, not_, select, update

from admin.store.database import UtcDateTime, metadata
from admin.store.tokens import TokenTable
from admin.store.users import users

user_tokens = Table(
    "user_tokens",
    metadata,
    Column("prefix", Text, primary_key=True),
    Column("user_name", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_used_at", UtcDateTime),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("addresses", JSON, nullable=False, server_default="[]"),  # from which it was used, the newest last
    Column("narrowed", JSON(none_as_null=True)),  # NULL where it is as good as its user
    Index("ix_user_tokens_user_name", "user_name"),
)
#: Addresses of a token that are kept; one that is used from more of them is told as new there again some day.
MOST_ADDRESSES = 100
#: Those of users.
USER_TOKENS = TokenTable(user_tokens, "user_name")


def with_whole_tokens(connection: Connection, names: Iterable[str], now: datetime) -> set[str]:
    """Those of some users that have a good token which is not narrowed."""
    return USER_TOKENS.with_live(connection, names, now, user_tokens.c.narrowed.is_(None))


def last_uses(connection: Connection, names: Iterable[str]) -> dict[str, datetime]:
    """When a token of each of some users was used last, by user; without those of whom none was."""
    columns = user_tokens.c
    is_used = columns.user_name.in_(list(names)), columns.last_used_at.is_not(None)
    query = select(columns.user_name, func.max(columns.last_used_at)).where(*is_used).group_by(columns.user_name)
    return {row[0]: row[1] for row in connection.execute(query)}


def idle_since(since: datetime) -> tuple[ColumnElement[bool], ...]:
    """The conditions that a user was created before a time, and that no token of it was used since."""
    columns = user_tokens.c
    is_used = exists().where(columns.user_name == users.c.name, columns.last_used_at >= since)
    return users.c.created_at < since, not_(is_used)


def add_addresses(connection: Connection, uses: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    """Store from which addresses tokens were used, by their prefixes; returns the uses from new ones."""
    new: set[tuple[str, str]] = set()
    columns = user_tokens.c
    for prefix, addresses in sorted(uses.items()):
        is_token = columns.prefix == prefix
        row = connection.execute(select(columns.addresses).where(is_token).with_for_update()).one_or_none()
        known: list[str] = row.addresses if row is not None else list(addresses)
        added = [address for address in dict.fromkeys(addresses) if address not in known]
        if added:
            kept = [*known, *added][-MOST_ADDRESSES:]
            connection.execute(update(user_tokens).where(is_token).values(addresses=kept))
        new |= {(prefix, address) for address in added}
    return new
