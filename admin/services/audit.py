"""Audit: what happened to logins and tokens and who was denied; noted at once, stored soon, and listed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.core.audit import CLUSTER_TARGET, USER_TARGET, AuditEvent, AuditType, RequestOrigin, minute_of
from admin.core.changes import Authorship
from admin.core.identities import Identity, Proof
from admin.core.problems import shorten
from admin.core.provenance import NOBODY, Actor
from admin.core.times import show_time
from admin.errors import RainbowError
from admin.services.context import Context
from admin.services.tokens import Issued
from admin.store import audit_events, retention, user_tokens
from admin.store.audit_events import AuditFilter
from admin.store.sessions import Session

_log = logging.getLogger("rainbow.audit")
#: Characters of a refusal that an event repeats.
_MOST_REASON = 300


class Auditor:
    """Notes what the front sees of requests: who uses tokens from where, and who is denied."""

    def __init__(self, context_of_app: Callable[[], Context]) -> None:
        self._context_of_app = context_of_app

    def note_use(self, identity: Identity, address: str | None, origin_of: Callable[[], RequestOrigin]) -> None:
        """Note a use of a user's token or login, of which the first ones, and those from new addresses, are kept.

        `origin_of` says where the request came from and what it is for, which is asked for only where it is kept.
        """
        context, token = self._context_of_app(), identity.token
        if token is None:
            return
        user, proof, queue = identity.proven_user, identity.proof, context.audit_queue
        if proof is Proof.OPENID:
            if queue.is_new_use(token, ""):
                note_login(context, origin_of(), user, token)
            targets = [f"{USER_TARGET}{user}"]  # logins are short, so it is their users of whom the addresses are known
        else:
            targets = [user_token(user, prefix) for prefix in (token, *identity.more_tokens)]
        for target in targets:
            if address is not None and queue.is_new_use(target, address):
                _note(context, AuditType.NEW_ADDRESS, origin_of(), user=user, proof=proof.value, target=target)

    def note_denied(self, origin: RequestOrigin, identity: Identity | None, error: RainbowError) -> None:
        """Note a request that was denied, by whom if the gate has admitted it."""
        note_denied(self._context_of_app(), origin, identity, error)


def note_denied(context: Context, origin: RequestOrigin, identity: Identity | None, error: RainbowError) -> None:
    """Note something that was denied."""
    is_wrong = error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
    kind = AuditType.WRONG_TOKEN if is_wrong else AuditType.FORBIDDEN
    user, proof = _by(identity)
    reason = shorten(error.message, _MOST_REASON)
    _note(context, kind, origin, user=user or error.caller, proof=proof, reason=reason)


def note_login(context: Context, origin: RequestOrigin, user: str, login: str) -> None:
    """Note that somebody comes with a login of an OpenID provider that was not used before."""
    _note(context, AuditType.LOGIN, origin, user=user, proof=Proof.OPENID.value, target=f"login/{user}/{login}")


def note_token_created(context: Context, origin: RequestOrigin, identity: Identity | None, issued: Issued) -> None:
    """Note that a user or cluster got a token, by whom; None for somebody on the admin's host."""
    parts = [
        *([f"called '{issued.name}'"] if issued.name else []),
        *([f"expires {show_time(issued.expires_at)}"] if issued.expires_at else []),
        *([f"narrowed to {issued.narrowed}"] if issued.narrowed else []),
    ]
    host = " on the admin's host" if identity is None else ""
    naming = cluster_token if issued.name is None else user_token  # of which the latter have names
    target, reason = naming(issued.owner, issued.prefix), f"{', '.join(parts)}{host}" or None
    user, proof = _by(identity)
    _note(context, AuditType.TOKEN_CREATED, origin, user=user, proof=proof, target=target, reason=reason)


def note_token_revoked(context: Context, origin: RequestOrigin, identity: Identity, target: str) -> None:
    """Note that a token was revoked, by whom."""
    user, proof = _by(identity)
    _note(context, AuditType.TOKEN_REVOKED, origin, user=user, proof=proof, target=target)


def note_session_started(context: Context, origin: RequestOrigin, session: Session, name: str) -> None:
    """Note that somebody signed in at the console, by a session of this name."""
    _note_session(context, AuditType.SESSION_STARTED, origin, session, name)


def note_signed_out(context: Context, origin: RequestOrigin, session: Session, name: str) -> None:
    """Note that somebody signed out of the console."""
    _note_session(context, AuditType.SESSION_ENDED, origin, session, name, "signed out")


