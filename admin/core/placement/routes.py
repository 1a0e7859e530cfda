"""Routes: which pool, label or cluster an execution goes to.

The most specific rung wins; at the same level the pool wins over the label.

cluster in the request > pool there > label there
> pool in the launch plan's definition > label there
> pool attribute at launch plan > label attribute there > … workflow, project-domain, project, domain …
> the domain's pool in configuration > default pool > default label
> every enabled cluster
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from admin.core.json_text import JsonObject
from admin.core.problems import Setting
from admin.core.provenance import Provenance
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import RowsByKind
from admin.core.settings.scopes import PLATFORM, Level, Scope


class RouteKind(Enum):
    """What a rung names."""

    CLUSTER = "cluster"
    POOL = "pool"
    LABEL = "label"
    ANY = "any"  # every enabled cluster, where no rung names anything


REQUEST, DEFINITION, PLATFORM_RUNG, EVERYWHERE = "request", "launch-plan-definition", "platform", "everywhere"
#: Every rung, the most specific first.
RUNGS = (REQUEST, DEFINITION, *(level.value for level in reversed(Level)), EVERYWHERE)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a request, or a launch plan's definition, asks to run."""

    cluster: str | None = None
    pool: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One source of the route: the request, the definition, a row of an attribute, or configuration."""

    rung: str  #: request, launch-plan-definition, a level of the hierarchy, or everywhere
    kind: RouteKind
    name: str | None = None  #: the cluster, pool or label it names; None where it is silent or unset
    is_set: bool = False  #: whether it is given at all; with no name it unsets what broader rows of its kind say
    scope: Scope = PLATFORM
    version: int | None = None
    key: str = ""  #: the configuration key, for the platform
    state: str = "silent"  #: wins, overridden, unset or silent

    @property
    def setting(self) -> Setting | None:
        """The field of the row that says it; None where no row is stored."""
        names = {route_kind: (kind.name, field) for kind, route_kind, field in _KINDS}
        if not self.version or self.kind not in names:
            return None
        kind, field = names[self.kind]
        return Setting(kind, self.scope, self.version, field)

    def __str__(self) -> str:
        if self.rung == PLATFORM_RUNG:
            return f"configuration ({self.key})"
        return {REQUEST: "the request", DEFINITION: "the launch plan's definition"}.get(self.rung, str(self.scope))


@dataclass(frozen=True, kw_only=True)
class Route:
    """The cluster, pool or label that an execution goes to, and every rung that was considered."""

    kind: RouteKind
    name: str
    rungs: tuple[Rung, ...]  #: the most specific first

    @property
    def winner(self) -> Rung:
        return next(rung for rung in self.rungs if rung.state == "wins")

    @property
    def pool(self) -> str | None:
        return self.name if self.kind is RouteKind.POOL else None

    @property
    def label(self) -> str | None:
        return self.name if self.kind is RouteKind.LABEL else None

    def __str__(self) -> str:
        return "the fleet" if self.kind is RouteKind.ANY else f"{self.kind.value} '{self.name}'"


def find_route(
    *,
    request: Target,
    definition: Target,
    scope: Scope,
    rows: RowsByKind,
    platform: PlatformValues,
) -> Route:
    """The route of an execution at a scope."""
    ranked = tuple(_with_states(_rungs(request, definition, scope, rows, platform)))
    winner = next(rung for rung in ranked if rung.state == "wins")
    return Route(kind=winner.kind, name=winner.name or "", rungs=ranked)


def find_winner(
    *,
    request: Target,
    definition: Target,
    scope: Scope,
    rows: RowsByKind,
    platform: PlatformValues,
) -> Rung:
    """The rung by which an execution goes at a scope, without those below it."""
    ranked = _with_states(_rungs(request, definition, scope, rows, platform, without_silent=True))
    return next(rung for rung in ranked if rung.state == "wins")


def _rungs(
    request: Target,
    definition: Target,
    scope: Scope,
    rows: RowsByKind,
    platform: PlatformValues,
    *,
    without_silent: bool = False,
) -> Iterator[Rung]:
    """Every rung, the most specific first; perhaps without those that say nothing, of which most are."""
    for source, target in ((REQUEST, request), (DEFINITION, definition)):
        if not (without_silent and target == Target()):
            yield from _targets(source, target)
    yield from _attributes(scope, rows, without_silent=without_silent)
    yield from _configured(platform, scope.domain)
    yield Rung(rung=EVERYWHERE, kind=RouteKind.ANY, is_set=True, name="")


def _targets(rung: str, target: Target) -> Iterator[Rung]:
    if rung == REQUEST:
        yield Rung(rung=rung, kind=RouteKind.CLUSTER, name=target.cluster, is_set=target.cluster is not None)
    yield Rung(rung=rung, kind=RouteKind.POOL, name=target.pool, is_set=target.pool is not None)
    yield Rung(rung=rung, kind=RouteKind.LABEL, name=target.label, is_set=target.label is not None)


def _attributes(scope: Scope, rows: RowsByKind, *, without_silent: bool) -> Iterator[Rung]:
    for level_scope in reversed(scope.chain()):
        level = level_scope.level.value
        for kind, route_kind, field in _KINDS:
            row = rows.get(kind.name, {}).get(level_scope)
            if row is not None:
                name = row.payload.get(field)
                yield Rung(rung=level, kind=route_kind, scope=level_scope, is_set=True, name=name, version=row.version)
            elif not without_silent:
                yield Rung(rung=level, kind=route_kind, scope=level_scope)


_KINDS: tuple[tuple[Kind, RouteKind, str], ...] = (
    (CLUSTER_ASSIGNMENT, RouteKind.POOL, "cluster_pool_name"),
    (EXECUTION_CLUSTER_LABEL, RouteKind.LABEL, "value"),
)


def _configured(platform: PlatformValues, domain: str) -> Iterator[Rung]:
    pool = ("cluster_pool_name",)
    domain_pool = platform.by_domain.get((CLUSTER_ASSIGNMENT.name, domain), {}).get(pool)
    default_pool = platform.everywhere.get(CLUSTER_ASSIGNMENT.name, {}).get(pool)
    default_label = platform.everywhere.get(EXECUTION_CLUSTER_LABEL.name, {}).get(("value",))
    for kind, leaf, key in (
        (RouteKind.POOL, domain_pool, f"clusterPools.clusterPoolAssignments.{domain}"),
        (RouteKind.POOL, default_pool, "clusters.defaultClusterPool"),
        (RouteKind.LABEL, default_label, "clusters.defaultExecutionLabel"),
    ):
        yield Rung(rung=PLATFORM_RUNG, kind=kind, name=leaf.value if leaf else None, is_set=leaf is not None, key=key)


def _with_states(rungs: Iterable[Rung]) -> Iterator[Rung]:
    """Each rung with its state. A null cancels the broader rungs of its own kind, and no others."""
    cancelled: set[RouteKind] = set()
    is_won = False
    for rung in rungs:
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
    """The rungs of a route, as answers and trails show them."""
    return [_rung(rung) for rung in route.rungs]


def winner_of(rungs: Sequence[JsonObject]) -> JsonObject:
    """The rung that decided, of a route as trails have it."""
    return next(rung for rung in rungs if rung["state"] == "wins")


def asks_by_definition(rungs: Sequence[JsonObject]) -> bool:
    """Whether the definition of the launch plan says something."""
    return any(rung["rung"] == DEFINITION and rung["state"] != "silent" for rung in rungs)


def with_sources(
    rungs: Sequence[JsonObject], plan: Mapping[str, str] | None, registered_by: Provenance | None
) -> list[JsonObject]:
    """Rungs, of which those that are given and are no setting name their source: the request, or the launch plan.

    The launch plan's have who registered it, as far as that is known.
    """
    definition = describe_version("launch_plan", plan) if plan else "the launch plan's definition"
    by: JsonObject = {"registered_by": registered_by.as_json()} if registered_by else {}
    sources: dict[str, JsonObject] = {REQUEST: {"source": "the request"}, DEFINITION: {"source": definition, **by}}
    return [rung if rung["state"] == "silent" else {**rung, **sources.get(rung["rung"], {})} for rung in rungs]


def describe_version(noun: str, identifier: Mapping[str, str]) -> str:
    """A registered version in words: `launch plan nightly v1`."""
    return f"{noun.replace('_', ' ')} {identifier['name']} {identifier['version']}"


def source_of(rung: Mapping[str, Any]) -> str:
    """Who or what says what a rung asks for, of a rung that names its source."""
    if rung["rung"] == PLATFORM_RUNG:
        return f"configuration ({rung['key']})"
    if rung["rung"] == EVERYWHERE:
        return "nothing names a pool or label"
    return str(rung.get("source") or _scope_of(rung))


def route_of(winner: Mapping[str, Any]) -> Route:
    """The route that a rung decided, as trails have it, without the other rungs."""
    return Route(kind=RouteKind(winner["kind"]), name=winner.get("name", ""), rungs=())


def describe_rungs(rungs: Sequence[Mapping[str, Any]]) -> str:
    """Which rung decided, and which it outranks, of a route as trails have it."""
    winner, *broader = itertools.dropwhile(lambda rung: rung["state"] != "wins", rungs)
    if winner["kind"] == RouteKind.ANY.value:
        unset = next((rung for rung in rungs if rung["state"] == "unset"), None)
        missing = "nothing names a pool or label" if unset is None else f"the {unset['kind']} is unset {_origin(unset)}"
        return f"{missing}, so that any cluster may be chosen"
    chosen_by = winner["kind"], winner["name"]
    others = (rung for rung in broader if rung["state"] == "overridden" and "name" in rung)
    # What names the same leads to the same clusters.
    outranked = next((rung for rung in others if (rung["kind"], rung["name"]) != chosen_by), None)
    chosen = f"{winner['kind']} '{winner['name']}' {_origin(winner)}"
    if outranked is None:
        return f"{chosen} decides"
    return f"{chosen} outranks {outranked['kind']} '{outranked['name']}' {_origin(outranked)}"


def _origin(rung: Mapping[str, Any]) -> str:
    if rung["rung"] == PLATFORM_RUNG:
        return f"in configuration ({rung['key']})"
    words = {REQUEST: "in the request", DEFINITION: "in the launch plan's definition"}
    return words.get(rung["rung"]) or f"at {_scope_of(rung)}"


def _scope_of(rung: Mapping[str, Any]) -> Scope:
    return Scope(**{key: rung[key] for key in Scope._fields if key in rung})


def _rung(rung: Rung) -> dict[str, Any]:
    fields: dict[str, Any] = {"rung": rung.rung, "kind": rung.kind.value, "state": rung.state, **rung.scope.keys()}
    optional = {"name": rung.name or None, "version": rung.version, "key": rung.key or None}
    return fields | {name: value for name, value in optional.items() if value is not None}
