"""Placements: where an execution would run, and which would move after a change; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import islice

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite
from admin.core.creators import Creator
from admin.core.executions.plans import RunPlan
from admin.core.executions.received import received
from admin.core.executions.selectors import Condition
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.fleet import Fleet
from admin.core.identities import Identity
from admin.core.placement.decisions import ASKING
from admin.core.placement.routes import describe_rungs
from admin.core.placement.stored_candidates import render_candidates, switched_candidates
from admin.core.placement.usable_clusters import usable_in_fleet
from admin.core.problems import Invalid
from admin.core.provenance import ANYBODY
from admin.core.resources import format_amounts
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import WarningCode
from admin.services.bid_loads import Standing, load_beside
from admin.services.change_drafts import planned_changes
from admin.services.context import Context
from admin.services.creations import generated_name
from admin.services.creator_rights import asks_for_rights, rights_at_creation, told_clusters
from admin.services.decision_views import StoredView, loaded_clusters, prepare
from admin.services.definitions import ChangedDefinitions, definitions_after
from admin.services.execution_quotas import foresee
from admin.services.executions import matching_in, place_in_matching
from admin.services.explanations import Explanation, with_counts, with_fits, with_why_not, without_untold
from admin.services.field_provenance import rungs_with_sources, with_field_provenance
from admin.services.fits import find_fleet_fits
from admin.services.last_bids import foresee_bids
from admin.services.non_candidates import not_candidates
from admin.services.own_settings import effects_on_job
from admin.services.planned_rights import rights_after
from admin.services.preparations import Preparation
from admin.services.refusals import explain_refusals
from admin.services.retention import find_not_counted
from admin.services.run_requests import CreationRequest
from admin.services.scopes import check_readable
from admin.services.simulators import KeyedRequest, Recorder, SimulatedPlacement, Simulator
from admin.services.statuses import ForeseenWait, foresee_wait
from admin.services.visibility import check_launch, seen_executions, told_events
from admin.store import bids, cluster_events, execution_counts, revisions
from admin.store.execution_lists import Place
from admin.store.executions import Execution
from admin.store.statuses import NewInLine

#: Executions whose recorded states are read together.
_PAGE = 500


def where_would(
    context: Context,
    request: CreationRequest,
    proposed: Sequence[RowWrite] | None = None,
    *,
    asker: Identity = ANYBODY,
    fleet: bool = False,
    limit: int | None = None,
    why_not: str | None = None,
) -> Explanation:
    """Where a request of a caller would run now, or after a proposed change. Nothing is written.

    With `fleet` every cluster says whether it could run it, also if no candidate ever could. `limit` is the most of the
    clusters that are no candidates; `why_not` is a cluster that it might go to.
    """
    check_launch(context.access, request.run)
    name, creator = request.name or generated_name(request.run), Creator.of(asker)
    user, proof, use, groups = creator
    named = request._replace(name=name, created_by=user, created_proof=proof, created_use=use, groups=groups)
    with context.database.reading() as connection:
        changes = [] if proposed is None else planned_changes(context, connection, proposed, force=True)
        view, preparation = _prepare(
            context, connection, named, creator, changes, must_be_feasible=not fleet and why_not is None
        )
        explanation = _explain(context, connection, view, preparation, named, changes)
        if fleet or why_not is not None:
            run_plan, names = preparation.run_plan, None if fleet or why_not is None else [why_not]
            usable = usable_in_fleet(view.rights(named).usable, run_plan.route, view.fleet)
            workload = replace(run_plan.workload, usable=usable)
            fits = find_fleet_fits(context, connection, view.fleet, run_plan.route, workload, names)
            explanation = with_fits(explanation, fits)
        explanation = without_untold(context, explanation, told_clusters(context, connection, asker, view.fleet))
        if why_not is not None:
            explanation = with_why_not(context, connection, explanation, why_not, view.fleet.clusters)
    return _limited(with_counts(explanation) if fleet else explanation, limit)


def _limited(explanation: Explanation, limit: int | None) -> Explanation:
    """An explanation with the first clusters that are no candidates, the others counted; None for all."""
    others = explanation.not_candidates or []
    if limit is None or len(others) <= limit:
        return explanation
    return replace(explanation, not_candidates=others[:limit], left_out=len(others) - limit)


def _prepare(
    context: Context,
    connection: Connection,
    request: CreationRequest,
    creator: Creator,
    changes: Sequence[RowChange],
    *,
    must_be_feasible: bool,
) -> tuple[StoredView, Preparation]:
    """The state after changes, and the request prepared by it; a refusal says who is behind it."""
    try:
        known = rights_after(context, connection, changes) if asks_for_rights(context, creator) else None
        rights = partial(rights_at_creation, context, rights=known)
        view = StoredView(context, connection, proposed=changes, rights=rights)
        preparation = prepare(context, view, request, must_be_feasible=must_be_feasible)
        return view, _with_last_bids(context, connection, view, preparation)
    except Invalid as refusal:
        [explained] = explain_refusals(context, connection, [refusal], are_rows_stored=not changes)
        raise explained from refusal


def _explain(
    context: Context,
    connection: Connection,
    view: StoredView,
    preparation: Preparation,
    request: CreationRequest,
    changes: Sequence[RowChange],
) -> Explanation:
    """Where a prepared request would run, and why."""
    trail = preparation.run_plan.effective.trail.body
    steps, provenance = with_field_provenance(context, connection, trail, changes)
    placement, now = preparation.place(request.key), context.clock()
    run_plan, decision, resolved = placement.run_plan, placement.decision, preparation.resolved
    evaluation = decision.evaluation
    candidates = evaluation.trail.body
    events = cluster_events.switched_by(connection, switched_candidates(candidates), now)
    switched_by = told_events(context.access, events)
    given_job = dict(resolved.launch.job) if resolved.workflow else request.run.spec.get("job")
    id, launched = str(request.id), resolved.identifiers
    usable = usable_in_fleet(view.rights(request).usable, run_plan.route, view.fleet)
    return Explanation(
        id=request.id,
        cluster=decision.cluster,
        reason=decision.code,
        reason_message=(context.access.sees_fleet() and evaluation.detailed_message) or decision.message,
        pool=run_plan.route.pool,
        label=run_plan.route.label,
        strategy=evaluation.strategy,
        strategy_source=candidates.get("strategy_source"),
        rules=candidates.get("rules"),
        revision=preparation.basis.revision,
        rungs=rungs_with_sources(context, connection, steps["rungs"], launched),
        candidates=render_candidates(candidates, evaluation.scores, id, decision.cluster, switched_by, now),
        settings=steps["settings"],
        job=run_plan.job,
        queue=run_plan.queue,
        received=received(run_plan.job, given_job, steps["settings"], project=request.run.project, launched=launched),
        field_effects=effects_on_job(run_plan.effective.settings.values(), resolved.workflow, given_job),
        launched=launched,
        rule=describe_rungs(steps["rungs"]),
        warnings=[
            *preparation.warnings(decision.cluster),
            *_outranked_capacities(view.fleet, definitions_after(changes)),
            *foresee(context, connection, run_plan.effective.quotas, run_plan.workload.demand),
        ],
        provenance=provenance,
        not_candidates=not_candidates(context, connection, view.fleet, run_plan.route, candidates, usable),
        wait=_foresee_wait(context, connection, view.fleet, run_plan, decision.cluster),
        refused=not evaluation.is_feasible,
    )


def _foresee_wait(
    context: Context, connection: Connection, fleet: Fleet, run_plan: RunPlan, cluster: str | None
) -> ForeseenWait | None:
    """Why the chosen cluster, if there is one, would not take it at once."""
    if cluster is None:
        return None
    new = NewInLine(cluster, run_plan.tier, run_plan.priority)
    return foresee_wait(context, connection, fleet.clusters[cluster], run_plan.workload, new)


def _with_last_bids(
    context: Context, connection: Connection, view: StoredView, preparation: Preparation
) -> Preparation:
    """A preparation that would ask clusters, as their last bids say."""
    if preparation.evaluation.code != ASKING:
        return preparation
    run_plan, now = preparation.run_plan, context.clock()
    clusters = loaded_clusters(run_plan.route, view.fleet, run_plan.workload.requested)
    known, standing = bids.last(connection), Standing(tier=run_plan.tier, priority=run_plan.priority)
    loads = load_beside(connection, clusters, known.values(), now)
    evaluation = foresee_bids(run_plan.route, view.fleet, run_plan.workload, known, loads, standing, now)
    return replace(preparation, evaluation=evaluation)


def _outranked_capacities(fleet: Fleet, definitions: ChangedDefinitions) -> Iterator[dict[str, str]]:
    """A warning of each cluster whose changed definition has a capacity that the report of its agent outranks."""
    for kind, name in definitions:
        cluster = fleet.clusters.get(name) if kind is FleetKind.CLUSTER else None
        if cluster is None or not cluster.outranked_capacity:
            continue
        reported = format_amounts({name: (cluster.capacity or {})[name] for name in cluster.outranked_capacity})
        declared = format_amounts(cluster.outranked_capacity)
        parts = (f"{reported[name]} {name}, not {declared[name]}" for name in declared)
        message = f"Cluster '{name}' has {'; '.join(parts)}: the report of its agent outranks its definition."
        yield {"code": WarningCode.REPORTED_CAPACITY.value, "message": message}


@dataclass(frozen=True, kw_only=True)
class Move:
    """An execution that would go elsewhere."""

    execution: Execution
    before: SimulatedPlacement
    after: SimulatedPlacement


class FleetState(Enum):
    """Which states of clusters a simulation assumes."""

    CURRENT = "current"
    RECORDED = "recorded"  # those that the last decision of each execution found


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a change would do to recent executions."""

    compared: int
    moves: list[Move]
    before: Counter[str]  #: executions by cluster, "" for those that would wait without one or be refused
    after: Counter[str]
    refused_before: Counter[str]  #: executions that are refused, by the code of the reason
    refused_after: Counter[str]
    by_last_bids: int  #: executions whose clusters would be asked, before or after
    state: FleetState
    fleet: Fleet  #: as it is
    told: frozenset[str] | None  #: the clusters that the asker is told of; None for all
    is_use_closed: bool  #: whether those are the clusters that the asker may use
    at: datetime
    revision: int
    not_counted: str | None  #: what was pruned and might have been compared, in a sentence
    last: Place | None  #: what the executions that were not compared come after; None where all were


