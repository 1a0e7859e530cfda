"""Comparisons: what applies at one scope, revision or execution against another, and at an execution against today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.core.json_text import JsonObject
from admin.core.placement.decisions import CHOSEN, describe_choice
from admin.core.placement.routes import describe_rungs, winner_of
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
from admin.store.executions import Execution, ExecutionId


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where an execution was placed by its last decision, and why."""

    cluster: str | None
    pool: str | None
    label: str | None
    strategy: str
    rule: str  #: which rung decided, and over which others, in words
    reason: str
    message: str
    decision: int
    decided_at: datetime


@dataclass(frozen=True, kw_only=True)
class Side:
    """What is compared: a scope as of a revision, or as an execution at it was decided."""

    scope: Scope
    revision: int
    execution: ExecutionId | None = None
    placed: Placed | None = None  #: of an execution


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
        side, stored = _decided(connection, execution)
        view = StoredView(context, connection)
        resolved = find_launch(view.catalog, run_request_of(execution), may_be_archived=True)
        now = view.effective_settings(resolved).trail.body["settings"]
        sides = [side, Side(scope=resolved.launch.scope, revision=view.basis.revision)]
        return _compare(context, connection, sides, list(context.settings.kinds), [stored, now])


def compare_executions(context: Context, first: ExecutionId, second: ExecutionId) -> Comparison:
    """Compare the settings that two executions were decided by."""
    with context.database.reading() as connection:
        decided = [_decided(connection, find_execution(context, connection, key)) for key in (first, second)]
        sides, values = [side for side, _ in decided], [settings for _, settings in decided]
        return _compare(context, connection, sides, list(context.settings.kinds), values)


def _decided(connection: Connection, execution: Execution) -> tuple[Side, list[JsonObject]]:
    """An execution as its last decision left it, and the settings that it was decided by."""
    decision = decisions.of(connection, execution.id)[-1]
    settings = decisions.trail(connection, decision.settings_trail)
    winner = winner_of(settings["rungs"])
    message = decision.reason_message
    if decision.cluster and decision.reason in CHOSEN:
        message = describe_choice(decision.cluster, decision.reason, is_past=True)
    placed = Placed(
        cluster=decision.cluster,
        pool=winner["name"] if winner["kind"] == "pool" else None,
        label=winner["name"] if winner["kind"] == "label" else None,
        strategy=decisions.trail(connection, decision.placement_trail)["strategy"],
        rule=describe_rungs(settings["rungs"]),
        reason=decision.reason,
        message=message,
        decision=decision.number,
        decided_at=decision.decided_at,
    )
    scope = Scope(
        project=execution.project,
        domain=execution.domain,
        workflow=execution.workflow,
        launch_plan=execution.launch_plan,
    )
    side = Side(scope=scope, revision=decision.revision, execution=execution.key, placed=placed)
    return side, settings["settings"]


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
