"""Warnings over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.service import WarningsAnswer
from admin.messages.shared import WarningAnswer
from admin.services.warnings import list_warnings

operations = Operations("warnings")


@operations.add("GET", "/warnings")
def get_warnings() -> WarningsAnswer:
    """List what is stored but questionable."""
    return WarningsAnswer(warnings=[WarningAnswer.from_warning(warning) for warning in list_warnings(context())])
