"""The admin's configuration over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.configuration import AdminConfigurationAnswer

operations = Operations("configuration")


@operations.add("GET", "/configuration")
def get_configuration() -> AdminConfigurationAnswer:
    """The configuration in force, without passwords."""
    return AdminConfigurationAnswer.from_settings(context().settings)
