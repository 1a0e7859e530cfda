"""Trails: the steps to an answer in the form in which they are stored and shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from admin.core.json_text import json_text
from admin.core.problems import Path, dotted
from admin.core.provenance import Provenance, not_kept
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Resolved, Step
from admin.core.settings.scopes import PLATFORM, Level, Origin, Scope


def digest(body: Any) -> str:
    """A hash of a JSON value."""
    return hashlib.blake2b(json_text(body, sort_keys=True), digest_size=20).hexdigest()


class Trail(NamedTuple):
    """Steps to an answer, stored once for all answers with the same steps."""

    digest: str
    body: dict[str, Any]

    @classmethod
    def of(cls, body: dict[str, Any]) -> Trail:
        return cls(digest(body), body)


def scope_with(scope: Scope, **more: Any) -> dict[str, Any]:
    """A scope's keys and further entries; those that are None are left out."""
    return {**scope.keys(), **{name: value for name, value in more.items() if value is not None}}


def origin(source: Origin) -> dict[str, Any]:
    """An origin as it is stored and shown."""
    if source.layer:
        return {"level": source.layer}
    return scope_with(source.scope, level=source.level.value, version=source.version, key=source.key or None)


def describe_origin(shown: Mapping[str, Any], provenance: Mapping[int, Provenance], now: datetime) -> str:
    """Where a value was set and by which revision, of an origin as it is stored and shown.

    Of a revision that is no longer kept it has what is known.
    """
    if "key" in shown:
        return f"in configuration ({shown['key']})"
    scope = Scope(**{key: shown[key] for key in Scope._fields if key in shown})
    if scope == PLATFORM:
        return f"by the {shown['level'].replace('-', ' ')}"
    if "version" not in shown:
        return f"at {scope}"
    number = shown.get("revision") or shown["version"]
    revision = provenance[number].describe(now) if number in provenance else not_kept(f"revision {number}")
    if "set_before" in shown and shown["set_before"] > number:
        revision = f"{revision}, or an earlier one"
    elif "set_before" in shown:
        revision = f"before revision {shown['set_before']}; its row was changed last by {revision}"
    return f"at {scope} ({revision})"


def resolved(effective: Resolved) -> dict[str, Any]:
    """An effective value, its origins and its trail as they are stored and shown."""
    return {
        "resource_type": effective.kind.name,
        "value": effective.value,
        "origins": origins(effective.origins),
        "unset": origins(effective.unset),
        "trail": [step(level) for level in effective.trail],
    }


_LEVELS = frozenset(level.value for level in Level)


def read_resolved(kind: Kind, scope: Scope, shown: Mapping[str, Any]) -> Resolved:
    """An effective value as it is stored and shown, with its origins; without its steps and what is unset."""
    sources = {
        path: read_origin(shown["origins"][name])
        for path in kind.leaves(shown["value"])
        if (name := dotted(path)) in shown["origins"]
    }
    return Resolved(kind, scope, shown["value"], sources, {}, ())


def read_origin(shown: Mapping[str, Any]) -> Origin:
    """An origin from what is stored and shown of it."""
    scope = Scope(**{key: shown[key] for key in Scope._fields if key in shown})
    layer = "" if shown["level"] in _LEVELS else shown["level"]
    return Origin(scope, shown.get("version"), shown.get("key", ""), layer)


def origins(sources: Mapping[Path, Origin]) -> dict[str, Any]:
    """The origin of each leaf, by its dotted path."""
    shown: dict[int, dict[str, Any]] = {}  # the leaves of a row share their origin
    for source in sources.values():
        if id(source) not in shown:
            shown[id(source)] = origin(source)
    return {dotted(path): shown[id(source)] for path, source in sources.items()}


@lru_cache(maxsize=8192)
def _place(scope: Scope) -> dict[str, Any]:
    return scope_with(scope, level=scope.level.value)


@lru_cache(maxsize=8192)
def _silent(scope: Scope) -> dict[str, Any]:
    """The step of a level without a row; most steps are."""
    return {**_place(scope), "state": "silent"}


@lru_cache(maxsize=8192)
def _dotted(paths: tuple[Path, ...]) -> list[str]:
    return [dotted(path) for path in paths]


def step(level: Step) -> dict[str, Any]:
    """A step as it is stored and shown; the result is shared, so callers must not change it."""
    scope, payload, version, key, used, overridden, layer = level
    if payload is None:
        return {"level": layer, "state": "silent"} if layer else _silent(scope)
    body: dict[str, Any] = {"level": layer} if layer else _place(scope).copy()
    body["state"] = "set"
    body["value"] = payload
    if version is not None:
        body["version"] = version
    if key:
        body["key"] = key
    body["used"] = _dotted(used)
    body["overridden"] = _dotted(overridden)
    return body
