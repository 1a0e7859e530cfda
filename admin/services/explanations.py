"""Explanations: why an execution is where it is, and all that is known of it as things stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.received import received
from admin.core.executions.spec import request_warnings
from admin.core.executions.statuses import Status
from admin.core.identities import Identity
from admin.core.json_text import JsonObject
from admin.core.placement.decisions import CHOSEN, describe_choice
from admin.core.placement.routes import describe_rungs, route_of, winner_of
from admin.core.placement.stored_candidates import render_candidates, switched_candidates, with_declines
from admin.core.provenance import ANYBODY, Provenance
from admin.services.attempts import AttemptList, list_attempts
from admin.services.context import Context
from admin.services.creator_rights import told_clusters
from admin.services.definitions import current_fleet
from admin.services.executions import Previous, beyond_last, find_execution, find_previous, reading_execution
from admin.services.explained_rounds import RoundView, view_rounds, without_clusters_but
from admin.services.field_provenance import rungs_with_sources, with_field_provenance
from admin.services.non_candidates import not_candidates
from admin.services.own_settings import EffectsByKind, effects_on_execution
from admin.services.silences import SilenceView, view_silence
from admin.services.statuses import ForeseenWait, LeaseView, view_lease, view_status
from admin.store import cluster_events, decisions, execution_events, fleet
from admin.store.decisions import StoredDecision
from admin.store.execution_events import Event
from admin.store.executions import Execution, ExecutionId
from admin.store.given_jobs import given_jobs

#: Refused reports that an explanation has.
_MOST_REFUSED = 5


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Where an execution is or would be, and why; steps as JSON of their trails."""

    id: ExecutionId
    cluster: str | None
    reason: str
    reason_message: str
    pool: str | None
    label: str | None
    strategy: str
    revision: int
    rungs: list[JsonObject]
    candidates: list[JsonObject]
    settings: list[JsonObject]
    job: JsonObject
    queue: str | None
    received: list[JsonObject]  #: what its job gets, each with its origin
    field_effects: EffectsByKind  #: the fields of its settings that it does not follow
    launched: JsonObject  #: the identifiers of its `workflow` and `launch_plan`, as far as it has them
    rule: str  #: which rung decided, and over which others, in words
    warnings: list[dict[str, str]]
    created_at: datetime | None = None  #: None for what was not created
    created_by: str | None = None
    claimed_by: str | None = None  #: the name that its creator gave, unverified
    created_proof: str | None = None  #: how its creator was proven
    provenance: Mapping[int, Provenance] | None = None  #: of settings, by their versions
    decision: StoredDecision | None = None  #: None where nothing was decided yet
    history: list[StoredDecision] | None = None
    silence: SilenceView | None = None  #: of its cluster, while it waits or runs there
    status: Status | None = None  #: where it stands now; None for what was not created
    attempts: AttemptList | None = None
    refused_reports: list[Event] | None = None  #: the last ones that came too late, or from a cluster without it
    lease: LeaseView | None = None  #: while an agent has it
    not_candidates: list[JsonObject] | None = None  #: the other clusters of the fleet as it is now
    untold_clusters: int = 0  #: that the asker may not use, and is not told of
    rounds: list[RoundView] | None = None  #: of bids, where its clusters were asked
    wait: ForeseenWait | None = None  #: of what was not created: why its cluster would not take it at once


@dataclass(frozen=True, kw_only=True)
class ExecutionView:
    """An execution and what else is known of it, all as of one moment."""

    execution: Execution
    status: Status | None  #: where it stands, if that was asked
    silence: SilenceView | None  #: of its cluster, while it waits or runs there
    abort_requested_at: datetime | None  #: of one that somebody ended, if its event is kept
    previous: Previous | None  #: what the decision before the last chose, if there was one


def view_execution(
    context: Context,
    key: ExecutionId,
    after_event: int | None = None,
    wait: float = 0,
    *,
    with_status: bool = False,
) -> ExecutionView:
    """An execution; with `after_event` once there is a later event, or `wait` seconds are over."""
    with reading_execution(context, key, after_event, wait) as (connection, execution):
        is_open = execution.cluster is not None and execution.finished_at is None
        heard = fleet.heard(connection, [execution.cluster or ""]) if is_open else {}
        silence = view_silence(context, connection, execution, heard.get(execution.cluster or ""))
        status = _stand(context, connection, execution, silence) if with_status else None
        aborted = [execution.id] if execution.abort_cause is not None else []
        requested_at = execution_events.abort_requests(connection, aborted).get(execution.id)
        previous = find_previous(connection, [execution]).get(execution.id)
    return ExecutionView(
        execution=execution,
        status=status,
        silence=silence,
        abort_requested_at=requested_at,
        previous=previous,
    )


