"""Users: people and service accounts, what one of them may do, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.filters import page
from admin.console.pages import Pages, go_to, is_unconfirmed, render, shown_again
from admin.console.sessions import own_id

pages = Pages("users")

_PAGE_SIZE = 50
_FEW = 8
_TOKEN = "/users/<name>/tokens/<prefix>/revoke"


@pages.add("GET", "/users", permission="users.read")
def list_users() -> str:
    """The list."""
    query = asked_query("service_account", "idle", "limit", "token")
    nouns = {"true": ["service-account"], "false": ["user"]}.get(query.get("service_account", ""), ["user"])
    return render(
        "users/list.html",
        title="Users",
        commands=[["get", *nouns, *(["--idle", query["idle"]] if "idle" in query else [])]],
        listed=ask("list_users", {"limit": _PAGE_SIZE, **query}),
        query=query,
    )


@pages.add("GET", "/users/<name>", permission="users.read", own="name")
def show_user(name: str) -> str:
    """One user."""
    query = asked_query("token")
    tokens = ask_if_allowed("list_user_tokens", path={"name": name})
    # Whose tokens one may see, their sessions too.
    sessions = None if tokens is None else ask("list_sessions", {"user": name, "limit": _FEW})["sessions"]
    return render(
        "users/one.html",
        title=name,
        commands=[["get", "user", name], ["get", "user-token", name], ["get", "access", "--user", name]],
        user=ask("get_user", path={"name": name}),
        held=ask_if_allowed("get_held_access", {"user": name, "limit": _PAGE_SIZE, "token": query.get("token")}),
        tokens=None if tokens is None else tokens["tokens"],
        sessions=sessions,
        own_id=own_id(),
        query=query,
    )


@pages.add("GET", _TOKEN, permission="tokens.write", own="name")
def preview_revocation(name: str, prefix: str) -> str:
    """What revoking a token would end."""
    asked_query()
    return _preview(name, prefix)


@pages.add("POST", _TOKEN, permission="tokens.write", own="name")
def revoke_token(form: Mapping[str, str], name: str, prefix: str) -> Response:
    """Revoke a token, after a confirmation that names it."""
    if is_unconfirmed(form, prefix):
        return shown_again(_preview(name, prefix))
    revoked = ask("revoke_user_token", path={"name": name, "prefix": prefix})
    notice = f"Token {prefix} is revoked." if revoked["changed"] else f"Token {prefix} had ended before."
    return go_to(page("users", name), notice)


def _preview(name: str, prefix: str) -> str:
    tokens = ask_if_allowed("list_user_tokens", path={"name": name})
    known = [] if tokens is None else [token for token in tokens["tokens"] if token["prefix"] == prefix]
    return render(
        "users/revoke.html",
        title=f"Revoke {prefix}",
        commands=[["delete", "user-token", name, prefix]],
        name=name,
        prefix=prefix,
        token=known[0] if known else None,
    )
