"""The registry of kinds over HTTP, so that clients learn declared ones too."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.service import KindsAnswer

operations = Operations("kinds")


@operations.add("GET", "/kinds", summary="List the kinds", answer=KindsAnswer)
def list_kinds() -> KindsAnswer:
    return KindsAnswer.from_kinds(context().settings.kinds)
