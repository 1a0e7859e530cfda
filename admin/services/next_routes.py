"""Next routes: which pool or label decides where changed settings no longer do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KIND_OF_ROUTE, ROUTE_KINDS, route_at
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.routes import Route, RouteKind, Rung
from admin.core.problems import list_first
from admin.core.settings.resolution import RowsByKind
from admin.core.settings.scopes import Scope
from admin.services.consequences import describe_rungs_set
from admin.services.context import Context
from admin.services.definitions import fleet_after
from admin.services.registered_work import plan_settings
from admin.store import attributes

#: Changed scopes of which is told what decides then, and clusters that a message names.
_MOST_SCOPES, _MOST_NAMED = 20, 5


@dataclass(frozen=True, kw_only=True)
class NextRoute:
    """What new executions at a scope go by after a change, and did not before."""

    scope: Scope
    noun: str
    name: str | None  #: None where nothing decides
    origin: JsonObject | None  #: the same
    message: str


def next_routes(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[NextRoute]:
    """Where changes of pools and labels leave the word to another row, a launch plan or configuration; the first ones.

    Also where nothing is left that decides, and any enabled cluster may be chosen. What a changed row itself says is no
    news.
    """
    real = [change for change in changes if change.is_attribute and change.is_real and change.kind in ROUTE_KINDS]
    changed = {(change.kind, change.scope) for change in real}
    scopes = sorted({change.scope for change in real}, key=lambda scope: scope.sort_key)[:_MOST_SCOPES]
    if not scopes:
        return []
    before = attributes.at_scopes(connection, ROUTE_KINDS, scopes)
    after: RowsByKind = {
        kind: rows_after(before[kind].values(), [change for change in real if change.kind == kind])
        for kind in ROUTE_KINDS
    }
    definitions, platform = plan_settings(connection, scopes), context.settings.rules.platform
    winners: dict[Scope, Rung] = {}
    for scope in scopes:
        now, then = (route_at(scope, rows, definitions.get(scope, {}), platform) for rows in (before, after))
        if _place(now) != _place(then) and not _is_changed(then.winner, changed):
            winners[scope] = then.winner
    set_by = [rung for rung in winners.values() if rung.kind is not RouteKind.ANY]
    described = iter(describe_rungs_set(context, connection, set_by))
    anywhere = _describe_anywhere(fleet_after(context, connection, changes) if context.access.sees_fleet() else None)
    routes = []
    for scope, rung in winners.items():
        noun, start = rung.kind.value, f"New executions at {scope} would go"
        if rung.kind is RouteKind.ANY:
            routes.append(NextRoute(scope=scope, noun=noun, name=None, origin=None, message=f"{start} {anywhere}."))
            continue
        origin, words = next(described)
        routes.append(NextRoute(scope=scope, noun=noun, name=rung.name, origin=origin, message=f"{start} by {words}."))
    return routes


def _describe_anywhere(fleet: Fleet | None) -> str:
    """Where executions go that no pool or label leads anywhere; without names for who may not know the fleet."""
    named = ""
    if fleet is not None:
        enabled = [f"'{name}'" for name, cluster in sorted(fleet.clusters.items()) if cluster.enabled]
        named = f" ({list_first(enabled, _MOST_NAMED)})" if enabled else ", of which there is none"
    return f"to any enabled cluster{named}, for no pool or label is left that decides"


def _place(route: Route) -> tuple[RouteKind, str]:
    return route.kind, route.name


def _is_changed(rung: Rung, changed: Collection[tuple[str, Scope]]) -> bool:
    """Whether a rung is one of some changed rows."""
    return rung.rung == rung.scope.level.value and (KIND_OF_ROUTE[rung.kind], rung.scope) in changed
