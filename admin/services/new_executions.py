"""New executions: at which scopes a change keeps them from being placed, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KINDS, Consequence, ConsequenceCode, PlacementObstacles
from admin.core.fleet.fleet import Fleet
from admin.core.settings.resolution import RowsByKind
from admin.core.settings.scopes import Scope
from admin.services.affected_scopes import FindAffected
from admin.services.consequences import explain_reasons
from admin.services.context import Context
from admin.services.definitions import definitions_after, fleet_after, latest_fleet
from admin.services.registered_work import plan_settings
from admin.services.use_reach import scopes_of
from admin.store import attributes, projects

#: Reasons that an answer tells; the scopes of the others are counted.
_MOST_REASONS = 20


@dataclass(frozen=True, kw_only=True)
class ScopesKept:
    """The scopes at which new executions are refused, or wait, for one reason."""

    outcome: ConsequenceCode
    message: str
    scopes: Sequence[Scope]


@dataclass(frozen=True, kw_only=True)
class NewExecutions:
    """Where new executions would be refused, or wait, and are not now."""

    refused: int = 0  #: scopes
    waiting: int = 0  #: scopes
    reasons: Sequence[ScopesKept] = ()  #: those of the most scopes first
    is_complete: bool = True  #: False where the change affects more scopes than were looked at


def new_executions_after(
    context: Context, connection: Connection, changes: Sequence[RowChange], find: FindAffected
) -> NewExecutions:
    """Where changes would keep new executions from being placed; of a limited number of scopes.

    Those are where the changed settings apply, and where settings lead to the changed clusters, pools and labels. None
    is told to who may not read the fleet, on which it depends.
    """
    if not context.access.sees_fleet():
        return NewExecutions()
    real = [change for change in changes if change.is_real]
    settings = [change for change in real if change.is_attribute and change.kind in KINDS]
    definitions = [(kind.noun, name) for kind, name in definitions_after(real)]
    if not settings and not definitions:
        return NewExecutions()
    affected = find(frozenset(change.scope for change in settings))
    reached, are_all_reached = scopes_of(context, connection, definitions)
    scopes = sorted({*affected.scopes, *reached}, key=lambda scope: scope.sort_key)
    fleet_now = latest_fleet(context, connection)
    fleet_then = fleet_after(context, connection, real) if definitions else fleet_now
    return find_new_obstacles(
        context,
        connection,
        scopes,
        (fleet_now, fleet_then),
        changes=settings,
        is_complete=affected.is_complete and are_all_reached,
    )


def find_new_obstacles(
    context: Context,
    connection: Connection,
    scopes: Sequence[Scope],
    fleets: tuple[Fleet, Fleet],
    *,
    changes: Sequence[RowChange] = (),
    is_complete: bool,
) -> NewExecutions:
    """Those of some scopes where new executions are refused, or wait, by the fleet and the settings after changes.

    `fleets` are those before and after.
    """
    archived = projects.archived_among(connection, {scope.project for scope in scopes if scope.project})
    # Where executions can be.
    places = [scope for scope in scopes if scope.project and scope.domain and scope.project not in archived]
    before = attributes.at_scopes(connection, KINDS, places)
    after: RowsByKind = {
        kind: rows_after(before[kind].values(), [change for change in changes if change.kind == kind]) for kind in KINDS
    }
    definitions = plan_settings(connection, places)
    now, then = (PlacementObstacles(context.settings.rules, fleet) for fleet in fleets)
    kept: dict[tuple[ConsequenceCode, str], list[Scope]] = defaultdict(list)
    consequences: dict[tuple[ConsequenceCode, str], Consequence] = {}
    for scope in places:
        definition = definitions.get(scope, {})
        winner = then.winner_at(scope, after, definition)
        find_before = partial(now.obstacle_at, scope, before, definition, None if changes else winner)
        consequence = then.newly_at(scope, after, definition, find_before, winner)
        if consequence is None:
            continue
        key = consequence.code, _reason(consequence)
        consequences[key] = consequence
        kept[key].append(scope)
    told = sorted(kept, key=lambda key: -len(kept[key]))[:_MOST_REASONS]
    fleet_now, fleet_then = fleets
    assumed = fleet_then.clusters_unlike(fleet_now)
    messages = explain_reasons(context, connection, [consequences[key] for key in told], fleet_then, assumed=assumed)
    return NewExecutions(
        refused=sum(len(scopes) for (code, _), scopes in kept.items() if code is ConsequenceCode.REFUSES),
        waiting=sum(len(scopes) for (code, _), scopes in kept.items() if code is ConsequenceCode.WAITS),
        reasons=[
            ScopesKept(outcome=key[0], message=message, scopes=kept[key])
            for key, message in zip(told, messages, strict=True)
        ],
        is_complete=is_complete,
    )


def _reason(consequence: Consequence) -> str:
    return consequence.message if consequence.refusal is None else consequence.refusal.problems[0].reason