def simulate(
    context: Context,
    proposed: Sequence[RowWrite],
    conditions: Iterable[Condition],
    scope: Scope,
    state: FleetState = FleetState.CURRENT,
    *,
    asker: Identity = ANYBODY,
    after_place: Place | None = None,
) -> Simulation:
    """Which executions would go elsewhere after a change: each is placed by the current and by the proposed state.

    The oldest come first, and only so many of them after a place, which draw from so many clusters together.
    """
    limits = context.list_limits
    last: Place | None = None
    place_before: Place | None = None
    moves: list[Move] = []
    before, after = Counter[str](), Counter[str]()
    refused_before, refused_after = Counter[str](), Counter[str]()
    compared = by_last_bids = drawn = 0
    with context.database.reading() as connection:
        changes = planned_changes(context, connection, proposed, force=True)
        check_readable(context, connection, scope)
        current, changed = Simulator(context, connection, []), Simulator(context, connection, changes)
        recorder, revision = Recorder(connection), revisions.head(connection)
        told = told_clusters(context, connection, asker, current.fleet)
        selected = [*conditions, *seen_executions(context)]
        pruned = find_not_counted(connection, selected, "compared")
        matching = matching_in(connection, selected, after_place)
        while last is None and (page := list(islice(matching, _PAGE))):
            recorded = recorder.fleets(page) if state is FleetState.RECORDED else {}
            for execution in page:
                if compared >= limits.simulated or drawn >= limits.drawn:
                    last = place_before
                    break
                request, fleet_then = KeyedRequest.of(execution), recorded.get(execution.id)
                old = current.place(execution, request, fleet_then)
                new = changed.place(execution, request, fleet_then)
                before[old.cluster or ""] += 1
                after[new.cluster or ""] += 1
                refused_before.update([old.reason] if old.refused else ())
                refused_after.update([new.reason] if new.refused else ())
                by_last_bids += ASKING in (old.reason, new.reason)
                if old.place != new.place:
                    moves.append(Move(execution=execution, before=old, after=new))
                compared += 1
                drawn += old.candidates + new.candidates
                place_before = place_in_matching(execution)
    return Simulation(
        compared=compared,
        moves=moves,
        before=before,
        after=after,
        refused_before=refused_before,
        refused_after=refused_after,
        by_last_bids=by_last_bids,
        state=state,
        fleet=current.fleet,
        told=told,
        is_use_closed=context.settings.is_cluster_use_closed,
        at=context.clock(),
        revision=revision,
        not_counted=pruned,
        last=last,
    )


@dataclass(frozen=True, kw_only=True)
class PlacementCounts:
    """How many executions went where."""

    counts: list[tuple[str, int]]  #: the most frequent first
    not_counted: str | None  #: what was pruned and might have been among them, in a sentence
    last: Place | None  #: what the executions that were not counted come after; None where all were


def count_placements(
    context: Context, by: str, conditions: Iterable[Condition], scope: Scope, after: Place | None = None
) -> PlacementCounts:
    """How many executions went to each cluster, pool or label, the most frequent first; of so many after a place."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        selected = [*conditions, *seen_executions(context)]
        page = execution_counts.count_page(
            connection, selected, by=[by], now=context.clock(), after=after, limits=context.list_limits
        )
        counts = [(group.values[0], group.count) for group in page.groups]
        pruned = find_not_counted(connection, selected)
    return PlacementCounts(
        counts=sorted(counts, key=lambda group: (-group[1], group[0])), not_counted=pruned, last=page.last
    )
