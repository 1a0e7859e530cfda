"""Next routes: which pool or label decides where changed settings no longer do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KIND_OF_ROUTE, ROUTE_KINDS, route_at
from admin.core.json_text import JsonObject
from admin.core.placement.routes import Route, RouteKind, Rung
from admin.core.settings.resolution import RowsByKind
from admin.core.settings.scopes import Scope
from admin.services.consequences import describe_rungs_set
from admin.services.context import Context
from admin.services.registered_work import plan_settings
from admin.store import attributes

#: Changed scopes of which is told what decides then.
_MOST_SCOPES = 20


@dataclass(frozen=True, kw_only=True)
class NextRoute:
    """What new executions at a scope go by after a change, and did not before."""

    scope: Scope
    noun: str
    name: str
    origin: JsonObject
    message: str


def next_routes(context: Context, connection: Connection, changes: Iterable[RowChange]) -> list[NextRoute]:
    """Where changes of pools and labels leave the word to another row, a launch plan or configuration; the first ones.

    What a changed row itself says is no news, and neither is that nothing decides.
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
        if _place(now) != _place(then) and then.kind is not RouteKind.ANY and not _is_changed(then.winner, changed):
            winners[scope] = then.winner
    described = describe_rungs_set(context, connection, list(winners.values()))
    return [
        NextRoute(
            scope=scope,
            noun=rung.kind.value,
            name=rung.name or "",
            origin=origin,
            message=f"New executions at {scope} would go by {words}.",
        )
        for (scope, rung), (origin, words) in zip(winners.items(), described, strict=True)
    ]


def _place(route: Route) -> tuple[RouteKind, str]:
    return route.kind, route.name


def _is_changed(rung: Rung, changed: Collection[tuple[str, Scope]]) -> bool:
    """Whether a rung is one of some changed rows."""
    return rung.rung == rung.scope.level.value and (KIND_OF_ROUTE[rung.kind], rung.scope) in changed
