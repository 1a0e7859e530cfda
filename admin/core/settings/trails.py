"""Trails: the steps to an answer in the form in which they are stored and shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from admin.core.fields import Path, dotted
from admin.core.json_text import json_text
from admin.core.settings.origins import Origin
from admin.core.settings.resolution import Resolved, Step
from admin.core.settings.scopes import Scope


def digest(body: Any) -> str:
    """A name for a body: equal ones have the same."""
    return hashlib.blake2b(json_text(body, sort_keys=True), digest_size=20).hexdigest()


class Trail(NamedTuple):
    """Steps to an answer, as they are stored: once for all that came the same way."""

    digest: str
    body: dict[str, Any]

    @classmethod
    def of(cls, body: dict[str, Any]) -> Trail:
        return cls(digest(body), body)


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
        "origins": _origins(found.origins),
        "unset": _origins(found.unset),
        "trail": [step(one) for one in found.trail],
    }


def _origins(found: Mapping[Path, Origin]) -> dict[str, Any]:
    shown: dict[int, dict[str, Any]] = {}  # the leaves of a row share their origin
    for one in found.values():
        if id(one) not in shown:
            shown[id(one)] = origin(one)
    return {dotted(path): shown[id(one)] for path, one in found.items()}


@lru_cache(maxsize=8192)
def _place(scope: Scope) -> dict[str, Any]:
    return scope_with(scope, level=scope.level.value)


@lru_cache(maxsize=8192)
def _silent(scope: Scope) -> dict[str, Any]:
    """The step of a level that says nothing, of which there are more than of any other."""
    return {**_place(scope), "state": "silent"}


@lru_cache(maxsize=8192)
def _dotted(paths: tuple[Path, ...]) -> list[str]:
    return [dotted(path) for path in paths]


def step(found: Step) -> dict[str, Any]:
    """Nobody may change what this answers, for parts of it are answered again."""
    scope, payload, version, key, used, overridden, layer = found
    if payload is None:
        return {"level": layer, "state": "silent"} if layer else _silent(scope)
    said: dict[str, Any] = {"level": layer} if layer else _place(scope).copy()
    said["state"] = "set"
    said["value"] = payload
    if version is not None:
        said["version"] = version
    if key:
        said["key"] = key
    said["used"] = _dotted(used)
    said["overridden"] = _dotted(overridden)
    return said
