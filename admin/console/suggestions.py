"""Suggestions: names that fields of forms suggest, as far as the caller may see them."""

from __future__ import annotations

from flask import g

from admin.console.answers import ask_if_allowed

_MOST = 100
#: The lists of names by the ids that fields give: the operation of REST, and where its answer has the names.
_LISTS = {
    "projects": ("list_projects", "projects", "id"),
    "domains": ("list_domains", "domains", "id"),
    "pools": ("list_pools", "pools", "name"),
    "labels": ("list_labels", "labels", "name"),
    "clusters": ("list_clusters", "clusters", "name"),
    "token_pools": ("list_token_pools", "token_pools", "name"),
}


def suggestions(*names: str) -> dict[str, list[str]]:
    """The names that some lists have; a page does not show these questions among those that it is about."""
    asked = list(g.get("asked", ()))
    suggested: dict[str, list[str]] = {}
    for name in names:
        operation, part, key = _LISTS[name]
        query = {} if operation == "list_domains" else {"limit": _MOST}
        listed = ask_if_allowed(operation, query)
        suggested[name] = [str(item[key]) for item in (listed or {}).get(part, ())]
    g.asked = asked
    return suggested
