"""The reach of uses: the scopes that have a pool, label, cluster or value, and what they miss if it is removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.effective_settings import payload_of
from admin.core.executions.removals import Removal
from admin.core.json_text import JsonObject
from admin.core.registrations import settings_of
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.kinds import Merge
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.definitions import current_fleet, definitions_after
from admin.services.use_search import CHUNK, Question, Use, UseSearch, ask_name
from admin.store import active_plans, attributes

#: Definitions whose removal a dry run tells what the scopes miss.
_MOST_REMOVED = 20


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
    for kind, name in list(definitions)[:_MOST_REMOVED]:
        question = ask_name(context, connection, kind.noun, name)
        _, places, last = UseSearch(context, connection, question).page(None, CHUNK)
        reached = reached_scopes(context, connection, question, places)
        removed.append(RemovedReach(noun=kind.noun, name=name, reached=reached, is_complete=last is None))
    return removed


def reached_scopes(
    context: Context, connection: Connection, question: Question, places: Sequence[tuple[Use, Scope]]
) -> list[Reached]:
    """Those of some scopes that have it from the use beside them."""
    kinds = {use.sought.kind.name for use, _ in places} | {CLUSTER_ASSIGNMENT.name, EXECUTION_CLUSTER_LABEL.name}
    chains = {place for _, scope in places for place in scope.chain()}
    rows: dict[str, dict[Scope, Row]] = defaultdict(dict)
    for row in attributes.exactly(connection, [(kind, place) for kind in kinds for place in chains]):
        rows[row.kind][row.scope] = row
    keys = {(scope.project, scope.domain, scope.launch_plan) for _, scope in places if scope.launch_plan}
    plans = active_plans.of_places(connection, keys)
    removal = Removal(
        noun=question.noun,
        name=question.name,
        fleet=current_fleet(context, connection),
        rules=context.settings.rules,
    )
    reached = []
    for use, scope in places:
        plan = plans.get((scope.project, scope.domain, scope.launch_plan)) if scope.launch_plan else None
        definition = {} if plan is None else settings_of(plan.spec)
        kind = use.sought.kind.name
        if not _is_reached(context, use, scope, rows[kind], definition):
            continue
        if removal.noun == "cluster":  # which the pool or the label leads to, whichever of the two wins
            route = removal.route(scope, rows, definition)
            if (route.pool if kind == CLUSTER_ASSIGNMENT.name else route.label) is None:
                continue
        is_refused = removal.refuses(scope, rows, definition)
        reached.append(Reached(scope, kind, is_refused, removal.waits(scope, rows, definition)))
    return reached


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
