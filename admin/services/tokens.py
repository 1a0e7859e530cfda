"""Tokens by which agents and users prove themselves; they are shown once, and only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from admin.core.identities import agent_name
from admin.core.narrowing import Narrowing
from admin.errors import Busy, Unauthenticated
from admin.services.context import Context
from admin.store.tokens import CLUSTER_TOKENS, StoredToken, TokenTable, number_of_changes
from admin.store.user_tokens import USER_TOKENS

_TABLES = CLUSTER_TOKENS, USER_TOKENS
_PREFIX_LENGTH = 8
#: Of the part of a token that is no secret: its mark and its prefix.
NAME_LENGTH = 4 + _PREFIX_LENGTH
#: A longer token is none of ours, and is not even hashed.
_MOST_CHARACTERS = 128
#: The last use of a token is noted again after so long.
_USE_NOTED = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class TokenKind:
    """Tokens of clusters, or of users."""

    mark: str  #: their start, which tells them from other tokens
    table: TokenTable
    refusal: str  #: of a token that is not good, with the remedy
    caller: Callable[[str], str] = str  #: what the owner is called as a caller


CLUSTER = TokenKind(
    mark="rbc-",
    table=CLUSTER_TOKENS,
    caller=agent_name,
    refusal="This cluster token is unknown, revoked or expired. Register again, or use the newer token.",
)
USER = TokenKind(
    mark="rbu-",
    table=USER_TOKENS,
    refusal="This token is unknown, revoked or expired. Set RAINBOW_TOKEN to another one of yours; on the admin's host "
    "`rainbow-admin create-token USER` makes one.",
)


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A new token; only its hash is stored."""

    owner: str
    token: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None = None
    name: str | None = None
    narrowed: Narrowing | None = None  #: what a user's token is good for, where that is less than the user

    @property
    def cluster(self) -> str:
        """The owner of a cluster's token, as answers call it."""
        return self.owner


def issue(
    context: Context,
    connection: Connection,
    kind: TokenKind,
    owner: str,
    *,
    name: str | None = None,
    expires_at: datetime | None = None,
    narrowed: Narrowing | None = None,
) -> Issued:
    """Make a token, and store its hash."""
    prefix, now = secrets.token_hex(_PREFIX_LENGTH // 2), context.clock()
    token = f"{kind.mark}{prefix}-{secrets.token_urlsafe(32)}"
    of_users = {} if name is None else {"name": name, "narrowed": None if narrowed is None else narrowed.payload}
    kind.table.add(
        connection, prefix=prefix, owner=owner, hashed=hash_of(token), now=now, expires_at=expires_at, **of_users
    )
    return Issued(
        owner=owner,
        token=token,
        prefix=prefix,
        created_at=now,
        expires_at=expires_at,
        name=name,
        narrowed=narrowed,
    )


def hash_of(text: str) -> str:
    """Tokens are long and random, so a plain hash reveals nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_token(context: Context, kind: TokenKind, token: str) -> StoredToken:
    """What is stored of a token; Unauthenticated for an unknown, revoked or expired one."""
    if len(token) > _MOST_CHARACTERS:
        raise Unauthenticated(kind.refusal)
    return find_hashed(context, kind, _prefix(kind, token), hash_of(token))


def find_hashed(context: Context, kind: TokenKind, prefix: str, hashed: str) -> StoredToken:
    """The same by the prefix and the hash of a token."""
    now = context.clock()
    stored = context.token_cache.get(hashed, context.database, _TABLES, now)
    if stored is None:
        stored = _find(context, kind, prefix, hashed)
    if stored is not None and is_good(stored, now) and not is_use_noted(stored.last_used_at, now):
        context.token_cache.keep(kind.table, stored._replace(last_used_at=now))
        context.token_uses.add(context.database, kind.table, stored.prefix, now)
    if stored is None or not is_good(stored, now):
        raise Unauthenticated(kind.refusal).of_caller(None if stored is None else kind.caller(stored.owner))
    return stored


def is_live(context: Context, token: str) -> bool:
    """Whether a token is good that comes from where wrong ones come; it is looked up together with others.

    Busy where too many wait for that.
    """
    kind = next((kind for kind in (CLUSTER, USER) if token.startswith(kind.mark)), None)
    if kind is None or len(token) > _MOST_CHARACTERS:
        return False
    now, hashed, prefix = context.clock(), hash_of(token), _prefix(kind, token)
    known = context.token_cache.get(hashed, context.database, _TABLES, now)
    if known is not None:
        return is_good(known, now)
    if not prefix.isalnum():
        return False
    lookups = context.token_lookups
    if not lookups.places.acquire(blocking=False):
        raise Busy()
    try:
        return lookups.has(context.database, kind.table, prefix, hashed, now)
    finally:
        lookups.places.release()


def _prefix(kind: TokenKind, token: str) -> str:
    """What a token is listed by; whatever stands there in one that is none of ours."""
    return token.removeprefix(kind.mark)[:_PREFIX_LENGTH]


def is_use_noted(last_used_at: datetime | None, now: datetime) -> bool:
    """Whether the last use of something is noted, which is done once a minute at most."""
    return last_used_at is not None and last_used_at >= now - _USE_NOTED


def _find(context: Context, kind: TokenKind, prefix: str, hashed: str) -> StoredToken | None:
    """The stored token, which is kept in memory from now on; None where there is none with this hash."""
    with context.database.reading() as connection:
        stored = kind.table.get(connection, prefix) if prefix.isalnum() else None
        number = 0 if stored is None else number_of_changes(connection)
    is_right = hmac.compare_digest(hashed, stored.hash if stored is not None else hash_of(kind.mark))
    if stored is None or not is_right:
        return None
    context.token_cache.keep(kind.table, stored, number)
    return stored


def is_good(token: StoredToken, now: datetime) -> bool:
    """Whether a token is neither revoked nor expired."""
    return state_of(token, now) not in ("revoked", "expired")


def state_of(token: StoredToken, now: datetime) -> str:
    """live, expiring, expired or revoked."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "live"
    return "expiring" if token.expires_at > now else "expired"


def revoke(context: Context, kind: TokenKind, owner: str, prefix: str) -> bool | None:
    """Revoke a token at once; says whether it was valid until now, None where the owner has no such token."""
    now = context.clock()
    with context.database.writing() as connection:
        token = kind.table.get(connection, prefix) if prefix.isalnum() else None
        if token is None or token.owner != owner:
            return None
        if not is_good(token, now):
            return False
        kind.table.revoke(connection, prefix, now)
    context.token_cache.forget()
    return True
