"""How the core's values stand in answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask import current_app

from admin.core.fields import dotted
from admin.core.kinds import Kind, Payload
from admin.core.resolution import Origin, Resolved, Step
from admin.core.scopes import Scope
from admin.core.warnings import Warning
from admin.services.context import Context


def context() -> Context:
    """The context of the app that answers."""
    found: Context = current_app.extensions["rainbow"]
    return found


def time(moment: datetime) -> str:
    """A time in UTC, to the microsecond."""
    return moment.isoformat().replace("+00:00", "Z")


def matching(kind: Kind, payload: Payload) -> dict[str, Any]:
    """A payload under the key that tells its kind."""
    return {kind.payload_key: payload}


def scope_with(scope: Scope, **more: Any) -> dict[str, Any]:
    """A scope's keys and what else is said of it; what is None is left out."""
    return {**scope.keys(), **{name: value for name, value in more.items() if value is not None}}


def origin(found: Origin) -> dict[str, Any]:
    return scope_with(found.scope, level=found.level.value, version=found.version, key=found.key or None)


def warning(found: Warning) -> dict[str, Any]:
    return scope_with(
        found.scope,
        code=found.code,
        message=found.message,
        resource_type=found.kind,
        level=found.scope.level.value,
        field=found.field,
        closest=list(found.closest) or None,
    )


def resolved(found: Resolved) -> dict[str, Any]:
    return {
        "resource_type": found.kind.name,
        "value": found.value,
        "origins": {dotted(path): origin(one) for path, one in found.origins.items()},
        "unset": {dotted(path): origin(one) for path, one in found.unset.items()},
        "trail": [step(one) for one in found.trail],
    }


def step(found: Step) -> dict[str, Any]:
    if found.payload is None:
        return scope_with(found.scope, level=found.scope.level.value, state="silent")
    return scope_with(
        found.scope,
        level=found.scope.level.value,
        state="set",
        value=found.payload,
        version=found.version,
        key=found.key or None,
        used=[dotted(path) for path in found.used],
        overridden=[dotted(path) for path in found.overridden],
    )
