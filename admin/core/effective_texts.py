"""Effective values as JSON text, written straight from what rows say.

`trails.resolved(resolve(…))` says the same in several times the time; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

from admin.core.fields import Path, dotted
from admin.core.json_text import json_text
from admin.core.kinds import Kind, Merge
from admin.core.platform import Ground
from admin.core.resolution import kept_levels
from admin.core.scopes import STORED_LEVELS, Scope
from admin.core.trails import scope_with


class Form(NamedTuple):
    """What a payload says, with the texts that answers are made of."""

    leaves: tuple[tuple[Path, Any], ...]
    paths: tuple[Path, ...]
    has_null: bool  #: whether it unsets a leaf
    text: bytes  #: of the whole payload
    paths_text: bytes
    keys: tuple[bytes, ...]  #: of the paths, as names in an object

    @classmethod
    def of(cls, kind: Kind, payload: Any) -> Form:
        leaves = tuple(kind.payload.leaves(payload))
        paths = tuple(path for path, _ in leaves)
        has_null = any(value is None for _, value in leaves)
        return cls(leaves, paths, has_null, json_text(payload), _list(paths), _keys(paths))


Entry = tuple[int, int, Form]  #: a row: its scope's place in the chain, its version, and what it says


def effective_text(kind: Kind, scope: Scope, entries: Sequence[Entry], ground: Ground) -> bytes:
    """One kind's effective value, its origins and its trail; the entries in the order of the chain."""
    chain = scope.chain()
    kept: Sequence[int] | None = None
    if kind.levels is not STORED_LEVELS:
        kept = kept_levels(kind.levels, scope.level)
        entries = [entry for entry in entries if kept[entry[0]]]
    steps = [_silent(place) for place in chain]
    if not entries:
        value, origins, unset = ground.payload_text, ground.origins_text, b""
        first = ground.used_text
    elif kind.merge is Merge.REPLACE and not kind.declared:
        value, origins, unset = _replaced(kind, chain, entries, steps)
        first = ground.overridden_text
    else:
        value, origins, unset, first = _merged(kind, chain, entries, ground, steps)
    trail = b",".join([first, *(steps if kept is None else compress(steps, kept))])
    return b'{"resource_type":"%b","value":%b,"origins":{%b},"unset":{%b},"trail":[%b]}' % (
        kind.name.encode(),
        value,
        origins,
        unset,
        trail,
    )


def _replaced(
    kind: Kind, chain: Sequence[Scope], entries: Sequence[Entry], steps: list[bytes]
) -> tuple[bytes, bytes, bytes]:
    """The most specific row is all that counts."""
    for at, version, form in entries:
        steps[at] = _set(chain[at], form.text, version, b"[]", form.paths_text)
    at, version, form = entries[-1]
    steps[at] = _set(chain[at], form.text, version, form.paths_text, b"[]")
    origin = _origin(chain[at], version)
    if not form.has_null:
        return form.text, b",".join([key + origin for key in form.keys]), b""
    winning = {path: (value, origin) for path, value in form.leaves}
    return _value(kind, winning), _origins(winning, unset=False), _origins(winning, unset=True)


def _merged(
    kind: Kind, chain: Sequence[Scope], entries: Sequence[Entry], ground: Ground, steps: list[bytes]
) -> tuple[bytes, bytes, bytes, bytes]:
    """Each leaf from the most specific row that mentions it; where rows replace each other, the last and defaults."""
    if kind.merge is Merge.REPLACE:
        for at, version, form in entries:
            steps[at] = _set(chain[at], form.text, version, b"[]", form.paths_text)
        entries = entries[-1:]
    winning: dict[Path, tuple[Any, bytes]] = dict(ground.winning_texts)
    last = dict.fromkeys(winning, -1)
    for at, version, form in entries:
        origin = _origin(chain[at], version)
        for path, value in form.leaves:
            winning[path] = (value, origin)
            last[path] = at
    for at, version, form in entries:
        used = tuple([path for path in form.paths if last[path] == at])
        if len(used) == len(form.paths):
            steps[at] = _set(chain[at], form.text, version, form.paths_text, b"[]")
        elif not used:
            steps[at] = _set(chain[at], form.text, version, b"[]", form.paths_text)
        else:
            overridden = tuple([path for path in form.paths if last[path] != at])
            steps[at] = _set(chain[at], form.text, version, _list(used), _list(overridden))
    first = ground.used_text
    overridden = tuple([path for path in ground if last[path] >= 0])
    if overridden:
        first = ground.step_text(_list(tuple([path for path in ground if last[path] < 0])), _list(overridden))
    has_null = any(form.has_null for _, _, form in entries)
    unset = _origins(winning, unset=True) if has_null else b""
    return _value(kind, winning), _origins(winning, unset=False), unset, first


def _value(kind: Kind, winning: dict[Path, tuple[Any, bytes]]) -> bytes:
    return json_text(kind.nest({path: value for path, (value, _) in winning.items() if value is not None}))


def _origins(winning: dict[Path, tuple[Any, bytes]], *, unset: bool) -> bytes:
    return b",".join([_key(path) + origin for path, (value, origin) in winning.items() if (value is None) is unset])


@lru_cache(maxsize=8192)
def _list(paths: tuple[Path, ...]) -> bytes:
    return json_text([dotted(path) for path in paths])


@lru_cache(maxsize=8192)
def _keys(paths: tuple[Path, ...]) -> tuple[bytes, ...]:
    return tuple(map(_key, paths))


@lru_cache(maxsize=4096)
def _key(path: Path) -> bytes:
    return json_text(dotted(path)) + b":"


def _origin(place: Scope, version: int) -> bytes:
    return b'%b,"version":%d}' % (_place(place), version)


def _set(place: Scope, payload: bytes, version: int, used: bytes, overridden: bytes) -> bytes:
    return b'%b,"state":"set","value":%b,"version":%d,"used":%b,"overridden":%b}' % (
        _place(place),
        payload,
        version,
        used,
        overridden,
    )


@lru_cache(maxsize=8192)
def _silent(place: Scope) -> bytes:
    return _place(place) + b',"state":"silent"}'


@lru_cache(maxsize=8192)
def _place(place: Scope) -> bytes:
    """The beginning of an object that tells of a scope."""
    return json_text(scope_with(place, level=place.level.value))[:-1]
