"""The registry of kinds over HTTP, so that clients learn declared ones too."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.service import KindAnswer, KindsAnswer

operations = Operations("kinds")


@operations.add("GET", "/kinds")
def list_kinds() -> KindsAnswer:
    """List the kinds."""
    return KindsAnswer(kinds=[KindAnswer.from_kind(kind) for kind in context().settings.kinds])
