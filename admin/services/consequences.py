"""Consequences: what happens with effective values that executions do not follow, with who is behind each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KINDS, ROUTE_KINDS, Consequence, ConsequenceCode, consequence_of
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import Workload
from admin.core.placement.routes import Rung
from admin.core.provenance import Provenance
from admin.core.settings import trails
from admin.core.settings.field_revisions import RowVersion, with_revision
from admin.core.settings.resolution import Resolved
from admin.services.context import Context
from admin.services.definitions import current_fleet, fleet_after
from admin.services.field_provenance import FieldProvenance, find_field_provenance
from admin.services.refusals import explain_refusals
from admin.services.unable_clusters import explain_unable
from admin.store import attributes


@dataclass(frozen=True, kw_only=True)
class ShownConsequence:
    """What happens with a value, in a sentence; an outranked one has what executions go by."""

    outcome: ConsequenceCode
    message: str
    noun: str | None = None
    name: str | None = None
    origin: JsonObject | None = None


def find_consequences(
    context: Context,
    connection: Connection,
    values: Sequence[Resolved],
    definition: Mapping[str, Any],
    changes: Sequence[RowChange] | None,
) -> tuple[dict[str, ShownConsequence], Mapping[int, Provenance]]:
    """What happens with those of some values at a scope that executions do not follow, and the revisions named.

    The values are those of now, or after changes; `definition` are the settings of the launch plan there. What the
    fleet makes of pools and labels is not told to who may not read the fleet.
    """
    concerned = [value for value in values if value.kind.name in KINDS and value.value]
    if not concerned:
        return {}, {}
    scope = concerned[0].scope
    applying = list(attributes.applying(connection, ROUTE_KINDS, scope))
    changed = [change for change in changes or () if change.is_attribute]
    rows = {
        kind: rows_after(
            [row for row in applying if row.kind == kind], [change for change in changed if change.kind == kind]
        )
        for kind in ROUTE_KINDS
    }
    fleet, rules = fleet_after(context, connection, changes or ()), context.settings.rules
    assumed = fleet.clusters_unlike(current_fleet(context, connection)) if changes else ()
    shown: dict[str, ShownConsequence] = {}
    provenance: dict[int, Provenance] = {}
    for value in concerned:
        consequence = consequence_of(value, rows, definition, rules, fleet)
        is_of_fleet = consequence is not None and consequence.rung is None and value.kind.name in ROUTE_KINDS
        if consequence is None or (is_of_fleet and not context.access.sees_fleet()):
            continue
        if consequence.rung is not None:
            [entry], revisions = show_outranking(context, connection, [consequence.rung])
            provenance.update(revisions)
        else:
            [reason] = explain_reasons(
                context, connection, [consequence], fleet, assumed=assumed, are_rows_stored=changes is None
            )
            verb = "wait" if consequence.refusal is None else "are refused"
            # The reason why executions wait for agents that have not been seen says that they wait.
            message = reason if consequence.is_unseen else f"Executions that follow it {verb}. {reason}"
            entry = ShownConsequence(outcome=consequence.code, message=message)
        shown[value.kind.name] = entry
    return shown, provenance


def show_outranking(
    context: Context, connection: Connection, rungs: Sequence[Rung]
) -> tuple[list[ShownConsequence], Mapping[int, Provenance]]:
    """What each of some rungs comes to that executions go by instead of a value, and the revisions named."""
    made_by = _set_by(context, connection, rungs)
    return [_outranking(rung, made_by, context.clock()) for rung in rungs], made_by.provenance


def describe_rungs_set(context: Context, connection: Connection, rungs: Sequence[Rung]) -> list[tuple[JsonObject, str]]:
    """The origin of each of some rungs, and which pool or label it names and who set that, in words."""
    made_by, now = _set_by(context, connection, rungs), context.clock()
    return [_described(rung, made_by, now) for rung in rungs]


def _set_by(context: Context, connection: Connection, rungs: Sequence[Rung]) -> FieldProvenance:
    rows = [RowVersion(setting.kind, rung.scope, setting.version) for rung in rungs if (setting := rung.setting)]
    return find_field_provenance(context, connection, rows) if rows else FieldProvenance(fields={}, provenance={})


def _described(rung: Rung, made_by: FieldProvenance, now: datetime) -> tuple[JsonObject, str]:
    origin: JsonObject = trails.scope_with(
        rung.scope, level=rung.rung, version=rung.version or None, key=rung.key or None
    )
    setting = rung.setting
    if setting is not None:
        origin = with_revision(setting.kind, setting.field, origin, made_by.fields)
    where = trails.describe_origin(origin, made_by.provenance, now)
    return origin, f"{rung.kind.value} '{rung.name}', set {where}"


def _outranking(rung: Rung, made_by: FieldProvenance, now: datetime) -> ShownConsequence:
    origin, described = _described(rung, made_by, now)
    return ShownConsequence(
        outcome=ConsequenceCode.OUTRANKED,
        message=f"Executions do not go by it: {described}, outranks it.",
        noun=rung.kind.value,
        name=rung.name,
        origin=origin,
    )


def explain_reasons(
    context: Context,
    connection: Connection,
    consequences: Sequence[Consequence],
    fleet: Fleet,
    *,
    assumed: Collection[str] = (),
    are_rows_stored: bool = True,
) -> list[str]:
    """Why executions are refused, or wait, with who is behind each reason.

    Nobody is behind the states of clusters that are only `assumed`, nor behind rows that are not stored.
    """
    refusals = [consequence.refusal for consequence in consequences if consequence.refusal is not None]
    explained = iter(explain_refusals(context, connection, refusals, are_rows_stored=are_rows_stored))
    reasons = []
    for consequence in consequences:
        if consequence.refusal is not None:
            reasons.append(next(explained).problems[0].reason)
            continue
        route, workload = consequence.route, Workload(key="")
        why = route and explain_unable(context, connection, route, fleet, workload, {}, assumed=assumed)
        reasons.append(why.message if why else consequence.message)
    return reasons
