"""The tables of token pools: definitions, the last number of each pool, grants, their sums, and those that wait."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, Index, Integer, Table, Text

from admin.core.settings.scopes import SCOPE_KEYS
from admin.store.database import UtcDateTime, metadata
from admin.store.named_payloads import NamedPayloads, StoredPayload

#: By name.
TOKEN_POOLS = NamedPayloads("token_pools", StoredPayload)

#: One row a pool, also of deleted ones, so that numbers never go back. Whoever grants or changes a pool locks it.
token_pool_heads = Table(
    "token_pool_heads",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),  # the last that a grant or waiter got
    Column("releases", BigInteger, nullable=False, server_default="0"),  # rises when tokens may have come free
)

token_grants = Table(
    "token_grants",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("token", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    *(Column(key, Text, nullable=False) for key in SCOPE_KEYS),
    Column("execution", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("lease_seconds", Float, nullable=False),
    Column("granted_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index("ix_token_grants_ends", "pool", "expires_at"),
    Index("ix_token_grants_executions", "pool", "execution"),
)
#: The largest and oldest holders of a pool.
Index("ix_token_grants_sizes", token_grants.c.pool, token_grants.c.amount.desc(), token_grants.c.number)

#: How many tokens and grants count at each scope where any did, by its path.
token_sums = Table(
    "token_sums",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("bucket", Text, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
)

#: A row in each pool that a claim waits for; each has the whole claim as it was when it asked last.
token_waiters = Table(
    "token_waiters",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("token", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("amounts", JSON, nullable=False),
    Column("caps", JSON, nullable=False),
    Column("standings", JSON, nullable=False),
    *(Column(key, Text, nullable=False) for key in SCOPE_KEYS),
    Column("execution", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("weight", Float, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("wait_seconds", Float, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("queue", Text),  # with whom it is alike; None for claims on several pools, and of an earlier version
    Index("ix_token_waiters_queues", "pool", "queue", "since", "number", "expires_at"),
)
