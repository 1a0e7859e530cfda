"""The calls of the client that are about the admin itself: its clock, its configuration, and where users log in."""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, non_empty


class ServiceCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def clock(self) -> Document:
        """The admin's `time`, and whether pruning and giving up are `suspended` because its clock has jumped."""
        return self._read("clock")

    def accept_clock(self, *, reason: str | None = None, claimed_by: str | None = None) -> Document:
        """Accept the admin's clock as right; `changed` tells whether it was suspended."""
        return self._write("POST", "clock/accept", non_empty({"reason": reason, "claimed_by": claimed_by}))

    def admin_config(self) -> Document:
        """The admin's configuration in force: each key with its `value` and `source`; passwords are hidden."""
        return self._read("configuration", holding="values")

    def provider(self) -> Document:
        """The OpenID provider at which users log in: its `issuer`, the `client_id` of rainbowctl there, `scopes`."""
        with self._newer_path("Give a token with --token-file."):
            return self._read("openid")
