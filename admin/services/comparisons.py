"""Comparisons: what applies at one scope or revision against another, and at an execution against today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.core.settings import trails
from admin.core.settings.comparisons import LeafPair, pair_values
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.decision_views import StoredView
from admin.services.effective import effective_in
from admin.services.executions import find_execution
from admin.services.field_provenance import find_field_provenance
from admin.services.launches import find_launch
from admin.services.run_requests import run_request_of
from admin.store import decisions
from admin.store.executions import ExecutionId


@dataclass(frozen=True, kw_only=True)
class Side:
    """What is compared: a scope as of a revision, or as an execution at it was decided."""

    scope: Scope
    revision: int
    execution: ExecutionId | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sides, and the leaves that differ between them."""

    first: Side
    second: Side
    differences: Sequence[LeafPair]
    equal: int  #: how many leaves have the same value on both sides
    provenance: Mapping[int, Provenance]  #: of the revisions that set what differs


@dataclass(frozen=True, kw_only=True)
class ScopeAt:
    """A scope now, or as of a revision."""

    scope: Scope
    at: int | None = None


def compare_scopes(context: Context, first: ScopeAt, second: ScopeAt, kinds: Iterable[Kind]) -> Comparison:
    """Compare what applies at two scopes, or at one as of two revisions."""
    chosen = list(kinds)
    sides, values = [], []
    with context.database.reading() as connection:
        for side in (first, second):
            effective = effective_in(context, connection, side.scope, chosen, at=side.at)
            sides.append(Side(scope=side.scope, revision=effective.revision))
            values.append([trails.resolved(value) for value in effective.values])
        return _compare(context, connection, sides, chosen, values)


def compare_execution(context: Context, key: ExecutionId) -> Comparison:
    """Compare the settings that an execution was decided by with those that the same request would get now."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        decision = decisions.of(connection, execution.id)[-1]
        stored = decisions.trail(connection, decision.settings_trail)["settings"]
        view = StoredView(context, connection)
        resolved = find_launch(view.catalog, run_request_of(execution), may_be_archived=True)
        now = view.effective_settings(resolved).trail.body["settings"]
        scope = resolved.launch.scope
        sides = [
            Side(scope=scope, revision=decision.revision, execution=execution.key),
            Side(scope=scope, revision=view.basis.revision),
        ]
        return _compare(context, connection, sides, list(context.settings.kinds), [stored, now])


def _compare(
    context: Context,
    connection: Connection,
    sides: Sequence[Side],
    kinds: Sequence[Kind],
    values: Sequence[Sequence[JsonObject]],
) -> Comparison:
    pairs = list(pair_values(kinds, *values))
    differences = [pair for pair in pairs if not pair.is_equal]
    field_provenance = find_field_provenance(context, connection, {row for pair in differences for row in pair.rows})
    differences = [pair.with_revisions(field_provenance.fields) for pair in differences]
    return Comparison(
        first=sides[0],
        second=sides[1],
        differences=differences,
        equal=len(pairs) - len(differences),
        provenance=field_provenance.provenance,
    )