def _note_session(
    context: Context, kind: AuditType, origin: RequestOrigin, session: Session, name: str, reason: str | None = None
) -> None:
    user = session.user_name
    target = f"session/{user}/{name}"
    _note(context, kind, origin, user=user, proof=session.proof, target=target, reason=reason)


def note_session_ended(context: Context, origin: RequestOrigin, identity: Identity, user: str, name: str) -> None:
    """Note that a session of the console was ended by its name, by whom."""
    by, proof = _by(identity)
    _note(context, AuditType.SESSION_ENDED, origin, user=by, proof=proof, target=f"session/{user}/{name}")


def note_owners_removed(context: Context, authorship: Authorship, owners: Iterable[str]) -> None:
    """Note that users and clusters lost all of their tokens because they were deleted, by whom."""
    origin = RequestOrigin(request_id=authorship.request_id)
    for owner in owners:
        noun = "cluster" if owner.startswith(CLUSTER_TARGET) else "user"
        _note(
            context,
            AuditType.TOKEN_REVOKED,
            origin,
            user=authorship.author,
            proof=authorship.proof,
            target=owner,
            reason=f"all of its tokens: the {noun} was deleted",
        )


def user_token(user: str, prefix: str) -> str:
    """A token of a user as rainbowctl names it."""
    return f"user-token/{user}/{prefix}"


def cluster_token(cluster: str, prefix: str) -> str:
    """A token of a cluster as rainbowctl names it."""
    return f"token/{cluster}/{prefix}"


def _by(identity: Identity | None) -> tuple[str | None, str | None]:
    """The user and the proof of a caller; None of nobody in particular."""
    actor = NOBODY if identity is None else Actor.of_identity(identity, None)
    return actor.proven_author, actor.proof


def _note(
    context: Context,
    kind: AuditType,
    origin: RequestOrigin,
    *,
    user: str | None,
    proof: str | None = None,
    target: str | None = None,
    reason: str | None = None,
) -> None:
    event = AuditEvent(
        at=context.clock(),
        event=kind.value,
        user=user,
        proof=proof,
        target=target,
        reason=reason,
        **origin._asdict(),
    )
    context.audit_queue.note(event)


def store_waiting(context: Context, *, is_last: bool = False) -> None:
    """Store what this worker has noted; kept for later where the database fails. `is_last` where the worker ends."""
    queue = context.audit_queue
    with queue.storing:
        events: Sequence[AuditEvent] = queue.take()
        try:
            if events:
                with context.database.writing() as connection:
                    events = _without_known_uses(connection, audit_events.without_known(connection, events))
                    audit_events.add(connection, events)
        except SQLAlchemyError as error:
            queue.put_back(events)
            _log.warning("audit events wait: the database does not take them", extra={"reason": str(error)[:200]})
            return
        if queue.file is not None:
            queue.file.write(events, None if is_last else minute_of(context.clock()))


def _without_known_uses(connection: Connection, events: Sequence[AuditEvent]) -> list[AuditEvent]:
    """Events without uses of tokens from addresses that they were used from before; the new ones are stored."""
    uses: dict[str, list[str]] = {}
    for event in events:
        if _is_of_token(event) and event.target and event.address:
            uses.setdefault(_token_of(event.target), []).append(event.address)
    new = user_tokens.add_addresses(connection, uses)
    return [
        event for event in events if not _is_of_token(event) or (_token_of(event.target or ""), event.address) in new
    ]


def _is_of_token(event: AuditEvent) -> bool:
    """Whether an event is a use of a token with which its addresses are stored."""
    return event.event == AuditType.NEW_ADDRESS and event.once_key is None


def _token_of(target: str) -> str:
    return target.rpartition("/")[2]


def list_events(
    context: Context, filters: AuditFilter, below: int | None, limit: int
) -> tuple[list[AuditEvent], int | None, str | None]:
    """A page of events, the newest first; where the next one starts, or else what of the past was deleted."""
    store_waiting(context)  # so that whoever was denied a moment ago finds that
    with context.database.reading() as connection:
        page = audit_events.page(connection, filters, below, limit + 1)
        cutoff = retention.cutoffs(connection).audit_events
    if len(page) > limit:
        return page[:limit], page[limit - 1].number, None
    is_missing = cutoff is not None and (filters.after is None or filters.after < cutoff)
    missing = f"Audit events of before {show_time(cutoff)} are pruned." if cutoff is not None and is_missing else None
    return page, None, missing
