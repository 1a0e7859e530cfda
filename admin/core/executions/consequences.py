"""Consequences: what happens with an effective value that executions do not simply follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from admin.core.executions.launches import Rules
from admin.core.executions.placements import check_feasible, check_known
from admin.core.executions.queues import find_queues
from admin.core.executions.spec import target_of
from admin.core.fleet.fleet import Fleet
from admin.core.placement.candidates import Workload
from admin.core.placement.decisions import Evaluation, evaluate
from admin.core.placement.filters import EXPECTED
from admin.core.placement.routes import DEFINITION, Route, RouteKind, Rung, Target, find_route, find_winner
from admin.core.problems import Refused, list_first
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Resolved, Row, RowsByKind, resolve
from admin.core.settings.scopes import Scope

_ROUTE_KINDS = {
    kinds.CLUSTER_ASSIGNMENT.name: (RouteKind.POOL, "cluster_pool_name"),
    kinds.EXECUTION_CLUSTER_LABEL.name: (RouteKind.LABEL, "value"),
}
#: The kinds that name a pool or label.
ROUTE_KINDS = tuple(_ROUTE_KINDS)
#: The field of each that does.
ROUTE_FIELDS = {kind: field for kind, (_, field) in _ROUTE_KINDS.items()}
KIND_OF_ROUTE = {route_kind: kind for kind, (route_kind, _) in _ROUTE_KINDS.items()}
#: Clusters that a message names.
_MOST_NAMED = 5
#: The kinds whose values may have such a consequence.
KINDS = frozenset({*_ROUTE_KINDS, kinds.EXECUTION_QUEUE.name})


class ConsequenceCode(StrEnum):
    """What happens with a value."""

    OUTRANKED = "outranked"  # executions go by another pool or label
    REFUSES = "refuses"
    WAITS = "waits"  # no cluster takes executions now


@dataclass(frozen=True, kw_only=True)
class Consequence:
    """What happens with a value; an outranked one has the rung that executions go by."""

    code: ConsequenceCode
    rung: Rung | None = None
    refusal: Refused | None = None
    message: str = ""  #: why executions wait
    route: Route | None = None  #: where they would go
    is_unseen: bool = False  #: whether they wait at clusters whose agents have not been seen


class Obstacle(NamedTuple):
    """That executions are kept from being placed, without why."""

    code: ConsequenceCode
    is_unseen: bool  #: whether they wait at clusters whose agents have not been seen


def consequence_of(
    resolved: Resolved, rows: RowsByKind, definition: Mapping[str, Any], rules: Rules, fleet: Fleet
) -> Consequence | None:
    """What happens with a value where executions ask for nothing themselves; None where they follow it.

    `rows` are those of pools and labels that apply at its scope, `definition` the settings of the launch plan there.
    """
    try:
        if resolved.kind.name == kinds.EXECUTION_QUEUE.name:
            find_queues(rules.queues, resolved)
            return None
        return _of_route(resolved, rows, definition, rules, fleet)
    except Refused as refusal:
        return Consequence(code=ConsequenceCode.REFUSES, refusal=refusal)


def names_place(kind: Kind, payload: Mapping[str, Any]) -> bool:
    """Whether a payload names a pool or label to which executions may go."""
    return kind.name in _ROUTE_KINDS and bool(payload.get(_ROUTE_KINDS[kind.name][1]))


def find_outranking(
    kind: Kind, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any], platform: PlatformValues
) -> Rung | None:
    """The rung that executions go by at a scope that has a pool or label; None where they go by that one."""
    route = route_at(scope, rows, definition, platform)
    return route.winner if _is_outranked(kind, route) else None


def route_at(scope: Scope, rows: RowsByKind, definition: Mapping[str, Any], platform: PlatformValues) -> Route:
    """The route at a scope of what asks for nothing itself."""
    target = target_of(definition)
    return find_route(request=Target(), definition=target, scope=scope, rows=rows, platform=platform)


def winner_at(scope: Scope, rows: RowsByKind, definition: Mapping[str, Any], platform: PlatformValues) -> Rung:
    """The rung that decides there, which takes less than the whole route."""
    target = target_of(definition)
    return find_winner(request=Target(), definition=target, scope=scope, rows=rows, platform=platform)


def _is_outranked(kind: Kind, route: Route) -> bool:
    """Whether a route goes by something else than the effective value of a kind."""
    return route.kind is not _ROUTE_KINDS[kind.name][0] or route.winner.rung == DEFINITION


def _of_route(
    resolved: Resolved, rows: RowsByKind, definition: Mapping[str, Any], rules: Rules, fleet: Fleet
) -> Consequence | None:
    if not names_place(resolved.kind, resolved.value):
        return None
    route = route_at(resolved.scope, rows, definition, rules.platform)
    if _is_outranked(resolved.kind, route):
        return Consequence(code=ConsequenceCode.OUTRANKED, rung=route.winner)
    evaluation = _evaluate(route, fleet)
    return _of_place(route, fleet, evaluation) or _of_unseen(route, evaluation)


def _evaluate(route: Route, fleet: Fleet) -> Evaluation:
    """Which clusters take a job that asks for nothing: whether one is large enough is each job's own matter."""
    return evaluate(route, fleet, Workload(key=""), {})


def _of_place(route: Route, fleet: Fleet, evaluation: Evaluation) -> Consequence | None:
    """That executions of a route wait; None where a cluster takes them."""
    check_known(route, fleet)
    check_feasible(evaluation, route)
    return None if evaluation.able else Consequence(code=ConsequenceCode.WAITS, message=evaluation.message, route=route)


