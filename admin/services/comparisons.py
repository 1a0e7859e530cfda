"""Comparisons: what applies at one scope, revision or execution against another, and at an execution against today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.attempt_records import cause_of_execution
from admin.core.executions.attempts import attempts_begun
from admin.core.executions.comparisons import (
    CANDIDATES,
    OUTCOME,
    PLACEMENT,
    RUN,
    Fact,
    FactPair,
    Facts,
    Outcome,
    describe_comparison,
    pair_facts,
)
from admin.core.executions.consequences import ROUTE_FIELDS, ROUTE_KINDS, find_outranking, names_place
from admin.core.executions.own_settings import FieldEffect, field_effects, field_effects_on
from admin.core.json_text import JsonObject
from admin.core.placement.decisions import CHOSEN, describe_choice
from admin.core.placement.routes import describe_rungs, source_of, winner_of
from admin.core.placement.stored_candidates import render_candidates, switched_candidates
from admin.core.provenance import Provenance, show_name
from admin.core.settings import trails
from admin.core.settings.comparisons import LeafPair, pair_values
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Resolved, Row
from admin.core.settings.scopes import Scope
from admin.services.attempts import list_attempts
from admin.services.consequences import show_outranking
from admin.services.context import Context
from admin.services.creator_rights import told_clusters
from admin.services.decision_views import StoredView
from admin.services.definitions import current_fleet
from admin.services.effective import effective_in
from admin.services.executions import find_execution
from admin.services.field_provenance import find_field_provenance, rungs_with_sources
from admin.services.launches import find_launch
from admin.services.own_settings import effects_on_execution
from admin.services.registered_work import find_registered
from admin.services.run_requests import run_request_of
from admin.services.statuses import times_of
from admin.services.visibility import told_events
from admin.store import attributes, cluster_events, decisions, history
from admin.store.executions import Execution, ExecutionId
from admin.store.given_jobs import given_jobs

#: Clusters of which is told how they stood at two decisions.
_MOST_CANDIDATES = 20


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where an execution was placed by its last decision, and why."""

    cluster: str | None
    pool: str | None
    label: str | None
    strategy: str
    rule: str  #: which rung decided, and over which others, in words
    origin: JsonObject  #: the rung that decided
    reason: str
    message: str
    decision: int
    decided_at: datetime
    candidates: Mapping[str, str]  #: by cluster, that it was chosen or why not, as the decision saw it


#: By the names of their kinds and their own, the fields that executions do not follow.
FieldEffects = Mapping[tuple[str, str], FieldEffect]


@dataclass(frozen=True, kw_only=True)
class Side:
    """What is compared: a scope as of a revision, or as an execution at it was decided."""

    scope: Scope
    revision: int
    effects: FieldEffects  #: by what is registered now, or of an execution by its own job
    execution: ExecutionId | None = None
    placed: Placed | None = None  #: of an execution


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sides, and the leaves that differ between them."""

    first: Side
    second: Side
    differences: Sequence[LeafPair]
    equal: int  #: how many leaves have the same value on both sides
    provenance: Mapping[int, Provenance]  #: of the revisions that set what differs, and what executions were placed by
    message: str | None = None  #: how two executions stand, and what differs between them
    facts: Sequence[FactPair] | None = None  #: of two executions


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
        registered = find_registered(connection, {first.scope, second.scope})
        for side in (first, second):
            effective = effective_in(context, connection, side.scope, chosen, at=side.at)
            effects = {
                (value.kind.name, effect.field): effect
                for value in effective.values
                for effect in field_effects(value, registered[side.scope])
            } | _outranked(context, connection, side, effective.values, registered[side.scope].definition)
            sides.append(Side(scope=side.scope, revision=effective.revision, effects=effects))
            values.append([trails.resolved(value) for value in effective.values])
        return _compare(context, connection, sides, chosen, values)


def _outranked(
    context: Context, connection: Connection, side: ScopeAt, values: Iterable[Resolved], definition: Mapping[str, Any]
) -> dict[tuple[str, str], FieldEffect]:
    """The pools and labels of a scope that executions there do not go by, since another one outranks them."""
    placing = [value for value in values if names_place(value.kind, value.value)]
    if not placing:
        return {}
    if side.at is None:
        applying: Sequence[Row] = attributes.applying(connection, ROUTE_KINDS, side.scope)
    else:
        applying = history.applying_at(connection, side.at, list(ROUTE_KINDS), side.scope)
    rows = {kind: {row.scope: row for row in applying if row.kind == kind} for kind in ROUTE_KINDS}
    platform = context.settings.platform
    rungs = {
        value.kind.name: rung
        for value in placing
        if (rung := find_outranking(value.kind, side.scope, rows, definition, platform)) is not None
    }
    shown, _ = show_outranking(context, connection, list(rungs.values()))
    return {
        (kind, ROUTE_FIELDS[kind]): FieldEffect(
            field=ROUTE_FIELDS[kind],
            outcome=consequence.outcome,
            effect=f"{consequence.noun} '{consequence.name}' outranks it",
            message=consequence.message,
        )
        for kind, consequence in zip(rungs, shown, strict=True)
    }


def compare_execution(context: Context, key: ExecutionId) -> Comparison:
    """Compare the settings that an execution was decided by with those that the same request would get now."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        side, stored = _decided(context, connection, execution)
        view = StoredView(context, connection)
        resolved = find_launch(view.catalog, run_request_of(execution), may_be_archived=True)
        settings = view.effective_settings(resolved)
        effects = {
            (name, effect.field): effect
            for name, value in settings.settings.items()
            for effect in field_effects_on(value, resolved.workflow, dict(resolved.launch.job))
        }
        now = settings.trail.body["settings"]
        sides = [side, Side(scope=resolved.launch.scope, revision=view.basis.revision, effects=effects)]
        return _compare(context, connection, sides, list(context.settings.kinds), [stored, now])


