"""Pools and labels: their members, what a pool promised them and what came about, and where they are used."""

from __future__ import annotations

from typing import Any

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.pages import Pages, render
from admin.core.live_subjects import Topic

pages = Pages("cluster-groups")

_PAGE_SIZE = 50
#: Where a pool or label is used, and its members: what a page shows of them.
_USES, _MEMBERS = 20, 100


def _list(noun: str, query: dict[str, str]) -> str:
    return render(
        "fleet/groups.html",
        title=f"{noun}s".capitalize(),
        commands=[["get", noun]],
        groups=(answer := ask(f"list_{noun}s", {"limit": _PAGE_SIZE, **query}))[f"{noun}s"],
        token=answer.get("token"),
        noun=noun,
        query=query,
    )


def _show(noun: str, name: str, query: dict[str, str], more: dict[str, Any]) -> str:
    return render(
        "fleet/group.html",
        title=f"{noun} {name}",
        group=ask(f"get_{noun}", path={"name": name}),
        uses=ask_if_allowed("get_uses", {noun: name, "limit": _USES, "token": query.get("token")}),
        noun=noun,
        query=query,
        most_members=_MEMBERS,
        **more,
    )


@pages.add("GET", "/fleet/pools", permission="fleet.read", live=(Topic.FLEET,))
def list_pools() -> str:
    """The pools."""
    return _list("pool", asked_query("limit", "token"))


@pages.add("GET", "/fleet/labels", permission="fleet.read", live=(Topic.FLEET,))
def list_labels() -> str:
    """The labels."""
    return _list("label", asked_query("limit", "token"))


@pages.add("GET", "/fleet/pools/<name>", permission="fleet.read", live=(Topic.FLEET, Topic.EXECUTIONS))
def show_pool(name: str) -> str:
    """One pool, with what was placed by it."""
    query = asked_query("after", "before", "token")
    window: dict[str, Any] = {key: query[key] for key in ("after", "before") if key in query}
    shares = ask("get_pool_shares", window, path={"name": name})
    options = [word for key, flag in (("after", "--since"), ("before", "--until")) for word in (flag, query.get(key))]
    since = [word for word in options if word] if window else []
    commands = [["get", "pool", name], ["get", "pool", name, "--shares", *since], ["where-used", "pool", name]]
    return _show("pool", name, query, {"shares": shares, "commands": commands})


@pages.add("GET", "/fleet/labels/<name>", permission="fleet.read")
def show_label(name: str) -> str:
    """One label."""
    commands = [["get", "label", name], ["where-used", "label", name]]
    return _show("label", name, asked_query("token"), {"shares": None, "commands": commands})
