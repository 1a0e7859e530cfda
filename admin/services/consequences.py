"""Consequences: what happens with effective values that executions do not follow, with who is behind each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.consequences import KINDS, Consequence, ConsequenceCode, consequence_of
from admin.core.json_text import JsonObject
from admin.core.placement.routes import Rung
from admin.core.provenance import Provenance
from admin.core.registrations import settings_of
from admin.core.settings import trails
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
from admin.core.settings.field_revisions import RowVersion, with_revision
from admin.core.settings.resolution import Resolved
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.definitions import fleet_after
from admin.services.field_provenance import find_field_provenance
from admin.services.refusals import explain_refusals
from admin.store import attributes, registrations

_ROUTE_KINDS = (CLUSTER_ASSIGNMENT.name, EXECUTION_CLUSTER_LABEL.name)


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
    applying = list(attributes.applying(connection, _ROUTE_KINDS, scope))
    changed = [change for change in changes or () if change.is_attribute]
    rows = {
        kind: rows_after(
            [row for row in applying if row.kind == kind], [change for change in changed if change.kind == kind]
        )
        for kind in _ROUTE_KINDS
    }
    fleet, rules = fleet_after(context, connection, changes or ()), context.settings.rules
    definition = _definition(connection, scope)
    shown: dict[str, ShownConsequence] = {}
    provenance: dict[int, Provenance] = {}
    for value in concerned:
        consequence = consequence_of(value, rows, definition, rules, fleet)
        if consequence is None:
            continue
        if consequence.rung is not None:
            entry, revisions = _outranked(context, connection, consequence.rung)
            provenance.update(revisions)
        else:
            message = _message(context, connection, consequence, are_rows_stored=changes is None)
            entry = ShownConsequence(outcome=consequence.code, message=message)
        shown[value.kind.name] = entry
    return shown, provenance


def _definition(connection: Connection, scope: Scope) -> JsonObject:
    """The settings of the launch plan that a scope is for."""
    if not scope.launch_plan:
        return {}
    key = (scope.project, scope.domain, scope.launch_plan)
    plan = registrations.active_plans_of(connection, [key]).get(key)
    return {} if plan is None or plan.workflow != scope.workflow else settings_of(plan.spec)


def _outranked(
    context: Context, connection: Connection, rung: Rung
) -> tuple[ShownConsequence, Mapping[int, Provenance]]:
    origin: JsonObject = trails.scope_with(
        rung.scope, level=rung.rung, version=rung.version or None, key=rung.key or None
    )
    provenance: Mapping[int, Provenance] = {}
    setting = rung.setting
    if setting is not None:
        row = RowVersion(setting.kind, rung.scope, setting.version)
        made_by = find_field_provenance(context, connection, [row])
        provenance, origin = made_by.provenance, with_revision(setting.kind, setting.field, origin, made_by.fields)
    noun = rung.kind.value
    where = trails.describe_origin(origin, provenance, context.clock())
    message = f"Executions do not go by it: {noun} '{rung.name}', set {where}, outranks it."
    outcome = ConsequenceCode.OUTRANKED
    return ShownConsequence(outcome=outcome, message=message, noun=noun, name=rung.name, origin=origin), provenance


def _message(context: Context, connection: Connection, consequence: Consequence, *, are_rows_stored: bool) -> str:
    if consequence.refusal is None:
        return f"Executions that follow it wait. {consequence.message}"
    [refusal] = explain_refusals(context, connection, [consequence.refusal], are_rows_stored=are_rows_stored)
    return f"Executions that follow it are refused. {refusal.problems[0].reason}"
