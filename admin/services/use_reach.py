"""The reach of uses: the scopes that have a pool, label, cluster or value, and what they miss if it is removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.consequences import (
    KIND_OF_ROUTE,
    KINDS,
    ConsequenceCode,
    Obstacle,
    PlacementObstacles,
    winner_at,
)
from admin.core.executions.effective_settings import payload_of
from admin.core.executions.removals import FLEET_NOUNS, NOUNS, rules_without
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.settings.kinds import Merge
from admin.core.settings.resolution import Row, RowsByKind
from admin.core.settings.scopes import Scope
from admin.core.settings.uses import Sought
from admin.services.context import Context
from admin.services.definitions import current_fleet, definitions_after, fleet_after, fleet_without
from admin.services.registered_work import plan_settings
from admin.services.use_search import CHUNK, Question, Use, UseSearch, ask_name
from admin.store import attributes, projects

#: Definitions whose removal a dry run tells what the scopes miss, and whose scopes are searched for together.
_MOST_REMOVED, _MOST_NAMED = 20, 20


class Reached(NamedTuple):
    """A scope that has it, and whether its executions would be refused without, or would wait."""

    scope: Scope
    kind: str
    is_refused: bool
    is_waiting: bool


@dataclass(frozen=True, kw_only=True)
class RemovedReach:
    """What new executions would miss something that is removed, of the scopes that a page looks at."""

    noun: str
    name: str
    reached: Sequence[Reached]
    is_complete: bool  #: whether every scope was looked at


def reach_of_removed(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[RemovedReach]:
    """The scopes that have the pools, labels and clusters which changes remove, of the first ones.

    None where something else is changed too, by which the scopes may come to have something else.
    """
    definitions = definitions_after(changes)
    if len(definitions) < len(changes) or any(definition is not None for definition in definitions.values()):
        return []
    removed = []
    # What the scopes may go to instead is what all of the changes leave.
    left = fleet_after(context, connection, changes)
    for kind, name in list(definitions)[:_MOST_REMOVED]:
        question, places, is_complete = places_of(context, connection, kind.noun, name)
        reached = reached_scopes(context, connection, question, places, left)
        removed.append(RemovedReach(noun=kind.noun, name=name, reached=reached, is_complete=is_complete))
    return removed


def places_of(
    context: Context, connection: Connection, noun: str, name: str
) -> tuple[Question, Sequence[tuple[Use, Scope]], bool]:
    """The first uses of a name, each beside a scope where it may apply, and whether these are all."""
    question = ask_name(context, connection, noun, name)
    _, places, last = UseSearch(context, connection, question).page(None, CHUNK)
    return question, places, last is None


def scopes_of(context: Context, connection: Connection, named: Sequence[tuple[str, str]]) -> tuple[list[Scope], bool]:
    """The first scopes where pools, labels and clusters, each a noun and a name, may apply, and whether these are all.

    They are searched for together, so that many take no longer than one.
    """
    if not named:
        return [], True
    by_kind: dict[str, Sought] = {}
    for noun, name in named[:_MOST_NAMED]:
        for sought in ask_name(context, connection, noun, name).sought:
            others = by_kind.get(sought.kind.name, sought).values or frozenset()
            by_kind[sought.kind.name] = replace(sought, values=others.union(sought.values or ()))
    question = Question(noun="", name="", sought=tuple(by_kind.values()))
    _, places, last = UseSearch(context, connection, question).page(None, CHUNK)
    scopes = sorted({scope for _, scope in places}, key=lambda scope: scope.sort_key)
    return scopes, last is None and len(named) <= _MOST_NAMED


def reached_scopes(
    context: Context,
    connection: Connection,
    question: Question,
    places: Sequence[tuple[Use, Scope]],
    left: Fleet | None = None,
) -> list[Reached]:
    """Those of some scopes that have it from the use beside them.

    `left` is the fleet that is left without it, where it is not the only one that is removed.
    """
    scopes = [scope for _, scope in places]
    rows = attributes.at_scopes(connection, {use.sought.kind.name for use, _ in places} | KINDS, scopes)
    definitions = plan_settings(connection, scopes)
    loss = _Loss(context, connection, question, left)
    archived = projects.archived_among(connection, {scope.project for scope in scopes if scope.project})
    reached = []
    for use, scope in places:
        definition, kind = definitions.get(scope, {}), use.sought.kind.name
        if not _is_reached(context, use, scope, rows[kind], definition):
            continue
        if question.noun == "cluster":  # which the pool or the label leads to, whichever of the two wins
            winner = winner_at(scope, rows, definition, context.settings.rules.platform)
            if KIND_OF_ROUTE.get(winner.kind) != kind:
                continue
        # Nothing runs in an archived project, so that nothing is missed there.
        code = None if scope.project in archived else loss.at(scope, rows, definition)
        is_refused, is_waiting = code is ConsequenceCode.REFUSES, code is ConsequenceCode.WAITS
        reached.append(Reached(scope, kind, is_refused, is_waiting))
    return reached


class _Loss:
    """What new executions miss if a pool, label, cluster, queue or queue tag goes away; of other things, nothing."""

    def __init__(self, context: Context, connection: Connection, question: Question, left: Fleet | None) -> None:
        is_told = context.access.sees_fleet() or question.noun not in FLEET_NOUNS
        self._is_felt = question.noun in NOUNS and is_told
        rules, fleet = context.settings.rules, current_fleet(context, connection)
        kind = next((kind for kind in FleetKind if kind.noun == question.noun), None)
        if left is None:
            left = fleet if kind is None else fleet_without(context, connection, kind, [question.name])
        self._now = PlacementObstacles(rules, fleet) if question.is_known else None
        self._then = PlacementObstacles(rules_without(rules, question.noun, question.name), left)

    def at(self, scope: Scope, rows: RowsByKind, definition: JsonObject) -> ConsequenceCode | None:
        """Whether executions at a scope would be refused or wait, and do not now; or do, for want of it."""
        if not self._is_felt:
            return None

        def find_before() -> Obstacle | None:
            return None if self._now is None else self._now.obstacle_at(scope, rows, definition)

        obstacle = self._then.new_obstacle_at(scope, rows, definition, find_before)
        return None if obstacle is None else obstacle.code


def _is_reached(context: Context, use: Use, scope: Scope, rows: Mapping[Scope, Row], definition: JsonObject) -> bool:
    if use.plan is not None:
        return True
    kind = use.sought.kind
    own_leaves = kind.leaves(payload_of(kind, definition))
    if own_leaves and (kind.merge is Merge.REPLACE or use.leaves.keys() <= own_leaves.keys()):
        return False
    platform = context.settings.platform.at(kind, scope.domain)
    origins = use.sought.origins_at(scope, rows, platform)
    if use.key:
        return any(origin.key == use.key for origin in origins)
    return any(origin.scope == use.scope and not origin.key for origin in origins)
