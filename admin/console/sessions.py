"""Sessions of the console: who is signed in, and ending that."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request

from admin.console.answers import ask, asked_query
from admin.console.filters import page
from admin.console.forms import SESSION_COOKIE
from admin.console.pages import Pages, go_to, is_unconfirmed, render, shown_again
from admin.core.permissions import SIGNED_IN
from admin.services.sessions import name_of_id

pages = Pages("sessions")

_PAGE_SIZE = 50
_END = "/users/<name>/sessions/<id>/end"


@pages.add("GET", "/sessions", permission=SIGNED_IN)
def list_sessions() -> str:
    """The list, of those that the caller may see."""
    query = asked_query("user", "limit", "token")
    user = [query["user"]] if "user" in query else []
    return render(
        "users/sessions.html",
        title="Signed in",
        commands=[["get", "session", *user]],
        listed=ask("list_sessions", {"limit": _PAGE_SIZE, **query}),
        own_id=own_id(),
        query=query,
    )


def own_id() -> str | None:
    """By what the session of this request is listed."""
    id = request.cookies.get(SESSION_COOKIE)
    return None if id is None else name_of_id(id)


@pages.add("GET", _END, permission="tokens.write", own="name")
def preview_end(name: str, id: str) -> str:
    """What ending a session means."""
    asked_query()
    return _preview(name, id)


@pages.add("POST", _END, permission="tokens.write", own="name")
def end_session(form: Mapping[str, str], name: str, id: str) -> Response:
    """End a session, after a confirmation that names it."""
    if is_unconfirmed(form, id):
        return shown_again(_preview(name, id))
    ask("end_session", path={"name": name, "id": id})
    return go_to(page("sign-in") if id == own_id() else page("sessions", user=name), f"Session {id} is ended.")


def _preview(name: str, id: str) -> str:
    listed = ask("list_sessions", {"user": name, "limit": 1000})["sessions"]
    return render(
        "users/end_session.html",
        title=f"End session {id}",
        commands=[["delete", "session", name, id]],
        name=name,
        session={"id": id, **next((session for session in listed if session["id"] == id), {})},
        own_id=own_id(),
    )
