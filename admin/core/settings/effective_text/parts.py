"""Parts of templates: the answer of `resolve` for one kind, with slots for what depends on the rows.

Which leaf comes from which row follows from the shapes of the rows alone. So rows of the same shapes are resolved
once, with a sample of each, and their scopes, versions and payloads are replaced by slots in the answer's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from admin.core.json_text import json_text
from admin.core.problems import Path
from admin.core.settings import trails
from admin.core.settings.effective_text.shapes import Shape
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Resolved, Row, resolve
from admin.core.settings.scopes import Level, Scope

SCOPE, VERSION, PAYLOAD, VALUE = "scope", "version", "payload", "value"

#: Slots are marked by strings that begin with NUL, which is in no name and no text of a payload.
_SLOT = re.compile(rb'"\\u0000(scope|version|payload|value)([0-9])"')
_NAMES = Scope(*(f"\0{key}" for key in Scope._fields))


class Slot(NamedTuple):
    """A gap in a text."""

    field: str
    at: int  #: the place in the chain of the scope or row that fills it; of no meaning for a value


class Source(NamedTuple):
    """Where a leaf of a mixed value comes from."""

    path: Path
    at: int | None  #: the row's place in the chain, None for the platform
    value: Any  #: the platform's


class Part(NamedTuple):
    """The part of an answer that is about one kind."""

    text: bytes  #: a format with `%b` for each slot
    slots: tuple[Slot, ...]
    sources: tuple[Source, ...]  #: the leaves of the value, where it is neither the platform's nor a single row's


def build_part(kind: Kind, level: Level, shapes: Mapping[int, Shape], platform: PlatformDefaults) -> Part:
    """The part for rows of the given shapes, by their place in the chain, at any scope of a level."""
    scope = _NAMES.at(level)
    chain = scope.chain()
    rows = {
        chain[at]: Row(kind=kind.name, scope=chain[at], payload=shape.sample or {}, version=at)
        for at, shape in shapes.items()
    }
    resolved = resolve(kind, scope, rows, platform)
    body = trails.resolved(resolved)
    row, sources = _value_sources(resolved, shapes)
    if row is not None:
        body["value"] = _mark(PAYLOAD, row)
    elif sources:
        body["value"] = _mark(VALUE, 0)
    for field in ("origins", "unset"):
        body[field] = {path: _marked(origin) for path, origin in body[field].items()}
    body["trail"] = [_marked(step) for step in body["trail"]]
    text = json_text(body)
    for at, beginning in enumerate(_beginnings(level)):
        text = text.replace(beginning, json_text(_mark(SCOPE, at)))
    slots = tuple(Slot(field.decode(), int(at)) for field, at in _SLOT.findall(text))
    return Part(_SLOT.sub(b"%b", text.replace(b"%", b"%%")), slots, sources)


def _value_sources(resolved: Resolved, shapes: Mapping[int, Shape]) -> tuple[int | None, tuple[Source, ...]]:
    """The row whose payload is the value, else the sources of its leaves; neither where the value is the platform's."""
    versions = {origin.version for origin in resolved.origins.values()}
    if versions <= {None}:
        return None, ()
    if len(versions) == 1:
        [at] = versions
        if at is not None and json_text(resolved.value) == json_text(shapes[at].sample):
            return at, ()
    leaves = resolved.kind.leaves(resolved.value)
    return None, tuple(Source(path, origin.version, leaves[path]) for path, origin in resolved.origins.items())


def _mark(field: str, at: int) -> str:
    return f"\0{field}{at}"


def _marked(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """An origin or a step with slots, where it is a row's; the version of a sample is its place in the chain."""
    if "version" not in entry:
        return entry
    at = entry["version"]
    marks = {"version": _mark(VERSION, at), "value": _mark(PAYLOAD, at)}
    return {key: marks.get(key, value) for key, value in entry.items()}


def scope_texts(scope: Scope) -> list[bytes]:
    """For each scope of a chain the beginning of an object that tells of it."""
    if not any(scope):
        return []
    # Names have no letters that JSON would escape.
    return (_scope_format(scope.level) % scope._asdict()).encode().split(b"\n")


@lru_cache
def _scope_format(level: Level) -> str:
    text = b"\n".join(_beginnings(level)).decode()
    for key in level.keys:
        text = text.replace(f"\\u0000{key}", f"%({key})s")
    return text


@lru_cache
def _beginnings(level: Level) -> tuple[bytes, ...]:
    scopes = _NAMES.at(level).chain()
    return tuple(json_text(trails.scope_with(scope, level=scope.level.value))[:-1] for scope in scopes)
