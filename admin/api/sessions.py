"""Sessions of the console over HTTP: who is signed in, and ending that."""

from __future__ import annotations

from admin.api.current import caller, context, origin
from admin.api.operations import Operations
from admin.core.permissions import SIGNED_IN
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields
from admin.messages.sessions import SessionAnswer, SessionEndedAnswer, SessionsAnswer, SessionsQuery
from admin.services import audit, sessions

operations = Operations("sessions")


@operations.add("GET", "/sessions", query=SessionsQuery, permission=SIGNED_IN)
def list_sessions(query: Fields) -> SessionsAnswer:
    """List who is signed in at the console, as far as the caller may see: others with tokens.read, else oneself."""
    after = key_of(query.get("token"), 2)
    page = sessions.list_sessions(
        context(), user=query.get("user"), after=(after[0], after[1]) if after else None, limit=query["limit"]
    )
    return SessionsAnswer(
        sessions=[SessionAnswer.from_session(session) for session in page.sessions],
        token=token_of(page.last) if page.last else None,
        partial=not page.is_all or None,
    )


@operations.add("DELETE", "/users/<name>/sessions/<id>", permission="tokens.write", own="name", errors=(404,))
def end_session(name: str, id: str) -> SessionEndedAnswer:
    """End a session of a user at once."""
    session = sessions.end_named_session(context(), name, id)
    audit.note_session_ended(context(), origin(), caller().identity, name, id)
    return SessionEndedAnswer(session=SessionAnswer.from_session(session))
