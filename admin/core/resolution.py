"""Resolution: what a kind comes to at a scope, where each leaf is from, and every step that led there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from admin.core import platform as platforms
from admin.core.fields import Path
from admin.core.kinds import Kind, Merge, Payload
from admin.core.platform import PlatformLeaves
from admin.core.scopes import PLATFORM, Level, Scope


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind's payload stored at one scope."""

    kind: str  #: the kind's name
    scope: Scope
    payload: Payload
    version: int  #: number of the last revision that changed it


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a leaf comes from."""

    scope: Scope
    version: int | None = None  #: of the row, None for the platform
    key: str = ""  #: the configuration key, for the platform
    layer: str = ""  #: what lies above every row: a launch plan's definition, a request

    @property
    def level(self) -> Level:
        return self.scope.level


def described(origin: Origin) -> str:
    """An origin in words."""
    if origin.layer:
        return origin.layer.replace("-", " ")
    return f"platform, {origin.key}" if origin.level is Level.PLATFORM else str(origin.scope)


@dataclass(frozen=True, kw_only=True)
class Step:
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


@dataclass(frozen=True, kw_only=True)
class Resolved:
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


def resolve(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformLeaves) -> Resolved:
    """The effective value of a kind at a scope, from the rows of that kind and the platform's own leaves.

    Rows of other scopes may be among them and do not count.
    """
    chain = [place for place in scope.chain() if place.level in kind.levels]
    winning = _winning(kind, chain, rows, platform)
    origins = {path: origin for path, (value, origin) in winning.items() if value is not None}
    unset = {path: origin for path, (value, origin) in winning.items() if value is None}
    return Resolved(
        kind=kind,
        scope=scope,
        value=kind.nest({path: winning[path][0] for path in origins}),
        origins=origins,
        unset=unset,
        trail=tuple(_trail(kind, chain, rows, platform, {**origins, **unset})),
    )


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
        winning |= {path: (value, Origin(scope=resolved.scope, layer=layer.name)) for path, value in leaves.items()}
        steps.append(Step(scope=resolved.scope, payload=layer.payload or None, used=tuple(leaves), layer=layer.name))
    origins = {path: origin for path, (value, origin) in winning.items() if value is not None}
    unset = {path: origin for path, (value, origin) in winning.items() if value is None}
    final = {**origins, **unset}
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
    return replace(step, used=used, overridden=tuple(path for path in said if path not in used))


def effective_leaves(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformLeaves) -> dict[Path, Any]:
    """Only the values of `resolve`, for those who ask at thousands of scopes."""
    chain = [place for place in scope.chain() if place.level in kind.levels]
    winning = _winning(kind, chain, rows, platform)
    return {path: value for path, (value, _) in winning.items() if value is not None}


def _winning(
    kind: Kind, chain: list[Scope], rows: Mapping[Scope, Row], platform: PlatformLeaves
) -> dict[Path, tuple[Any, Origin]]:
    """Every leaf that some level mentions, as the most specific one has it; None where that one unsets it."""
    winning: dict[Path, tuple[Any, Origin]] = {
        path: (leaf.value, Origin(scope=PLATFORM, key=leaf.key)) for path, leaf in platform.items()
    }
    for place in chain:
        row = rows.get(place)
        if row is None:
            continue
        if kind.merge is Merge.REPLACE:
            winning = _declared_defaults(kind, platform)
        origin = Origin(scope=place, version=row.version)
        winning |= {path: (value, origin) for path, value in kind.leaves(row.payload).items()}
    return winning


def _declared_defaults(kind: Kind, platform: PlatformLeaves) -> dict[Path, tuple[Any, Origin]]:
    """What stays below a replacing row: the defaults of a declared kind's fields, for the fields it leaves out."""
    if not kind.declared:
        return {}
    return {path: (leaf.value, Origin(scope=PLATFORM, key=leaf.key)) for path, leaf in platform.items()}


def _trail(
    kind: Kind,
    chain: list[Scope],
    rows: Mapping[Scope, Row],
    platform: PlatformLeaves,
    final: dict[Path, Origin],
) -> list[Step]:
    said = platforms.as_payload(kind.payload, platform) if platform else None
    steps = [_step(PLATFORM, said, tuple(platform), final, key=_common_key(platform))]
    for place in chain:
        row = rows.get(place)
        if row is None:
            steps.append(Step(scope=place, payload=None))
        else:
            paths = tuple(kind.leaves(row.payload))
            steps.append(_step(place, row.payload, paths, final, version=row.version))
    return steps


def _step(
    scope: Scope,
    payload: Payload | None,
    paths: tuple[Path, ...],
    final: dict[Path, Origin],
    version: int | None = None,
    key: str = "",
) -> Step:
    used = tuple(path for path in paths if path in final and final[path].scope == scope)
    overridden = tuple(path for path in paths if path not in used)
    return Step(scope=scope, payload=payload, version=version, key=key, used=used, overridden=overridden)


def _common_key(platform: PlatformLeaves) -> str:
    """The configuration section that all of the platform's leaves share."""
    keys = [leaf.key.split(".") for leaf in platform.values()]
    shared: list[str] = []
    for parts in zip(*keys, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
