"""Resolution: the effective value of a kind at a scope, the origin of each leaf, and every step that led there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from admin.core.problems import Path
from admin.core.settings.kinds import Kind, Merge, Payload
from admin.core.settings.platform import PlatformDefaults, PlatformValues
from admin.core.settings.scopes import PLATFORM, STORED_LEVELS, Origin, Scope


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind's payload stored at one scope."""

    kind: str  #: the kind's name
    scope: Scope
    payload: Payload
    version: int  #: number of the last revision that changed it


RowsByKind = Mapping[str, Mapping[Scope, Row]]  #: rows by the name of their kind and their scope


class Step(NamedTuple):
    """What one level contributes to an effective value, which may be nothing."""

    scope: Scope
    payload: Payload | None  #: None where the level is silent
    version: int | None = None
    key: str = ""  #: the configuration section, for the platform
    used: tuple[Path, ...] = ()  #: leaves that count in the end
    overridden: tuple[Path, ...] = ()  #: leaves that a more specific level replaced
    layer: str = ""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A payload that goes over every row, for one execution: a launch plan's definition or a request."""

    name: str
    payload: Payload


class EffectiveValue(NamedTuple):
    """What one kind comes to at a scope, and where each leaf of it was set."""

    value: Payload  #: without nulls; empty where nothing is set
    origins: dict[Path, Origin]  #: of every leaf in the value
    unset: dict[Path, Origin]  #: leaves that a level cancelled, and which one

    @property
    def most_specific(self) -> Origin | None:
        """The most specific origin of any leaf, None where nothing is set or unset."""
        origins = [*self.origins.values(), *self.unset.values()]
        return max(origins, key=lambda origin: origin.level.specificity, default=None)


class Resolved(NamedTuple):
    """One kind's effective value and every step that led to it."""

    kind: Kind
    scope: Scope
    value: Payload  #: this and the next two as in `EffectiveValue`
    origins: dict[Path, Origin]
    unset: dict[Path, Origin]
    trail: tuple[Step, ...]  #: broadest first, including the levels that were silent


