"""The calls of the client that are about the admin itself: its clock, configuration, audit events, and logins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, non_empty


class ServiceCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def clock(self) -> Document:
        """The admin's `time`, and whether pruning and giving up are `suspended` because its clock has jumped."""
        return self._read("clock")

    def health(self) -> Document:
        """How the admin itself fares: its database, background work and clock, and the `problems` of these."""
        with self._newer_path("`rainbowctl version` and `get clock` tell a part of it."):
            return self._read("health")

    def accept_clock(self, *, reason: str | None = None, claimed_by: str | None = None) -> Document:
        """Accept the admin's clock as right; `changed` tells whether it was suspended."""
        return self._write("POST", "clock/accept", non_empty({"reason": reason, "claimed_by": claimed_by}))

    def admin_config(self) -> Document:
        """The admin's configuration in force: each key with its `value` and `source`; passwords are hidden."""
        return self._read("configuration", holding="values")

    def audit(self, **filters: Any) -> Iterator[Document]:
        """
        Logins, what was done with tokens, and denied requests, newest first, page by page.

        Filters are `event`, `user`, `address`, `after` and `before` (RFC 3339), and `limit`, the size of a page.
        """
        yield from self._pages("audit", "events", filters)

    def audit_pages(self, **filters: Any) -> Iterator[Document]:
        """The same as answers: each has its `events`, and the last what was pruned and is `not_listed`."""
        with self._newer_path("It notes nothing of tokens and denied requests."):
            yield from self._answers("audit", "events", non_empty(filters))

    def provider(self) -> Document:
        """The OpenID provider at which users log in: its `issuer`, the `client_id` of rainbowctl there, `scopes`."""
        with self._newer_path("Give a token with --token-file."):
            return self._read("openid")
