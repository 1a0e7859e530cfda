"""Placements: where an execution would run, and which would move after a change; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.changes import RowChange, RowWrite
from admin.core.executions.effective_settings import versions_in
from admin.core.executions.lifecycle import Phase
from admin.core.executions.placements import place
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.executions.received import received
from admin.core.executions.selectors import Condition
from admin.core.placement.decisions import render_candidates, switched_candidates
from admin.core.placement.routes import describe_rungs
from admin.core.problems import Invalid
from admin.core.provenance import Provenance, explain_refusal, versions_of
from admin.core.resources import Amounts, subtract
from admin.core.settings import trails
from admin.core.settings.scopes import Scope
from admin.errors import RainbowError
from admin.services.changes import planned_changes
from admin.services.context import Context
from admin.services.creations import generated_name
from admin.services.decision_views import StoredView, prepare, reason_of
from admin.services.executions import matching_in
from admin.services.explanations import Explanation
from admin.services.launches import find_launch
from admin.services.non_candidates import not_candidates
from admin.services.run_requests import CreationRequest, RunRequest, run_request_of
from admin.services.scopes import check_readable
from admin.store import execution_lists, executions, fleet, revisions
from admin.store.execution_lists import Place
from admin.store.executions import Execution


def where_would(context: Context, request: CreationRequest, proposed: Sequence[RowWrite] | None = None) -> Explanation:
    """Where a request would run now, or after a proposed change. Nothing is written."""
    changes = [] if proposed is None else planned_changes(context, proposed, force=True)
    named = request if request.name else request._replace(name=generated_name(request.run))
    with context.database.reading() as connection:
        try:
            view = StoredView(context, connection, proposed=changes)
            preparation = prepare(context, view, named)
        except Invalid as refusal:
            set_by = _set_by(connection, versions_of([refusal]), changes)
            raise explain_refusal(refusal, set_by or {}, context.clock()) from refusal
        steps = preparation.run_plan.effective.trail.body
        provenance = _set_by(connection, versions_in(steps), changes)
        placement, now = preparation.place(named.key), context.clock()
        run_plan, decision = placement.run_plan, placement.decision
        evaluation = decision.evaluation
        candidates = evaluation.trail.body
        switched_by = fleet.switched_by(connection, switched_candidates(candidates), now)
        others = not_candidates(context, connection, view.fleet, run_plan.route, candidates)
    return Explanation(
        id=named.id,
        cluster=decision.cluster,
        reason=decision.code,
        reason_message=decision.message,
        pool=run_plan.route.pool,
        label=run_plan.route.label,
        strategy=evaluation.strategy,
        revision=preparation.basis.revision,
        rungs=steps["rungs"],
        candidates=render_candidates(candidates, evaluation.scores, str(named.id), decision.cluster, switched_by, now),
        settings=steps["settings"],
        job=run_plan.job,
        queue=run_plan.queue,
        received=received(run_plan.job, request.run.spec.get("job"), steps["settings"]),
        rule=describe_rungs(steps["rungs"]),
        warnings=preparation.warnings(decision.cluster),
        provenance=provenance,
        not_candidates=others,
    )


def _set_by(
    connection: Connection, versions: Iterable[int], changes: Sequence[RowChange]
) -> Mapping[int, Provenance] | None:
    """The revisions of rows by their versions; None where changes are assumed.

    A row that they change has the version of before, which is not the revision that would set it.
    """
    return None if changes else revisions.provenance_of(connection, versions)


@dataclass(frozen=True, kw_only=True)
class SimulatedPlacement:
    """Where one execution would go, or why it would be refused."""

    cluster: str | None
    reason: str
    message: str
    pool: str | None = None
    label: str | None = None
    refused: bool = False

    @property
    def place(self) -> tuple[str | None, bool]:
        return self.cluster, self.refused


@dataclass(frozen=True, kw_only=True)
class Move:
    """An execution that would go elsewhere."""

    execution: Execution
    before: SimulatedPlacement
    after: SimulatedPlacement


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a change would do to recent executions."""

    compared: int
    moves: list[Move]
    before: Counter[str]  #: executions by cluster
    after: Counter[str]


class _Simulator:
    """Places many executions by one set of settings and one fleet."""

    def __init__(self, context: Context, connection: Connection, changes: list[RowChange]) -> None:
        self._rules = context.settings.rules
        self._view = StoredView(context, connection, proposed=changes)
        self._waiting = executions.taken_by_waiting(connection, self._view.fleet.clusters)
        self._run_plans: dict[str, RunPlan] = {}

    def place(self, execution: Execution, request: RunRequest, key: str) -> SimulatedPlacement:
        """Where one execution goes; the key is the same for equal requests."""
        try:
            run_plan = self._run_plans.get(key)
            if run_plan is None:
                resolved = find_launch(self._view.catalog, request)
                effective = self._view.effective_settings(resolved)
                run_plan = build_run_plan(resolved.launch, execution.name, effective, self._rules)
                self._run_plans[key] = run_plan
            workload = replace(run_plan.workload, key=str(execution.key))
            decision = place(replace(run_plan, workload=workload), self._view.fleet, self._loads(execution))
        except (Invalid, RainbowError) as refusal:
            reason, message = reason_of(refusal)
            return SimulatedPlacement(cluster=None, reason=reason, message=message, refused=True)
        return SimulatedPlacement(
            cluster=decision.cluster,
            reason=decision.code,
            message=decision.message,
            pool=run_plan.route.pool,
            label=run_plan.route.label,
        )

    def _loads(self, execution: Execution) -> Mapping[str, Amounts]:
        """What is taken of each cluster by what waits there, without the execution itself."""
        cluster = execution.cluster
        if execution.phase != Phase.QUEUED.value or cluster is None or cluster not in self._waiting:
            return self._waiting
        taken = execution.takes_of(self._view.fleet.clusters[cluster])
        return {**self._waiting, cluster: subtract(self._waiting[cluster], taken)}


def simulate(
    context: Context, proposed: Sequence[RowWrite], conditions: Iterable[Condition], scope: Scope
) -> Simulation:
    """Which executions would go elsewhere after a change: each is placed by the current and by the proposed state."""
    changes = planned_changes(context, proposed, force=True)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
    moves: list[Move] = []
    before, after = Counter[str](), Counter[str]()
    compared = 0
    with context.database.reading() as connection:
        current, changed = _Simulator(context, connection, []), _Simulator(context, connection, changes)
        for execution in matching_in(connection, conditions):
            request = run_request_of(execution)
            key = trails.digest([request.project, request.domain, request.body])
            compared += 1
            old, new = current.place(execution, request, key), changed.place(execution, request, key)
            before[old.cluster or ""] += 1
            after[new.cluster or ""] += 1
            if old.place != new.place:
                moves.append(Move(execution=execution, before=old, after=new))
    return Simulation(compared=compared, moves=moves, before=before, after=after)


def count_placements(context: Context, by: str, conditions: Iterable[Condition], scope: Scope) -> list[tuple[str, int]]:
    """How many executions went to each cluster, pool or label, the most frequent first."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        selected = list(conditions)
        counts = Counter[str]()
        after: Place | None = None
        while True:
            page = execution_lists.count_page(
                connection, selected, by=by, now=context.clock(), after=after, limits=context.list_limits
            )
            counts.update({group.value: group.count for group in page.groups})
            after = page.last
            if after is None:
                return sorted(counts.items(), key=lambda group: (-group[1], group[0]))
