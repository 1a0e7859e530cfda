"""Explanations: why an execution is where it is, and all that is known of it as things stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.executions.received import received
from admin.core.executions.spec import request_warnings
from admin.core.executions.statuses import Status
from admin.core.fleet.fleet import Fleet
from admin.core.identities import Identity
from admin.core.json_text import JsonObject
from admin.core.placement.decisions import CHOSEN, describe_choice
from admin.core.placement.fits import (
    DecisionTime,
    Fit,
    FleetFits,
    add_fits,
    count_fits,
    describe_entry,
    without_obstacles,
)
from admin.core.placement.routes import describe_rungs, route_of, winner_of
from admin.core.placement.stored_candidates import render_candidates, switched_candidates, with_declines
from admin.core.placement.usable_clusters import usable_in_fleet
from admin.core.provenance import ANYBODY, Provenance
from admin.errors import ClusterNotFound
from admin.services.attempts import AttemptList, list_attempts
from admin.services.context import Context
from admin.services.creator_rights import current_rights, told_clusters, usable_of
from admin.services.decision_views import workload_of
from admin.services.definitions import current_fleet
from admin.services.executions import Previous, beyond_last, find_execution, find_previous, reading_execution
from admin.services.explained_rounds import RoundView, answers_of, view_rounds, without_clusters_but
from admin.services.field_provenance import rungs_with_sources, with_field_provenance
from admin.services.fits import find_fleet_fits
from admin.services.named_rows import row_not_found
from admin.services.non_candidates import not_candidates
from admin.services.own_settings import EffectsByKind, effects_on_execution
from admin.services.silences import SilenceView, view_silence
from admin.services.statuses import ForeseenWait, LeaseView, view_lease, view_status
from admin.services.visibility import told_events
from admin.store import cluster_events, decisions, execution_events, fleet
from admin.store.decisions import StoredDecision
from admin.store.execution_events import Event
from admin.store.executions import Execution, ExecutionId
from admin.store.given_jobs import given_jobs

#: Refused reports that an explanation has.
_MOST_REFUSED = 5


class ClusterQuestion(NamedTuple):
    """Why something does not go to one cluster."""

    cluster: str
    candidate: bool | None  #: None where the asker may not be told
    chosen: bool
    message: str
    then: str | None = None  #: of a candidate of a decision that was not chosen: why, as of then
    now: str | None = None  #: and whether it could run it now


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
    strategy_source: str | None  #: `request` where that asked for it
    rules: list[JsonObject] | None  #: that were applied
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
    unseen_clusters: int = 0  #: the same of an asker who may use them, and may not read the fleet
    rounds: list[RoundView] | None = None  #: of bids, where its clusters were asked
    wait: ForeseenWait | None = None  #: of what was not created: why its cluster would not take it at once
    refused: bool = False  #: of what was not created: whether no candidate could ever run it
    fleet: FleetFits | None = None  #: how many clusters could run it, where that was asked
    left_out: int = 0  #: clusters that were no candidates, beyond as many as were asked for
    why_not: ClusterQuestion | None = None  #: about the one cluster that was asked about


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


def without_untold(context: Context, explanation: Explanation, told: frozenset[str] | None) -> Explanation:
    """An explanation without the clusters that its asker is not told of, which are counted; None for all.

    The cluster that an execution is at is told to everyone who may read it.
    """
    if not context.access.sees_fleet():
        explanation = _without_obstacles(_without_pool_rules(explanation))
    if told is None:
        return explanation
    names = told | {explanation.cluster}
    all_others = explanation.not_candidates or []
    candidates = [entry for entry in explanation.candidates if entry["cluster"] in names]
    others = [entry for entry in all_others if entry["cluster"] in names]
    untold = len(explanation.candidates) - len(candidates) + len(all_others) - len(others)
    rounds = without_clusters_but(explanation.rounds or (), frozenset(names))
    is_closed = context.settings.is_cluster_use_closed
    return replace(
        explanation,
        candidates=candidates,
        not_candidates=others,
        untold_clusters=untold if is_closed else 0,
        unseen_clusters=0 if is_closed else untold,
        rounds=rounds,
    )


def with_fits(explanation: Explanation, fits: Mapping[str, Fit]) -> Explanation:
    """An explanation whose clusters, candidates or not, tell whether they could run the job."""
    candidates, others = add_fits(explanation.candidates, explanation.not_candidates or (), fits)
    return replace(explanation, candidates=candidates, not_candidates=others)


def with_counts(explanation: Explanation) -> Explanation:
    """An explanation that tells how many of the clusters in it could run the job."""
    return replace(explanation, fleet=count_fits(explanation.candidates, explanation.not_candidates or ()))


def with_why_not(
    context: Context, connection: Connection, explanation: Explanation, cluster: str, clusters: Collection[str]
) -> Explanation:
    """An explanation that also answers why it is not at one cluster; ClusterNotFound where the asker knows none.

    `clusters` are all of the fleet.
    """
    others = explanation.not_candidates or []
    for is_candidate, entries in ((True, explanation.candidates), (False, others)):
        for entry in entries:
            if entry["cluster"] == cluster:
                decision = explanation.decision
                decided = decision and DecisionTime(decision.number, decision.decided_at)
                text = describe_entry(entry, is_candidate=is_candidate, decided=decided)
                question = ClusterQuestion(cluster, is_candidate, bool(entry.get("chosen")), *text)
                return replace(explanation, why_not=question)
    names = [entry["cluster"] for entry in (*explanation.candidates, *others)]
    sees_fleet = context.access.sees_fleet()
    if sees_fleet:  # who is told that there is the cluster, and no more of it here
        if cluster in clusters:
            message = f"Cluster '{cluster}' is one that you may not use, and no more is told of it here."
            return replace(explanation, why_not=ClusterQuestion(cluster, None, False, message))
        names = [*names, *clusters]
    raise row_not_found(context, connection if sees_fleet else None, ClusterNotFound, "CLUSTER", cluster, names)


def _without_pool_rules(explanation: Explanation) -> Explanation:
    """An explanation without the rules of a pool and their values, which name properties of clusters."""
    if explanation.rules is None or explanation.strategy_source is not None:  # the request is told to its readers
        return explanation
    candidates = [
        {key: value for key, value in candidate.items() if key != "values"} for candidate in explanation.candidates
    ]
    return replace(explanation, rules=None, candidates=candidates)


def _without_obstacles(explanation: Explanation) -> Explanation:
    """An explanation without why its clusters could not run the job now: their states, loads and sizes."""
    candidates = list(map(without_obstacles, explanation.candidates))
    others = list(map(without_obstacles, explanation.not_candidates or ()))
    return replace(explanation, candidates=candidates, not_candidates=others)


class _Standing(NamedTuple):
    """Where an execution stands now; nothing of it belongs to an earlier decision."""

    silence: SilenceView | None = None
    status: Status | None = None
    lease: LeaseView | None = None
    refused_reports: list[Event] | None = None
    attempts: AttemptList | None = None


def explain(
    context: Context,
    key: ExecutionId,
    number: int | None = None,
    *,
    asker: Identity = ANYBODY,
    why_not: str | None = None,
) -> Explanation:
    """Why an execution is where it is; or was, by an earlier decision; as far as the asker may be told.

    `why_not` is a cluster that it might have gone to.
    """
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        history = decisions.of(connection, execution.id)
        decision = _choose_decision(execution, history, number)
        is_last = decision is history[-1]
        settings = decisions.trail(connection, decision.settings_trail)
        trail = decisions.trail(connection, decision.placement_trail)
        given_job = given_jobs(connection, [execution]).get(execution.id)
        field_effects = effects_on_execution(context, execution, settings["settings"], given_job)
        settings, provenance = with_field_provenance(context, connection, settings)
        route = route_of(winner_of(settings["rungs"]))
        fleet_now = current_fleet(context, connection)
        rights = current_rights(context, connection)
        usable = usable_in_fleet(usable_of(execution, rights), route, fleet_now)
        attempts = list_attempts(connection, execution)
        rounds = view_rounds(connection, execution, decision.number, is_last=is_last)
        standing = _Standing()
        if is_last:
            standing = _find_standing(context, connection, execution, fleet_now, settings, provenance, attempts)
        explanation = Explanation(
            id=execution.key,
            cluster=decision.cluster,
            reason=decision.reason,
            reason_message=_decided_message(execution, decision, is_last=is_last),
            pool=route.pool,
            label=route.label,
            strategy=trail["strategy"],
            strategy_source=trail.get("strategy_source"),
            rules=trail.get("rules"),
            revision=decision.revision,
            rungs=rungs_with_sources(context, connection, settings["rungs"], execution.launched),
            candidates=_candidates(context, connection, execution, decision, trail, attempts, answers_of(rounds)),
            settings=settings["settings"],
            job=execution.content["job"],
            queue=execution.content["queue"],
            received=_received(execution, given_job, settings["settings"]),
            field_effects=field_effects,
            rounds=rounds,
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
            **standing._asdict(),
            not_candidates=not_candidates(context, connection, fleet_now, route, trail, usable),
        )
        told = told_clusters(context, connection, asker, fleet_now)
        if why_not is None:
            return without_untold(context, explanation, told)
        workload = replace(workload_of(execution, rights), usable=usable)
        fits = find_fleet_fits(context, connection, fleet_now, route, workload, [why_not])
        explanation = without_untold(context, with_fits(explanation, fits), told)
        return with_why_not(context, connection, explanation, why_not, fleet_now.clusters)


def _choose_decision(execution: Execution, history: list[StoredDecision], number: int | None) -> StoredDecision:
    """The decision that was asked for; the last one where none was."""
    if number is not None and not 1 <= number <= len(history):
        raise beyond_last("decision", execution, len(history))
    return history[(number or len(history)) - 1]


def _find_standing(
    context: Context,
    connection: Connection,
    execution: Execution,
    fleet_now: Fleet,
    settings: JsonObject,
    provenance: Mapping[int, Provenance],
    attempts: AttemptList,
) -> _Standing:
    name = execution.cluster or ""
    heard = fleet.heard(connection, [name]).get(name)
    silence = view_silence(context, connection, execution, heard)
    return _Standing(
        silence=silence,
        status=view_status(context, connection, execution, settings, provenance, silence, attempts),
        lease=view_lease(execution, heard, fleet_now.clusters[name] if fleet_now.has_cluster(name) else None),
        refused_reports=execution_events.refused_reports(connection, execution.id, _MOST_REFUSED),
        attempts=attempts,
    )


def _decided_message(execution: Execution, decision: StoredDecision, *, is_last: bool) -> str:
    """What a decision said; in the past tense where the execution no longer waits at the cluster that it chose."""
    is_waiting_there = Phase(execution.phase) is Phase.QUEUED and execution.cluster == decision.cluster
    has_left = not is_last or not is_waiting_there or execution.not_before is not None
    if decision.cluster and decision.reason in CHOSEN and has_left:
        return describe_choice(decision.cluster, decision.reason, is_past=True)
    return decision.reason_message


def _candidates(
    context: Context,
    connection: Connection,
    execution: Execution,
    decision: StoredDecision,
    trail: JsonObject,
    attempts: AttemptList,
    answers: Mapping[str, str],
) -> list[JsonObject]:
    """The candidates of a decision, with who had switched off those that were, and what those answered that it asks."""
    events = cluster_events.switched_by(connection, switched_candidates(trail), decision.decided_at)
    switched_by = told_events(context.access, events)
    return render_candidates(
        with_declines(trail, attempts.declines),
        decision.scores,
        str(execution.key),
        decision.cluster,
        switched_by,
        None,  # the sentence is read at any time after the decision
        answers,
    )


def _received(execution: Execution, given_job: JsonObject | None, settings: list[JsonObject]) -> list[JsonObject]:
    """What the job of an execution gets, each part with its origin."""
    return received(
        execution.content["job"], given_job, settings, project=execution.project, launched=execution.launched
    )
