"""Token pools: the list, one of them with who holds and who waits, and releasing by force what somebody holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from admin.api.current import context
from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.filters import page
from admin.console.pages import Pages, go_to, is_unconfirmed, render, shown_again
from admin.core.live_subjects import Topic
from admin.errors import TokensNotHeld

pages = Pages("token-pools")

_PAGE_SIZE = 50
_PLACE = ("project", "domain", "execution")


@pages.add("GET", "/token-pools", permission="token_pools.read", live=(Topic.TOKENS, Topic.SETTINGS))
def list_token_pools() -> str:
    """The list."""
    query = asked_query("limit", "token")
    return render(
        "token_pools/list.html",
        title="Token pools",
        commands=[["get", "token-pool"]],
        listed=ask("list_token_pools", {"limit": _PAGE_SIZE, **query}),
        grants_everything=context().settings.resource_manager.grants_everything,
        query=query,
    )


@pages.add("GET", "/token-pools/<name>", permission="token_pools.read", live=(Topic.TOKENS, Topic.SETTINGS))
def show_token_pool(name: str) -> str:
    """One pool."""
    query = asked_query("project", "domain")
    path = {"name": name}
    pool = ask("get_token_pool", path=path)
    if "used" not in pool:
        return render(
            "token_pools/unknown.html", title=name, commands=[["get", "token-pool", name]], pool=pool, query=query
        )
    options = [word for key, flag in (("project", "-p"), ("domain", "-d")) for word in (flag, query.get(key)) if word]
    return render(
        "token_pools/one.html",
        title=name,
        commands=[
            ["get", "token-pool", name],
            ["explain", "token-pool", name, *(options if "project" in query else [])],
            ["where-used", "token-pool", name],
        ],
        pool=pool,
        grants_everything=context().settings.resource_manager.grants_everything,
        explanation=ask("explain_token_pool", query, path=path),
        quotas=ask_if_allowed("list_quota_usage", query) if "project" in query or "domain" in query else None,
        uses=ask_if_allowed("get_uses", {"token_pool": name, "limit": _PAGE_SIZE}),
        query=query,
    )


@pages.add("GET", "/token-pools/<name>/release", permission="token_pools.write")
def preview_release(name: str) -> str:
    """Who holds what would be released by force."""
    return _preview(name, asked_query("token").get("token", ""))


@pages.add("POST", "/token-pools/<name>/release", permission="token_pools.write")
def release_tokens(form: Mapping[str, str], name: str) -> Response:
    """Release by force what somebody holds, after a confirmation that names it."""
    token = form.get("token", "")
    if is_unconfirmed(form, token):
        return shown_again(_preview(name, token))
    holder = _holder(name, token)
    place = {key: holder[key] for key in _PLACE if key in holder}
    release = {"token": token, "pools": {name: holder["amount"]}, **place, "force": True}
    ask("release_tokens", body={"release": release})
    return go_to(page("token-pools", name), f"What {token} held of {name} is released.")


def _preview(name: str, token: str) -> str:
    return render(
        "token_pools/release.html",
        title=f"Release {token}",
        commands=[["get", "token-pool", name]],
        name=name,
        holder=_holder(name, token),
    )


def _holder(name: str, token: str) -> dict[str, Any]:
    """Who holds tokens under a name; TokensNotHeld where nobody does that the caller may see."""
    pool = ask("get_token_pool", path={"name": name})
    for holder in pool.get("holders", []):
        if holder.get("token") == token:
            return dict(holder)
    raise TokensNotHeld(f"Nothing of token pool '{name}' is held as '{token}' now: look at its page again.")