def resolve(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> Resolved:
    """The effective value of a kind at a scope, from the rows of that kind and the platform's own leaves.

    Rows of other scopes may be among them and do not count.
    """
    chain = _chain(kind, scope)
    chain_rows = [rows.get(place) for place in chain]
    if not any(chain_rows):
        return _resolve_platform(kind, scope, chain, platform)
    effective = _effective_value(kind, chain_rows, platform)
    final = effective.origins | effective.unset
    return Resolved(kind, scope, *effective, trail=_trail(kind, chain, chain_rows, platform, final))


def effective_value(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> EffectiveValue:
    """The same without the steps, which cost as much again."""
    return _effective_value(kind, [rows.get(place) for place in _chain(kind, scope)], platform)


def _effective_value(kind: Kind, chain_rows: Sequence[Row | None], platform: PlatformDefaults) -> EffectiveValue:
    winning = _winning(kind, chain_rows, platform)
    origins, unset = _split_by_value(winning)
    return EffectiveValue(kind.nest({path: winning[path][0] for path in origins}), origins, unset)


def _chain(kind: Kind, scope: Scope) -> tuple[Scope, ...]:
    """The scopes of the chain that may have rows of the kind."""
    chain = scope.chain()
    return chain if kind.levels is STORED_LEVELS else tuple(place for place in chain if place.level in kind.levels)


def _resolve_platform(kind: Kind, scope: Scope, chain: tuple[Scope, ...], platform: PlatformDefaults) -> Resolved:
    """The effective value where no row applies, of what the platform has ready."""
    first = Step(PLATFORM, platform.payload, None, platform.key, tuple(platform)) if platform else _silent(PLATFORM)
    return Resolved(
        kind=kind,
        scope=scope,
        value=platform.payload,
        origins=platform.origins,
        unset={},
        trail=(first, *map(_silent, chain)),
    )


def _split_by_value(winning: dict[Path, tuple[Any, Origin]]) -> tuple[dict[Path, Origin], dict[Path, Origin]]:
    """The origins of the leaves that have a value, and of those that are unset."""
    origins = {path: origin for path, (value, origin) in winning.items() if value is not None}
    if len(origins) == len(winning):
        return origins, {}
    return origins, {path: origin for path, (value, origin) in winning.items() if value is None}


@lru_cache(maxsize=4096)
def _silent(place: Scope) -> Step:
    return Step(place, None)


def overlay(resolved: Resolved, layers: Iterable[Layer]) -> Resolved:
    """An effective value with layers over it, joined by the kind's merge rule; the last layer wins."""
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
    origins, unset = _split_by_value(winning)
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
    """A step whose leaves are sorted anew into those that count in the end and those that are overridden."""
    paths = (*step.used, *step.overridden)
    used = tuple(
        path for path in paths if path in final and (final[path].scope, final[path].layer) == (step.scope, step.layer)
    )
    return step._replace(used=used, overridden=tuple(path for path in paths if path not in used))


def effective_leaves(
    kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults
) -> dict[Path, Any]:
    """Only the leaves of `resolve`'s value: cheaper where thousands of scopes are compared."""
    winning = _winning(kind, [rows.get(place) for place in _chain(kind, scope)], platform)
    return {path: value for path, (value, _) in winning.items() if value is not None}


def _winning(
    kind: Kind, chain_rows: Sequence[Row | None], platform: PlatformDefaults
) -> dict[Path, tuple[Any, Origin]]:
    """Every leaf that some level mentions, as the most specific one has it; None where that one unsets it."""
    winning = platform.winning.copy()
    replaces, is_quota = kind.merge is Merge.REPLACE, kind.is_quota
    for row in chain_rows:
        if row is None:
            continue
        if replaces:
            # The fields of a declared kind that a replacing row leaves out keep their declared defaults.
            winning = platform.winning.copy() if kind.declared else {}
        origin = Origin(row.scope, row.version)
        for path, value in kind.payload.leaves(row.payload):
            if is_quota and path in winning and not _is_tighter(kind, path, value, winning[path][0]):
                continue
            winning[path] = (value, origin)
    return winning


def _is_tighter(kind: Kind, path: Path, value: Any, broader: Any) -> bool:
    """Whether a leaf counts in place of a broader row's."""
    return not kind.is_bound(path) or bool(kind.worth(path, value) < kind.worth(path, broader))


def _trail(
    kind: Kind,
    chain: tuple[Scope, ...],
    chain_rows: Sequence[Row | None],
    platform: PlatformDefaults,
    final: dict[Path, Origin],
) -> tuple[Step, ...]:
    first = _step(kind, PLATFORM, None, platform.payload, platform, final, platform.key) if platform else None
    steps = [first or _silent(PLATFORM)]
    for place, row in zip(chain, chain_rows, strict=True):
        if row is None:
            steps.append(_silent(place))
        else:
            steps.append(_step(kind, place, row.version, row.payload, kind.leaves(row.payload), final))
    return tuple(steps)


def _step(
    kind: Kind,
    scope: Scope,
    version: int | None,
    payload: Payload,
    paths: Collection[Path],
    final: dict[Path, Origin],
    key: str = "",
) -> Step:
    used = tuple([path for path in paths if path in final and final[path].scope == scope])
    if kind.is_quota:  # every row holds, for what is at and below its own scope
        used = tuple([path for path in paths if path in used or kind.is_bound(path)])
    overridden = () if len(used) == len(paths) else tuple([path for path in paths if path not in used])
    return Step(scope, payload, version, key, used, overridden)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A change of one effective leaf at one scope; None where there is no value."""

    kind: Kind
    scope: Scope
    path: Path
    before: Any
    after: Any


def effects(
    kind: Kind,
    before: Mapping[Scope, Row],
    after: Mapping[Scope, Row],
    known_scopes: Iterable[Scope],
    platform: PlatformValues,
) -> Iterator[Effect]:
    """The effective leaves that a change of a kind's rows changes at the known scopes."""
    changed = {scope for scope in before.keys() | after.keys() if before.get(scope) is not after.get(scope)}
    for scope in known_scopes:
        if changed.isdisjoint(scope.chain()):
            continue
        # Of rows that replace each other, only the most specific one counts.
        if kind.merge is Merge.REPLACE and _last_row(kind, scope, before) is _last_row(kind, scope, after):
            continue
        leaves = platform.at(kind, scope.domain)
        was, becomes = effective_leaves(kind, scope, before, leaves), effective_leaves(kind, scope, after, leaves)
        for path in sorted(was.keys() | becomes.keys()):
            if was.get(path) != becomes.get(path):
                yield Effect(kind=kind, scope=scope, path=path, before=was.get(path), after=becomes.get(path))


def _last_row(kind: Kind, scope: Scope, rows: Mapping[Scope, Row]) -> Row | None:
    """The row at the most specific scope of the chain that has one."""
    return next((row for place in reversed(_chain(kind, scope)) if (row := rows.get(place)) is not None), None)
