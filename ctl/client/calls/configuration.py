"""The call of the client that is about the admin's configuration."""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.calls.base import Calls


class ConfigurationCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def admin_config(self) -> Document:
        """The admin's configuration in force: each key with its `value` and `source`; passwords are hidden."""
        return self._read("configuration", holding="values")
