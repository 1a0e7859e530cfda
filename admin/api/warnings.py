"""Warnings over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.service import WarningsAnswer
from admin.services.warnings import list_warnings

operations = Operations("warnings")


@operations.add("GET", "/warnings", summary="List what is stored but questionable", answer=WarningsAnswer)
def get_warnings() -> WarningsAnswer:
    return WarningsAnswer.from_warnings(list_warnings(context()))