def _stand(context: Context, connection: Connection, execution: Execution, silence: SilenceView | None) -> Status:
    """Where an execution stands now."""
    digests = decisions.settings_trails(connection, [(execution.id, execution.decisions)])
    settings = decisions.trail(connection, digests[execution.id])
    settings, provenance = with_field_provenance(context, connection, settings)
    attempts = list_attempts(connection, execution)
    return view_status(context, connection, execution, settings, provenance, silence, attempts)


def without_untold(explanation: Explanation, told: frozenset[str] | None) -> Explanation:
    """An explanation without the clusters that its asker is not told of, which are counted; None for all.

    The cluster that an execution is at is told to everyone who may read it.
    """
    if told is None:
        return explanation
    names = told | {explanation.cluster}
    all_others = explanation.not_candidates or []
    candidates = [entry for entry in explanation.candidates if entry["cluster"] in names]
    others = [entry for entry in all_others if entry["cluster"] in names]
    untold = len(explanation.candidates) - len(candidates) + len(all_others) - len(others)
    rounds = without_clusters_but(explanation.rounds or (), frozenset(names))
    return replace(explanation, candidates=candidates, not_candidates=others, untold_clusters=untold, rounds=rounds)


def explain(context: Context, key: ExecutionId, number: int | None = None, *, asker: Identity = ANYBODY) -> Explanation:
    """Why an execution is where it is; or was, by an earlier decision; as far as the asker may be told."""
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        history = decisions.of(connection, execution.id)
        if number is not None and not 1 <= number <= len(history):
            raise beyond_last("decision", execution, len(history))
        decision = history[(number or len(history)) - 1]
        settings = decisions.trail(connection, decision.settings_trail)
        trail = decisions.trail(connection, decision.placement_trail)
        given_job = given_jobs(connection, [execution]).get(execution.id)
        field_effects = effects_on_execution(context, execution, settings["settings"], given_job)
        settings, provenance = with_field_provenance(context, connection, settings)
        switched = switched_candidates(trail)
        switched_by = cluster_events.switched_by(connection, switched, decision.decided_at)
        winner = winner_of(settings["rungs"])
        fleet_now = current_fleet(context, connection)
        others = not_candidates(context, connection, fleet_now, route_of(winner), trail)
        rungs = rungs_with_sources(connection, settings["rungs"], execution.launched)
        attempts = list_attempts(connection, execution)
        silence = status = lease = refused = None
        if decision is history[-1]:
            heard = fleet.heard(connection, [execution.cluster or ""]).get(execution.cluster or "")
            silence = view_silence(context, connection, execution, heard)
            name = execution.cluster or ""
            lease = view_lease(execution, heard, fleet_now.clusters[name] if fleet_now.has_cluster(name) else None)
            status = view_status(context, connection, execution, settings, provenance, silence, attempts)
            refused = execution_events.refused_reports(connection, execution.id, _MOST_REFUSED)
        rounds = view_rounds(connection, execution.id, decision.number, is_last=decision is history[-1])
        told = told_clusters(context, connection, asker, fleet_now)
    message = decision.reason_message
    is_chosen = decision.reason in CHOSEN
    is_waiting_there = Phase(execution.phase) is Phase.QUEUED and execution.cluster == decision.cluster
    has_left = decision is not history[-1] or not is_waiting_there or execution.not_before is not None
    if decision.cluster and is_chosen and has_left:
        message = describe_choice(decision.cluster, decision.reason, is_past=True)
    explanation = Explanation(
        id=execution.key,
        cluster=decision.cluster,
        reason=decision.reason,
        reason_message=message,
        pool=winner["name"] if winner["kind"] == "pool" else None,
        label=winner["name"] if winner["kind"] == "label" else None,
        strategy=trail["strategy"],
        revision=decision.revision,
        rungs=rungs,
        candidates=render_candidates(
            with_declines(trail, attempts.declines),
            decision.scores,
            str(key),
            decision.cluster,
            switched_by,
            decision.decided_at,
        ),
        settings=settings["settings"],
        job=execution.content["job"],
        queue=execution.content["queue"],
        received=received(
            execution.content["job"],
            given_job,
            settings["settings"],
            project=execution.project,
            launched=execution.launched,
        ),
        field_effects=field_effects,
        launched=execution.launched,
        rule=describe_rungs(settings["rungs"]),
        warnings=request_warnings(execution.request["spec"]),
        created_at=execution.created_at,
        created_by=execution.created_by or None,
        claimed_by=execution.claimed_by,
        created_proof=execution.created_proof,
        provenance=provenance,
        decision=decision,
        history=history,
        silence=silence,
        status=status,
        attempts=attempts if decision is history[-1] else None,
        refused_reports=refused,
        lease=lease,
        not_candidates=others,
        rounds=rounds,
    )
    return without_untold(explanation, told)
