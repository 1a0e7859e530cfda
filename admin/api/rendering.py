"""How the core's values stand in answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.trails import scope_with
from admin.core.settings.warnings import Warning


def time(moment: datetime) -> str:
    """A time in UTC, to the microsecond."""
    return moment.isoformat().replace("+00:00", "Z")


def matching(kind: Kind, payload: Payload) -> dict[str, Any]:
    """A payload under the key that tells its kind."""
    return {kind.payload_key: payload}


def warning(found: Warning) -> dict[str, Any]:
    return scope_with(
        found.scope,
        code=found.code,
        message=found.message,
        resource_type=found.kind,
        level=found.scope.level.value,
        field=found.field,
        closest=list(found.closest) or None,
        name=found.name or None,
    )
