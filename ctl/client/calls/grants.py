"""
The calls of the client that are about who may do what: groups, grants and roles.

    client.create_definition("group", "ml", {"users": ["ada", "otto"]})
    client.create_grant({"role": "editor", "group": "ml", "project": "flyteexamples"})
    client.explain_access("attributes.write", Scope(project="flyteexamples"), user="ada")

Groups are read, defined and deleted by the calls for definitions, and grants are read by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ctl.client.answers import Document
from ctl.client.calls.base import PAGE, Calls, WriteOptions, non_empty
from ctl.client.scopes import Scope

_OPEN = "At that admin everybody may use every cluster."
#: The lists of what somebody holds.
_HELD = ("grants", "use_grants")
_OLDER = "It has no users: everyone who may call it may do everything."


class GrantCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def create_grant(self, definition: Mapping[str, Any], **options: Unpack[WriteOptions]) -> Document:
        """Give a `role` to a `user` or `group` on the scope whose keys are given; Conflict if it has it already."""
        with self._newer_path(_OLDER):
            return self._change("POST", "grants", {"grant": dict(definition)}, **options)

    def delete_grants(self, definitions: Sequence[Mapping[str, Any]], **options: Unpack[WriteOptions]) -> Document:
        """Take grants away as one revision, or none of them; each by its `name`, or by all that it consists of."""
        changes = [{"grant_definition": dict(definition), "delete": True} for definition in definitions]
        return self._change("POST", "attribute_changes", {"changes": changes}, **options)

    def create_use_grant(self, definition: Mapping[str, Any], **options: Unpack[WriteOptions]) -> Document:
        """Let a `user`, `group` or `project` use a `cluster`, `cluster_group`, `pool` or `label`; Conflict if so."""
        with self._newer_path(_OPEN):
            return self._change("POST", "use_grants", {"use_grant": dict(definition)}, **options)

    def delete_use_grants(self, definitions: Sequence[Mapping[str, Any]], **options: Unpack[WriteOptions]) -> Document:
        """Take use grants away as one revision, or none; each by its `name`, or by all that it consists of."""
        changes = [{"use_grant_definition": dict(definition), "delete": True} for definition in definitions]
        return self._change("POST", "attribute_changes", {"changes": changes}, **options)

    def roles(self) -> Document:
        """The `roles`, each with its permissions, and what each of the `permissions` allows."""
        with self._newer_path(_OLDER):
            return self._read("roles", holding="roles")

    def access(self, scope: Scope) -> Document:
        """Who may do what at a scope: the `grants` that reach it."""
        with self._newer_path(_OLDER):
            pages = list(self._answers("access", "grants", {"limit": PAGE, **scope.document()}))
        joined = {**pages[-1], "grants": [grant for page in pages for grant in page["grants"]]}
        unknown = {entry["value"]: entry for page in pages for entry in page.get("unknown_names") or []}
        joined |= {"unknown_names": list(unknown.values())} if unknown else {}
        joined.pop("token", None)  # the last page has none, unless the admin repeats itself
        return joined

    def held_access(self, *, user: str | None = None, group: str | None = None, scope: Scope | None = None) -> Document:
        """
        What a user or group may do over all scopes, or at one, and which clusters it may use.

        The `grants` and `use_grants` that it has, each with the groups it comes `through`; the latter are left out
        where the caller may not see them.
        """
        keys = {} if scope is None else scope.document()
        query = {"limit": PAGE, **non_empty({"user": user, "group": group}), **keys}
        with self._newer_path("`rainbowctl get grant --user USER` shows the grants of a user's own."):
            pages = list(self._answers("access/held", "grants", query))
        lists = {key: [row for page in pages for row in page[key]] for key in _HELD if key in pages[-1]}
        joined = {**pages[-1], **lists}
        joined.pop("token", None)  # the last page has none, unless the admin repeats itself
        return joined

    def explain_access(
        self, permission: str, scope: Scope, *, user: str | None = None, group: str | None = None
    ) -> Document:
        """Whether a user or group may do something at a scope: by which grants, or what is missing."""
        query = non_empty({"user": user, "group": group, "permission": permission})
        with self._newer_path(_OLDER):
            return self._read("access/explanation", {**query, **scope.document()})
