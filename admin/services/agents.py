"""Agents: registered with a secret, known by a token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from admin.core import names
from admin.core.changes import Authorship
from admin.core.fields import read
from admin.core.fleet.cluster_reports import REPORT
from admin.core.fleet.definitions import FleetKind, Source
from admin.errors import (
    AlreadyRegistered,
    ClusterNotFound,
    RegistrationRefused,
    TokenNotFound,
    TooManyAttempts,
    Unauthenticated,
)
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.fleet import definition_write
from admin.services.changes import make_change
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.store import fleet, tokens
from admin.store.fleet import ClusterEvent
from admin.store.tokens import StoredToken

TOKEN_MARK = "rbc-"  # tells a cluster's token from an operator's
_ATTEMPTS, _PER_SECONDS = 10, 60.0


class RegistrationLimiter:
    """Wrong registrations of the last minute, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrong: deque[float] = deque()

    def check(self) -> None:
        """Refuse even the right secret after too many wrong ones: guessing must not pay."""
        with self._lock:
            while self._wrong and self._wrong[0] < time.monotonic() - _PER_SECONDS:
                self._wrong.popleft()
            if len(self._wrong) >= _ATTEMPTS:
                raise TooManyAttempts()

    def note(self) -> None:
        """Remember a wrong one."""
        with self._lock:
            self._wrong.append(time.monotonic())


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A new token; only its holder will ever see it again."""

    cluster: str
    token: str
    prefix: str
    created_at: datetime


def register(context: Context, attempts: RegistrationLimiter, name: str, secret: str, description: Any) -> Issued:
    """Let a cluster's agent in; every refusal before the secret is known to be right is the same."""
    attempts.check()
    is_right = hmac.compare_digest(_hash(secret), _hash(_registration_secret(context)))
    with context.database.reading() as connection:
        known = current_fleet(context, connection).clusters
    may = names.is_entity_name(name) and (context.settings.agents.registration != "declared" or name in known)
    if not is_right or not may:
        attempts.note()
        raise RegistrationRefused()
    report = {key: value for key, value in read(REPORT, description or {}).items() if value is not None}
    now = context.clock()
    is_held_back = name not in known and context.settings.agents.registration == "approve"
    if is_held_back:
        with context.database.writing() as connection:
            fleet.hold_back(connection, name)  # first of all: nobody may find it in the fleet and not held back
    if name not in known or known[name].definition.source is Source.EXPECTED:
        _define(context, name)
    with context.database.writing() as connection:
        fleet.lock(connection)
        if tokens.has_live(connection, name, now):
            raise AlreadyRegistered(
                f"Cluster '{name}' has a live token. Use it, rotate it, or revoke it with "
                f"`rainbowctl delete token {name} PREFIX`; then register again."
            )
        state = fleet.state(connection, name)
        said = report or state.report
        event = ClusterEvent(cluster=name, at=now, type="REGISTERED")
        fleet.save(connection, replace(state, report=said, admitted=state.admitted and not is_held_back), event)
        return _issue(context, connection, name)


def _define(context: Context, name: str) -> None:
    """A name that registers becomes part of the fleet."""
    authorship = Authorship(author="registration", message=f"cluster {name} registered")
    write = definition_write(context, FleetKind.CLUSTER, name, {})
    make_change(context, [write], ChangeOptions(authorship=authorship))


def _registration_secret(context: Context) -> str:
    """The secret, read anew each time, so that it can be changed; nobody can guess one that is not there."""
    path = context.settings.agents.secret_file
    try:
        found = Path(path).read_text().strip() if path else ""
    except OSError:
        found = ""
    return found or secrets.token_hex(32)


def _issue(context: Context, connection: Connection, cluster: str) -> Issued:
    prefix = secrets.token_hex(4)
    token = f"{TOKEN_MARK}{prefix}-{secrets.token_urlsafe(32)}"
    now = context.clock()
    tokens.add(connection, prefix=prefix, cluster=cluster, hashed=_hash(token), now=now)
    return Issued(cluster=cluster, token=token, prefix=prefix, created_at=now)


def _hash(text: str) -> str:
    """Tokens are long and random, so that a plain hash tells nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


def cluster_of(context: Context, token: str) -> str:
    """The cluster that a token belongs to; Unauthenticated for one that does not count."""
    now, hashed = context.clock(), _hash(token)
    known = context.token_cache.get(hashed)
    found = known or _stored(context, token, hashed)
    if found is None or state_of(found, now) in ("revoked", "expired"):
        raise Unauthenticated("This cluster token does not count (any more). Register again, or use the newer one.")
    if found.last_used_at is None or found.last_used_at < now - timedelta(seconds=60):
        with context.database.writing() as connection:
            tokens.touch(connection, found.prefix, now)
    elif known is None:
        context.token_cache.keep(hashed, found)
    cluster: str = found.cluster
    return cluster


def _stored(context: Context, token: str, hashed: str) -> StoredToken | None:
    """A token as it is stored, None where it is not the right one."""
    prefix = token.removeprefix(TOKEN_MARK)[:8]
    with context.database.reading() as connection:
        found = tokens.get(connection, prefix) if prefix.isalnum() else None
    is_right = hmac.compare_digest(hashed, found.hash if found is not None else _hash(TOKEN_MARK))
    return found if is_right else None


def state_of(token: StoredToken, now: Any) -> str:
    """Whether a token counts."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "live"
    return "expiring" if token.expires_at > now else "expired"


def list_tokens(context: Context, cluster: str) -> list[StoredToken]:
    """Every token of a cluster, the newest first."""
    with context.database.reading() as connection:
        _check_cluster(context, connection, cluster)
        return tokens.of(connection, cluster)


def rotate(context: Context, cluster: str, overlap_seconds: float) -> Issued:
    """A new token; the older ones end after the overlap."""
    now = context.clock()
    with context.database.writing() as connection:
        _check_cluster(context, connection, cluster)
        older = [one.prefix for one in tokens.of(connection, cluster) if one.revoked_at is None]
        tokens.expire(connection, older, now + timedelta(seconds=overlap_seconds))
        issued = _issue(context, connection, cluster)
    context.token_cache.forget()
    return issued


def revoke(context: Context, cluster: str, prefix: str) -> bool:
    """End a token at once; answers whether it counted until now."""
    now = context.clock()
    with context.database.writing() as connection:
        found = tokens.get(connection, prefix) if prefix.isalnum() else None
        if found is None or found.cluster != cluster:
            raise TokenNotFound()
        if state_of(found, now) in ("revoked", "expired"):
            return False
        tokens.revoke(connection, prefix, now)
    context.token_cache.forget()
    return True


def _check_cluster(context: Context, connection: Connection, cluster: str) -> None:
    if cluster not in current_fleet(context, connection).clusters:
        raise ClusterNotFound(f"No cluster is called '{cluster[:60]}'. `rainbowctl get cluster` lists them.")
