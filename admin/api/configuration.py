"""The admin's configuration over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.configuration import ConfigurationAnswer

operations = Operations("configuration")


@operations.add("GET", "/configuration")
def get_configuration() -> ConfigurationAnswer:
    """The configuration in force, without passwords."""
    return ConfigurationAnswer.from_settings(context().settings)