def _of_unseen(route: Route, evaluation: Evaluation) -> Consequence | None:
    """That executions of a route wait at clusters whose agents have not been seen; None where one has been."""
    if evaluation.code != EXPECTED.code:
        return None
    best = evaluation.best
    first = [f"'{candidate.cluster.name}'" for candidate in best[:_MOST_NAMED]]
    names = list_first(first, _MOST_NAMED, count=len(best))
    why = best[0].cluster.why_expected if len(best) == 1 else "no agent of these has been seen"
    message = f"By {route} executions wait at {names}: {why}."
    return Consequence(code=ConsequenceCode.WAITS, message=message, route=route, is_unseen=True)


class PlacementObstacles:
    """Finds what keeps new executions, which ask for nothing themselves, from being placed on a fleet.

    The clusters of a pool or label are looked at once, whichever settings name it at however many scopes.
    """

    def __init__(self, rules: Rules, fleet: Fleet) -> None:
        self._rules = rules
        self._fleet = fleet
        self._refused: dict[tuple[RouteKind, str | None, str, Scope], Consequence] = {}  #: which say what names it
        self._by_place: dict[tuple[RouteKind, str | None], Consequence | None] = {}  #: of all others
        self._evaluations: dict[tuple[RouteKind, str], Evaluation] = {}
        self._by_queue_rows: dict[tuple[object, ...], Consequence | None] = {}
        self._obstacles: dict[tuple[RouteKind, str | None], Obstacle | None] = {}

    def at(self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any]) -> Consequence | None:
        """That executions at a scope are refused, or wait, and why; None where a cluster takes them.

        `rows` are those of `KINDS`, `definition` the settings of the launch plan at the scope.
        """
        refused = self._at_queues(scope, rows.get(kinds.EXECUTION_QUEUE.name, {}))
        if refused is not None:
            return refused
        platform = self._rules.platform
        winner = winner_at(scope, rows, definition, platform)
        place = winner.kind, winner.name
        if place in self._by_place:
            return self._by_place[place]
        key = *place, winner.rung, winner.scope
        if key not in self._refused:
            consequence = self._of_route(route_at(scope, rows, definition, platform))
            if consequence is None or consequence.refusal is None:
                self._by_place[place] = consequence
                return consequence
            self._refused[key] = consequence
        return self._refused[key]

    def newly_at(
        self,
        scope: Scope,
        rows: RowsByKind,
        definition: Mapping[str, Any],
        find_before: Callable[[], Obstacle | None],
        winner: Rung | None = None,
    ) -> Consequence | None:
        """The same; None also where the same obstacle was there before, which is asked for only if needed."""
        obstacle = self.new_obstacle_at(scope, rows, definition, find_before, winner)
        return None if obstacle is None else self.at(scope, rows, definition)

    def new_obstacle_at(
        self,
        scope: Scope,
        rows: RowsByKind,
        definition: Mapping[str, Any],
        find_before: Callable[[], Obstacle | None],
        winner: Rung | None = None,
    ) -> Obstacle | None:
        """The obstacle to executions at a scope, where it was not there before.

        It is another one for those that waited for an agent to come, and then find no cluster at all.
        """
        obstacle = self.obstacle_at(scope, rows, definition, winner)
        before = None if obstacle is None else find_before()
        if obstacle is None or before is None or obstacle.code is not before.code:
            return obstacle
        return obstacle if before.is_unseen and not obstacle.is_unseen else None

    def winner_at(self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any]) -> Rung:
        """The rung that decides at a scope, which is the same by every fleet."""
        return winner_at(scope, rows, definition, self._rules.platform)

    def obstacle_at(
        self, scope: Scope, rows: RowsByKind, definition: Mapping[str, Any], winner: Rung | None = None
    ) -> Obstacle | None:
        """The obstacle to executions at a scope; the same for all that go to one pool or label.

        It takes much less than `at`, which also tells what settings lead there; less still where the rung that decides
        there is known.
        """
        if self._at_queues(scope, rows.get(kinds.EXECUTION_QUEUE.name, {})) is not None:
            return Obstacle(ConsequenceCode.REFUSES, is_unseen=False)
        winner = winner or self.winner_at(scope, rows, definition)
        place = winner.kind, winner.name
        if place not in self._obstacles:
            consequence = self._of_route(route_at(scope, rows, definition, self._rules.platform))
            self._obstacles[place] = None if consequence is None else Obstacle(consequence.code, consequence.is_unseen)
        return self._obstacles[place]

    def _at_queues(self, scope: Scope, rows: Mapping[Scope, Row]) -> Consequence | None:
        """That executions at a scope are refused for their queue tags; the same wherever the same rows apply."""
        kind, applying = kinds.EXECUTION_QUEUE, [row for place in scope.chain() if (row := rows.get(place)) is not None]
        key = scope.domain, *((row.scope, row.version) for row in applying)
        if key not in self._by_queue_rows:
            refused = None
            try:
                find_queues(self._rules.queues, resolve(kind, scope, rows, self._rules.platform.at(kind, scope.domain)))
            except Refused as refusal:
                refused = Consequence(code=ConsequenceCode.REFUSES, refusal=refusal)
            self._by_queue_rows[key] = refused
        return self._by_queue_rows[key]

    def _of_route(self, route: Route) -> Consequence | None:
        place = route.kind, route.name
        if place not in self._evaluations:
            self._evaluations[place] = _evaluate(route, self._fleet)
        evaluation = self._evaluations[place]
        try:
            return _of_place(route, self._fleet, evaluation) or _of_unseen(route, evaluation)
        except Refused as refusal:
            return Consequence(code=ConsequenceCode.REFUSES, refusal=refusal)
