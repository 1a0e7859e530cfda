"""Sessions of the console: what a browser brings in place of the token that its user signed in with.

A session of a user's token or of the shared one is good for as long as that token is. One of an OpenID provider goes by
its own time, since nobody tells when a login ends there, and is over when another provider is configured.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from admin.core.identities import Identity, Proof
from admin.errors import SessionNotFound, Unauthenticated
from admin.services import tokens
from admin.services.context import Context
from admin.services.user_tokens import identity_of
from admin.store import sessions
from admin.store.sessions import Session

_OVER = "This session of the console is over. Sign in again."
#: A longer id is none of ours.
_MOST_CHARACTERS = 128
#: Characters of the hash of its id by which a session is listed and ended.
_NAME_LENGTH = 12
_NAME = re.compile(rf"[0-9a-f]{{{_NAME_LENGTH}}}")
#: Of what a browser says that it is.
_MOST_BROWSER = 200


class StartedSession(NamedTuple):
    """A new session; only the hash of its id is stored."""

    id: str
    session: Session


def start_session(
    context: Context, identity: Identity, token: str, *, address: str | None = None, browser: str | None = None
) -> StartedSession:
    """Begin a session of somebody who was proven by a token, from an address and with a browser."""
    id, now = secrets.token_urlsafe(32), context.clock()
    expires_at = now + timedelta(seconds=context.settings.console_session_seconds)
    session = Session(
        hash=tokens.hash_of(id),
        user_name=identity.user,
        proof=identity.proof.value,
        token=identity.token,
        token_hash=None if identity.proof is Proof.OPENID else tokens.hash_of(token),
        issuer_hash=_issuer_hash(context) if identity.proof is Proof.OPENID else None,
        groups=sorted(identity.groups),
        issued_at=identity.issued_at,
        created_at=now,
        expires_at=expires_at,
        last_used_at=now,
        address=address,
        browser=browser and browser[:_MOST_BROWSER],
    )
    with context.database.writing() as connection:
        sessions.remove_expired(connection, now)
        sessions.add(connection, session)
    return StartedSession(id, session)


def identify_session(context: Context, id: str, shared_tokens: Callable[[], tuple[bytes, ...]] | None) -> Identity:
    """Whose session an id is of; Unauthenticated where it is over, or its token is no longer good."""
    session, now = None, context.clock()
    if len(id) <= _MOST_CHARACTERS:
        with context.database.reading() as connection:
            session = sessions.get(connection, tokens.hash_of(id))
    if session is None or session.expires_at <= now:
        raise Unauthenticated(_OVER)
    identity = _identity_of(context, session, shared_tokens)
    if not tokens.is_use_noted(session.last_used_at, now):
        context.token_uses.add(context.database, sessions.USES, session.hash, now)
    return identity


def _identity_of(context: Context, session: Session, shared_tokens: Callable[[], tuple[bytes, ...]] | None) -> Identity:
    """Whom a session proves; Unauthenticated where what it began with is no longer good."""
    proof = Proof(session.proof)
    if proof is Proof.TOKEN:
        return identity_of(tokens.find_hashed(context, tokens.USER, session.token or "", session.token_hash or ""))
    is_login = proof is Proof.OPENID and _is_of_issuer(context, session)
    if not is_login and not (proof is Proof.SHARED_TOKEN and _is_shared(session, shared_tokens)):
        raise Unauthenticated(_OVER)
    return Identity(
        user=session.user_name,
        groups=frozenset(session.groups),
        proof=proof,
        token=session.token,
        issued_at=session.issued_at,
    )


def _issuer_hash(context: Context) -> str | None:
    """What a login is of: the hash of the provider that the admin trusts now, None without one."""
    openid = context.settings.openid
    return None if openid is None else tokens.hash_of(openid.issuer)


def _is_of_issuer(context: Context, session: Session) -> bool:
    """Whether a session began with a login at the provider that is trusted now."""
    issuer = _issuer_hash(context)
    return issuer is not None and session.issuer_hash == issuer


def _is_shared(session: Session, shared_tokens: Callable[[], tuple[bytes, ...]] | None) -> bool:
    """Whether the token of a session is one that the operators still share."""
    accepted = () if shared_tokens is None else shared_tokens()
    # Compared with all of them, so that the time taken tells nothing.
    return bool(
        sum(hmac.compare_digest(tokens.hash_of(token.decode()), session.token_hash or "") for token in accepted)
    )


def end_session(context: Context, id: str) -> Session | None:
    """End a session, which is answered as it was; None where there was none."""
    hashed = tokens.hash_of(id)
    with context.database.writing() as connection:
        session = sessions.get(connection, hashed)
        sessions.remove(connection, hashed)
    return session if session is not None and session.expires_at > context.clock() else None


def name_of(hashed: str) -> str:
    """By what a session is listed and ended, which proves nobody."""
    return hashed[:_NAME_LENGTH]


def name_of_id(id: str) -> str:
    """The same of the session that an id is of."""
    return name_of(tokens.hash_of(id))


@dataclass(frozen=True, kw_only=True)
class SessionPage:
    """Some sessions, of one or several users."""

    sessions: list[Session]
    last: tuple[str, str] | None  #: the user and hash after which the next page starts, if there is one
    is_all: bool  #: whether the caller may see those of every user


def list_sessions(context: Context, *, user: str | None, after: tuple[str, str] | None, limit: int) -> SessionPage:
    """A page of the sessions that the caller may see and that are not over, of a user or of all."""
    context.token_uses.write(context.database)
    access = context.access
    own = access.identity.user
    is_all = access.allows("tokens.read") or user == own
    if not is_all and user not in (None, own):
        return SessionPage(sessions=[], last=None, is_all=False)
    with context.database.reading() as connection:
        page = sessions.page(connection, user if is_all else own, context.clock(), after=after, limit=limit + 1)
    listed = page[:limit]
    last = (listed[-1].user_name, listed[-1].hash) if len(page) > limit else None
    return SessionPage(sessions=listed, last=last, is_all=is_all)


def end_named_session(context: Context, user: str, name: str) -> Session:
    """End a session of a user at once, which is answered as it was; SessionNotFound where there is none."""
    with context.database.writing() as connection:
        found = sessions.beginning(connection, user, name) if _NAME.fullmatch(name) else []
        if not found or found[0].expires_at <= context.clock():
            raise SessionNotFound(f"User '{user}' has no session '{name}'. `rainbowctl get session {user}` lists them.")
        for session in found:
            sessions.remove(connection, session.hash)
    return found[0]


def remove_expired_sessions(context: Context, now: datetime) -> None:
    """Delete the sessions that are over; nothing is written where there are none."""
    with context.database.reading() as connection:
        if not sessions.has_expired(connection, now):
            return
    with context.database.writing() as connection:
        sessions.remove_expired(connection, now)
