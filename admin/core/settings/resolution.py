"""Resolution: what a kind comes to at a scope, where each leaf is from, and every step that led there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

from admin.core.fields import Path
from admin.core.settings.kinds import Kind, Merge, Payload
from admin.core.settings.origins import Origin
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.scopes import PLATFORM, STORED_LEVELS, Level, Scope


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind's payload stored at one scope."""

    kind: str  #: the kind's name
    scope: Scope
    payload: Payload
    version: int  #: number of the last revision that changed it


RowsByKind = Mapping[str, Mapping[Scope, Row]]  #: rows by the name of their kind and their scope


class Step(NamedTuple):
    """What one level said, which may be nothing."""

    scope: Scope
    payload: Payload | None  #: None where the level is silent
    version: int | None = None
    key: str = ""  #: the configuration section, for the platform
    used: tuple[Path, ...] = ()  #: leaves that count in the end
    overridden: tuple[Path, ...] = ()  #: leaves that a more specific level replaced
    layer: str = ""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What somebody says above every row, for one execution."""

    name: str
    payload: Payload


class Resolved(NamedTuple):
    """One kind's effective value and every step that led to it."""

    kind: Kind
    scope: Scope
    value: Payload  #: without nulls; empty where nothing is set
    origins: dict[Path, Origin]  #: of every leaf in the value
    unset: dict[Path, Origin]  #: leaves that a level cancelled, and which one
    trail: tuple[Step, ...]  #: broadest first, including the levels that were silent

    @property
    def most_specific(self) -> Origin | None:
        """The origin that says most about this scope, None where nothing says anything."""
        origins = [*self.origins.values(), *self.unset.values()]
        return max(origins, key=lambda origin: origin.level.specificity, default=None)


def resolve(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> Resolved:
    """The effective value of a kind at a scope, from the rows of that kind and the platform's own leaves.

    Rows of other scopes may be among them and do not count.
    """
    chain = _chain(kind, scope)
    said = [rows.get(place) for place in chain]
    if not any(said):
        return _of_platform(kind, scope, chain, platform)
    winning = _winning(kind, chain, said, platform)
    origins, unset = _parted(winning)
    return Resolved(
        kind=kind,
        scope=scope,
        value=kind.nest({path: winning[path][0] for path in origins}),
        origins=origins,
        unset=unset,
        trail=_trail(kind, chain, said, platform, origins | unset),
    )


@lru_cache
def kept_levels(levels: tuple[Level, ...], level: Level) -> tuple[bool, ...]:
    """Which scopes of a chain down to a level may have rows."""
    return tuple(one in levels for one in STORED_LEVELS if set(one.keys) <= set(level.keys))


def _chain(kind: Kind, scope: Scope) -> tuple[Scope, ...]:
    chain = scope.chain()
    return chain if kind.levels is STORED_LEVELS else tuple(compress(chain, kept_levels(kind.levels, scope.level)))


def _of_platform(kind: Kind, scope: Scope, chain: tuple[Scope, ...], platform: PlatformDefaults) -> Resolved:
    """What is left where no row says anything."""
    first = Step(PLATFORM, platform.payload, None, platform.key, tuple(platform)) if platform else _silent(PLATFORM)
    return Resolved(
        kind=kind,
        scope=scope,
        value=platform.payload,
        origins=platform.origins,
        unset={},
        trail=(first, *map(_silent, chain)),
    )


def _parted(winning: dict[Path, tuple[Any, Origin]]) -> tuple[dict[Path, Origin], dict[Path, Origin]]:
    """The origins of leaves that have a value, and of those that a level cancelled."""
    origins = {path: origin for path, (value, origin) in winning.items() if value is not None}
    if len(origins) == len(winning):
        return origins, {}
    return origins, {path: origin for path, (value, origin) in winning.items() if value is None}


@lru_cache(maxsize=4096)
def _silent(place: Scope) -> Step:
    return Step(place, None)


def overlay(resolved: Resolved, layers: Iterable[Layer]) -> Resolved:
    """An effective value with what was said above every row, by the kind's own rule; the last layer counts most."""
    kind = resolved.kind
    winning: dict[Path, tuple[Any, Origin]] = {
        path: (value, resolved.origins[path]) for path, value in kind.leaves(resolved.value).items()
    }
    winning |= {path: (None, origin) for path, origin in resolved.unset.items()}
    steps = list(resolved.trail)
    for layer in layers:
        leaves = kind.leaves(layer.payload)
        if leaves and kind.merge is Merge.REPLACE:
            winning = {}
        origin = Origin(resolved.scope, layer=layer.name)
        winning |= {path: (value, origin) for path, value in leaves.items()}
        steps.append(Step(scope=resolved.scope, payload=layer.payload or None, used=tuple(leaves), layer=layer.name))
    origins, unset = _parted(winning)
    final = origins | unset
    return Resolved(
        kind=kind,
        scope=resolved.scope,
        value=kind.nest({path: winning[path][0] for path in origins}),
        origins=origins,
        unset=unset,
        trail=tuple(_recounted(step, final) for step in steps),
    )


def _recounted(step: Step, final: dict[Path, Origin]) -> Step:
    """A step, with what still counts of it in the end."""
    said = (*step.used, *step.overridden)
    used = tuple(
        path for path in said if path in final and (final[path].scope, final[path].layer) == (step.scope, step.layer)
    )
    return step._replace(used=used, overridden=tuple(path for path in said if path not in used))


def effective_leaves(
    kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults
) -> dict[Path, Any]:
    """Only the values of `resolve`, for those who ask at thousands of scopes."""
    chain = _chain(kind, scope)
    winning = _winning(kind, chain, [rows.get(place) for place in chain], platform)
    return {path: value for path, (value, _) in winning.items() if value is not None}


def _winning(
    kind: Kind, chain: tuple[Scope, ...], said: Sequence[Row | None], platform: PlatformDefaults
) -> dict[Path, tuple[Any, Origin]]:
    """Every leaf that some level mentions, as the most specific one has it; None where that one unsets it."""
    winning = platform.winning.copy()
    replaces = kind.merge is Merge.REPLACE
    for place, one in zip(chain, said, strict=True):
        if one is None:
            continue
        if replaces:
            # Below a replacing row stay the defaults of a declared kind's fields, for the fields it leaves out.
            winning = platform.winning.copy() if kind.declared else {}
        origin = Origin(place, one.version)
        for path, value in kind.payload.leaves(one.payload):
            winning[path] = (value, origin)
    return winning


def _trail(
    kind: Kind,
    chain: tuple[Scope, ...],
    said: Sequence[Row | None],
    platform: PlatformDefaults,
    final: dict[Path, Origin],
) -> tuple[Step, ...]:
    steps = [_step(PLATFORM, None, platform.payload, platform, final, platform.key) if platform else _silent(PLATFORM)]
    for place, one in zip(chain, said, strict=True):
        if one is None:
            steps.append(_silent(place))
        else:
            paths = kind.leaves(one.payload)
            steps.append(_step(place, one.version, one.payload, paths, final))
    return tuple(steps)


def _step(
    scope: Scope,
    version: int | None,
    payload: Payload,
    paths: Collection[Path],
    final: dict[Path, Origin],
    key: str = "",
) -> Step:
    used = tuple([path for path in paths if path in final and final[path].scope == scope])
    overridden = () if len(used) == len(paths) else tuple([path for path in paths if path not in used])
    return Step(scope, payload, version, key, used, overridden)
