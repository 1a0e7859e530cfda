"""Tokens of users."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table, Text

from admin.store.database import UtcDateTime, metadata
from admin.store.tokens import TokenTable

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
    Index("ix_user_tokens_user_name", "user_name"),
)
#: Those of users.
USER_TOKENS = TokenTable(user_tokens, "user_name")