def compare_executions(context: Context, first: ExecutionId, second: ExecutionId) -> Comparison:
    """Compare two executions: what they are, their settings, how they were placed and how they ended."""
    with context.database.reading() as connection:
        executions = [find_execution(context, connection, key) for key in (first, second)]
        decided = [_decided(context, connection, execution) for execution in executions]
        sides, values = [side for side, _ in decided], [settings for _, settings in decided]
        comparison = _compare(context, connection, sides, list(context.settings.kinds), values)
        outcomes = [_outcome(context, connection, execution) for execution in executions]
    known = zip(executions, sides, outcomes, strict=True)
    unlike = _clusters_unlike([side.placed for side in sides if side.placed is not None])
    pairs = pair_facts(*(_facts(execution, side.placed, outcome, unlike) for execution, side, outcome in known))
    names = [key.name if first[:2] == second[:2] else str(key) for key in (first, second)]
    message = describe_comparison(names, outcomes, pairs, len(comparison.differences))
    return replace(comparison, message=message, facts=pairs)


def _outcome(context: Context, connection: Connection, execution: Execution) -> Outcome:
    """How an execution ended, or how far it has come."""
    attempts = list_attempts(connection, execution)
    times = times_of(execution, attempts, None, context.clock()) if execution.finished_at is not None else None
    cause = cause_of_execution(execution)
    has_begun = execution.started_at or execution.native_id or execution.last_failure
    return Outcome(
        phase=execution.phase,
        cluster=execution.cluster,
        cause=None if cause is None else cause.value,
        ended_by=attempts.attempts[-1].ended_by if attempts.attempts else None,
        attempts=attempts_begun(execution) if has_begun else 0,
        run_seconds=None if times is None else int(times.running),
    )


def _clusters_unlike(placed: Sequence[Placed]) -> list[str]:
    """The first candidates that stood otherwise at two decisions by one route which chose different clusters."""
    first, second = placed
    if first.cluster == second.cluster or (first.pool, first.label) != (second.pool, second.label):
        return []
    names = dict.fromkeys((*first.candidates, *second.candidates))
    return [name for name in names if first.candidates.get(name) != second.candidates.get(name)][:_MOST_CANDIDATES]


