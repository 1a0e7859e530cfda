"""Trails: the steps to an answer in the form in which they are stored and shown."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from admin.core.fields import dotted
from admin.core.resolution import Origin, Resolved, Step
from admin.core.scopes import Scope


def digest(body: Any) -> str:
    """A name for a body: equal ones have the same."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def scope_with(scope: Scope, **more: Any) -> dict[str, Any]:
    """A scope's keys and what else is said of it; what is None is left out."""
    return {**scope.keys(), **{name: value for name, value in more.items() if value is not None}}


def origin(found: Origin) -> dict[str, Any]:
    if found.layer:
        return {"level": found.layer}
    return scope_with(found.scope, level=found.level.value, version=found.version, key=found.key or None)


def resolved(found: Resolved) -> dict[str, Any]:
    return {
        "resource_type": found.kind.name,
        "value": found.value,
        "origins": {dotted(path): origin(one) for path, one in found.origins.items()},
        "unset": {dotted(path): origin(one) for path, one in found.unset.items()},
        "trail": [step(one) for one in found.trail],
    }


def step(found: Step) -> dict[str, Any]:
    where: dict[str, Any] = (
        {"level": found.layer} if found.layer else scope_with(found.scope, level=found.scope.level.value)
    )
    if found.payload is None:
        return where | {"state": "silent"}
    more = {"value": found.payload, "version": found.version, "key": found.key or None}
    return {
        **where,
        "state": "set",
        **{name: value for name, value in more.items() if value is not None},
        "used": [dotted(path) for path in found.used],
        "overridden": [dotted(path) for path in found.overridden],
    }
