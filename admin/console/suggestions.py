"""Suggestions: names that fields of forms suggest, as far as the caller may see them."""

from __future__ import annotations

from flask import g

from admin.api.current import context
from admin.console.answers import ask_if_allowed
from admin.services.definitions import names_in_fleet

_MOST = 100
#: The lists of names that are of the fleet.
_OF_FLEET = {"pools", "labels", "clusters"}
#: The other lists of names, by the ids that fields give: the operation of REST, and where its answer has the names.
_LISTS = {
    "projects": ("list_projects", "projects", "id"),
    "domains": ("list_domains", "domains", "id"),
    "token_pools": ("list_token_pools", "token_pools", "name"),
    "users": ("list_users", "users", "name"),
    "groups": ("list_groups", "groups", "name"),
    "roles": ("list_roles", "roles", "name"),
}
#: Of these, the lists that have no pages.
_WHOLE = {"list_domains", "list_roles"}


def suggestions(*names: str) -> dict[str, list[str]]:
    """The names that some lists have; a page does not show these questions among those that it is about."""
    asked = list(g.get("asked", ()))
    # Of the fleet the names alone, without what lists of it have to read.
    of_fleet = names_in_fleet(context(), _MOST) if _OF_FLEET & {*names} else {}
    suggested = {name: of_fleet[name] for name in names if name in of_fleet}
    for name in names:
        if name in of_fleet:
            continue
        operation, part, key = _LISTS[name]
        query = {} if operation in _WHOLE else {"limit": _MOST}
        listed = ask_if_allowed(operation, query)
        suggested[name] = [str(item[key]) for item in (listed or {}).get(part, ())]
    g.asked = asked
    return suggested