def _facts(execution: Execution, placed: Placed | None, outcome: Outcome, clusters: Sequence[str]) -> Facts:
    """What is known of an execution, in the order of answers."""
    job, launched = execution.content["job"], execution.launched
    workflow, plan = launched.get("workflow") or {}, launched.get("launch_plan") or {}
    run = {
        "workflow": workflow.get("name"),
        "workflow_version": workflow.get("version"),
        "launch_plan": plan.get("name"),
        "launch_plan_version": plan.get("version"),
        "command": job.get("command"),
        "image": job.get("image"),
        **_fields_in("job", {name: value for name, value in job.items() if name not in ("command", "image")}),
        **_fields_in("retry", execution.content.get("retry") or {}),
        **{f"inputs.{name}": value for name, value in sorted(execution.content["inputs"].items())},
        "created_by": show_name(execution.created_by, execution.claimed_by) or None,
        "principal": execution.principal,
    }
    placement = {} if placed is None else _placement_facts(placed, clusters)
    ended = {
        "phase": outcome.phase,
        "reason": execution.reason,
        "cause": outcome.cause,
        "ended_by": outcome.ended_by,
        "attempts": outcome.attempts,
        "run_time_seconds": outcome.run_seconds,
    }
    parts = {RUN: run, PLACEMENT: placement, OUTCOME: ended}
    return {Fact(part, field): value for part, fields in parts.items() for field, value in fields.items()}


def _fields_in(path: str, value: object) -> JsonObject:
    """The values of a JSON object and of the objects in it, by their paths."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {field: leaf for name in sorted(value) for field, leaf in _fields_in(f"{path}.{name}", value[name]).items()}


def _placement_facts(placed: Placed, clusters: Sequence[str]) -> dict[str, str | int | None]:
    return {
        "rung": placed.origin["rung"],
        "source": source_of(placed.origin),
        "set_by_revision": placed.origin.get("version"),
        "pool": placed.pool,
        "label": placed.label,
        "strategy": placed.strategy,
        "cluster": placed.cluster,
        **{f"{CANDIDATES}.{name}": placed.candidates.get(name, "not a candidate") for name in clusters},
        "reason": placed.reason,
        "decisions": placed.decision,
    }


def _decided(context: Context, connection: Connection, execution: Execution) -> tuple[Side, list[JsonObject]]:
    """An execution as its last decision left it, and the settings that it was decided by."""
    decision = decisions.of(connection, execution.id)[-1]
    settings = decisions.trail(connection, decision.settings_trail)
    winner = winner_of(rungs_with_sources(context, connection, settings["rungs"], execution.launched))
    message = decision.reason_message
    if decision.cluster and decision.reason in CHOSEN:
        message = describe_choice(decision.cluster, decision.reason, is_past=True)
    trail = decisions.trail(connection, decision.placement_trail)
    events = cluster_events.switched_by(connection, switched_candidates(trail), decision.decided_at)
    switched_by = told_events(context.access, events)
    told = told_clusters(context, connection, context.access.identity, current_fleet(context, connection))
    candidates = render_candidates(
        trail, decision.scores, str(execution.key), decision.cluster, switched_by, decision.decided_at
    )
    placed = Placed(
        cluster=decision.cluster,
        pool=winner["name"] if winner["kind"] == "pool" else None,
        label=winner["name"] if winner["kind"] == "label" else None,
        strategy=trail["strategy"],
        rule=describe_rungs(settings["rungs"]),
        origin=winner,
        reason=decision.reason,
        message=message,
        decision=decision.number,
        decided_at=decision.decided_at,
        candidates={
            candidate["cluster"]: candidate.get("why_not", "chosen")
            for candidate in candidates
            if told is None or candidate["cluster"] in {*told, decision.cluster}
        },
    )
    scope = Scope(
        project=execution.project,
        domain=execution.domain,
        workflow=execution.workflow,
        launch_plan=execution.launch_plan,
    )
    given_job = given_jobs(connection, [execution]).get(execution.id)
    effects = {
        (kind, effect.field): effect
        for kind, effects_of_kind in effects_on_execution(context, execution, settings["settings"], given_job).items()
        for effect in effects_of_kind
    }
    side = Side(scope=scope, revision=decision.revision, effects=effects, execution=execution.key, placed=placed)
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
    rows = {row for pair in differences for row in pair.rows}
    placed_by = {side.placed.origin["version"] for side in sides if side.placed and side.placed.origin.get("version")}
    field_provenance = find_field_provenance(context, connection, rows, placed_by)
    differences = [pair.with_revisions(field_provenance.fields) for pair in differences]
    return Comparison(
        first=sides[0],
        second=sides[1],
        differences=differences,
        equal=len(pairs) - len(differences),
        provenance=field_provenance.provenance,
    )
