"""Consequences: what happens with effective values that executions do not follow, with who is behind each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KINDS, ROUTE_KINDS, Consequence, ConsequenceCode, consequence_of
from admin.core.fleet.fleet import Fleet
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import Workload
from admin.core.placement.routes import Rung
from admin.core.provenance import Provenance
from admin.core.registrations import settings_of
from admin.core.settings import trails
from admin.core.settings.field_revisions import RowVersion, with_revision
from admin.core.settings.resolution import Resolved
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.definitions import fleet_after
from admin.services.field_provenance import FieldProvenance, find_field_provenance
from admin.services.refusals import explain_refusals
from admin.services.unable_clusters import explain_unable
from admin.store import active_plans, attributes


@dataclass(frozen=True, kw_only=True)
class ShownConsequence:
    """What happens with a value, in a sentence; an outranked one has what executions go by."""

    outcome: ConsequenceCode
    message: str
    noun: str | None = None
    name: str | None = None
    origin: JsonObject | None = None


def find_consequences(
    context: Context, connection: Connection, values: Sequence[Resolved], changes: Sequence[RowChange] | None
) -> tuple[dict[str, ShownConsequence], Mapping[int, Provenance]]:
    """What happens with those of some values at a scope that executions do not follow, and the revisions named.

    The values are those of now, or after changes.
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
    definition = plan_settings(connection, [scope]).get(scope, {})
    shown: dict[str, ShownConsequence] = {}
    provenance: dict[int, Provenance] = {}
    for value in concerned:
        consequence = consequence_of(value, rows, definition, rules, fleet)
        if consequence is None:
            continue
        if consequence.rung is not None:
            [entry], revisions = show_outranking(context, connection, [consequence.rung])
            provenance.update(revisions)
        else:
            message = _message(context, connection, consequence, fleet, are_rows_stored=changes is None)
            entry = ShownConsequence(outcome=consequence.code, message=message)
        shown[value.kind.name] = entry
    return shown, provenance


def plan_settings(connection: Connection, scopes: Iterable[Scope]) -> dict[Scope, JsonObject]:
    """The settings of the active launch plans that some scopes are for."""
    keys = {scope: (scope.project, scope.domain, scope.launch_plan) for scope in scopes if scope.launch_plan}
    plans = active_plans.of_places(connection, keys.values()) if keys else {}
    return {
        scope: settings_of(plan.spec)
        for scope, key in keys.items()
        if (plan := plans.get(key)) is not None and plan.workflow == scope.workflow
    }


def show_outranking(
    context: Context, connection: Connection, rungs: Sequence[Rung]
) -> tuple[list[ShownConsequence], Mapping[int, Provenance]]:
    """What each of some rungs comes to that executions go by instead of a value, and the revisions named."""
    rows = [RowVersion(setting.kind, rung.scope, setting.version) for rung in rungs if (setting := rung.setting)]
    made_by = find_field_provenance(context, connection, rows) if rows else FieldProvenance(fields={}, provenance={})
    return [_outranking(rung, made_by, context.clock()) for rung in rungs], made_by.provenance


def _outranking(rung: Rung, made_by: FieldProvenance, now: datetime) -> ShownConsequence:
    origin: JsonObject = trails.scope_with(
        rung.scope, level=rung.rung, version=rung.version or None, key=rung.key or None
    )
    setting, noun = rung.setting, rung.kind.value
    if setting is not None:
        origin = with_revision(setting.kind, setting.field, origin, made_by.fields)
    where = trails.describe_origin(origin, made_by.provenance, now)
    message = f"Executions do not go by it: {noun} '{rung.name}', set {where}, outranks it."
    return ShownConsequence(
        outcome=ConsequenceCode.OUTRANKED, message=message, noun=noun, name=rung.name, origin=origin
    )


def _message(
    context: Context, connection: Connection, consequence: Consequence, fleet: Fleet, *, are_rows_stored: bool
) -> str:
    if consequence.refusal is None:
        route = consequence.route
        why = None if route is None else explain_unable(context, connection, route, fleet, Workload(key=""), {})
        return f"Executions that follow it wait. {consequence.message if why is None else why.message}"
    [refusal] = explain_refusals(context, connection, [consequence.refusal], are_rows_stored=are_rows_stored)
    return f"Executions that follow it are refused. {refusal.problems[0].reason}"
