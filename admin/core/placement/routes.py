"""Routes: which pool, label or cluster an execution goes to.

The most specific statement wins; at the same level the pool.

cluster in the request > pool there > label there
> pool in the launch plan's definition > label there
> pool attribute at launch plan > label attribute there > … workflow, project-domain, project, domain …
> the domain's pool in configuration > default pool > default label
> every enabled cluster
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import RowsByKind
from admin.core.settings.scopes import PLATFORM, Scope


class RouteKind(Enum):
    """What a statement names."""

    CLUSTER = "cluster"
    POOL = "pool"
    LABEL = "label"
    ANY = "any"  # nothing was said, so every enabled cluster will do


REQUEST, DEFINITION, PLATFORM_RUNG, EVERYWHERE = "request", "launch-plan-definition", "platform", "everywhere"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a request, or a launch plan's definition, says of where to run."""

    cluster: str | None = None
    pool: str | None = None
    label: str | None = None

    def __bool__(self) -> bool:
        return any((self.cluster, self.pool, self.label))


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One place that could have said where to run."""

    rung: str  #: request, launch-plan-definition, a level of the hierarchy, or everywhere
    kind: RouteKind
    name: str | None = None  #: what it says; None where it is silent
    is_set: bool = False  #: it says something, which may be null: nothing from here on down
    scope: Scope = PLATFORM
    version: int | None = None
    key: str = ""  #: the configuration key, for the platform
    state: str = "silent"  #: wins, overridden, unset or silent

    def __str__(self) -> str:
        if self.rung == PLATFORM_RUNG:
            return f"configuration ({self.key})"
        return {REQUEST: "the request", DEFINITION: "the launch plan's definition"}.get(self.rung, str(self.scope))


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where an execution is to go, and everything that had a say in it."""

    kind: RouteKind
    name: str
    rungs: tuple[Rung, ...]  #: the most specific first

    @property
    def winner(self) -> Rung:
        return next(rung for rung in self.rungs if rung.state == "wins")

    def __str__(self) -> str:
        return "the fleet" if self.kind is RouteKind.ANY else f"{self.kind.value} '{self.name}'"


def find_route(
    *,
    request: Wish,
    definition: Wish,
    scope: Scope,
    rows: RowsByKind,
    platform: PlatformValues,
) -> Route:
    """The route of an execution at a scope."""
    said = [
        *_wish(REQUEST, request),
        *_wish(DEFINITION, definition),
        *_attributes(scope, rows),
        *_configured(platform, scope.domain),
        Rung(rung=EVERYWHERE, kind=RouteKind.ANY, is_set=True, name=""),
    ]
    rungs = tuple(_judged(said))
    winner = next(rung for rung in rungs if rung.state == "wins")
    return Route(kind=winner.kind, name=winner.name or "", rungs=rungs)


def _wish(rung: str, wish: Wish) -> Iterator[Rung]:
    for kind, name in ((RouteKind.CLUSTER, wish.cluster), (RouteKind.POOL, wish.pool), (RouteKind.LABEL, wish.label)):
        if kind is not RouteKind.CLUSTER or rung == REQUEST:
            yield Rung(rung=rung, kind=kind, name=name, is_set=name is not None)


def _attributes(scope: Scope, rows: RowsByKind) -> Iterator[Rung]:
    for place in reversed(scope.chain()):
        for kind, route_kind, field in _KINDS:
            row = rows.get(kind.name, {}).get(place)
            rung = Rung(rung=place.level.value, kind=route_kind, scope=place)
            if row is None:
                yield rung
            else:
                yield replace(rung, is_set=True, name=row.payload.get(field), version=row.version)


_KINDS: tuple[tuple[Kind, RouteKind, str], ...] = (
    (CLUSTER_ASSIGNMENT, RouteKind.POOL, "cluster_pool_name"),
    (EXECUTION_CLUSTER_LABEL, RouteKind.LABEL, "value"),
)


def _configured(platform: PlatformValues, domain: str) -> Iterator[Rung]:
    pool = ("cluster_pool_name",)
    mine = platform.by_domain.get((CLUSTER_ASSIGNMENT.name, domain), {}).get(pool)
    anyones = platform.everywhere.get(CLUSTER_ASSIGNMENT.name, {}).get(pool)
    label = platform.everywhere.get(EXECUTION_CLUSTER_LABEL.name, {}).get(("value",))
    for kind, leaf, key in (
        (RouteKind.POOL, mine, f"clusterPools.clusterPoolAssignments.{domain}"),
        (RouteKind.POOL, anyones, "clusters.defaultClusterPool"),
        (RouteKind.LABEL, label, "clusters.defaultExecutionLabel"),
    ):
        yield Rung(rung=PLATFORM_RUNG, kind=kind, name=leaf.value if leaf else None, is_set=leaf is not None, key=key)


def _judged(said: list[Rung]) -> Iterator[Rung]:
    """Each statement with what became of it. A null ends its own kind's rows, and no other's."""
    cancelled: set[RouteKind] = set()
    is_won = False
    for rung in said:
        if not rung.is_set:
            yield rung
        elif rung.name is None:
            yield replace(rung, state="overridden" if is_won or rung.kind in cancelled else "unset")
            cancelled.add(rung.kind)
        elif is_won or rung.kind in cancelled:
            yield replace(rung, state="overridden")
        else:
            is_won = True
            yield replace(rung, state="wins")


def as_json(route: Route) -> list[dict[str, Any]]:
    """The rungs as they stand in answers."""
    return [_rung(rung) for rung in route.rungs]


def _rung(rung: Rung) -> dict[str, Any]:
    said: dict[str, Any] = {"rung": rung.rung, "kind": rung.kind.value, "state": rung.state, **rung.scope.keys()}
    more = {"name": rung.name or None, "version": rung.version, "key": rung.key or None}
    return said | {name: value for name, value in more.items() if value is not None}
